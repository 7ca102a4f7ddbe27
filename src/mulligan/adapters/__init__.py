"""
Agents that are written in Python: mulligan in the places where each library lets others look on.

    openai_agents   hooks of a run of the OpenAI Agents SDK
    claude_agent    hooks of the Claude Agent SDK
    pydantic_ai     a capability of a PydanticAI agent
    langgraph       our checkpoint beside each of LangGraph's own; going back brings the files too

Each module imports its library, and nothing else in mulligan imports the module. They tell the engine what happened, in the words
that `hooks` uses for agents with a command line, so `mulligan undo` takes back a turn and `mulligan log` tells the story. Trouble of
ours never stops an agent: it is logged, kept in `troubles`, and shown by `mulligan status`.
"""
