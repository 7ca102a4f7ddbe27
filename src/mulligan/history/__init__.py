"""
Questions about history: which part of it is meant, which prompt wrote a line, where a text is, what an agent really did.

Reads checkpoints and events, and changes nothing. A save or a restore loads none of it.
"""
