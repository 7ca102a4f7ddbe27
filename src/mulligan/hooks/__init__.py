"""
What agents tell us while they work, and what we make of it.

Each client has its own events and its own way to be answered: `clients` translates, `handling` does the work, which is one call
of the engine. No failure here may stop an agent: it is reported in the agent's own channel and remembered for
`mulligan status`.
"""
