"""
Agents that are written in Python: mulligan in the places where each library lets others look on.

    openai_agents    hooks of a run of the OpenAI Agents SDK
    claude_agent     hooks of the Claude Agent SDK
    pydantic_ai      a capability of a PydanticAI agent
    langchain        middleware of LangChain's `create_agent`, and of deepagents
    langgraph        our checkpoint beside each of LangGraph's own; going back brings the files too
    google_adk       a plugin of Google's Agent Development Kit
    strands          hooks of a Strands agent
    agent_framework  middleware of Microsoft's Agent Framework
    crewai           hooks around the tools of crews
    smolagents       an agent whose runs are saved
    agno             hooks of an Agno agent

Each module imports its library, and nothing else in mulligan imports the module. They tell the engine what happened, in the words
that `hooks` uses for agents with a command line, so `mulligan undo` takes back a turn and `mulligan log` tells the story. Trouble of
ours never stops an agent: it is logged, kept in `troubles`, and shown by `mulligan status`.
"""
