"""
The MCP server: the verbs for a model.

A model reads untrusted file contents and may follow instructions in them. So its door is narrower than the others:
the root is fixed when the server starts, history can be added to and never taken from (`append_only`), a restore needs a plan
that this very server made and showed, and everything from the workspace comes back as data: bounded, with control characters
written out. No rule of the domain is here; the engine holds them.

`tools`, `resources` and `prompts` say what there is, `shapes` what a tool answers; `server` gives it to the official SDK; `stdio` is the wire.
"""
