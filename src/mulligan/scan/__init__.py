"""
Workspace → changes.

Walks the workspace from an open root, decides what is in scope, reads what changed, and returns trees together with a
list of everything that is not in them. Reads only; the stat cache is the one thing it writes, into the store.
"""
