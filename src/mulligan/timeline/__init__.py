"""
Objects → history.

Which checkpoints exist, in which order, what the position is, how undo walks, what may be forgotten. The timeline is one
SQLite database in the store; each checkpoint's metadata also lives in its commit, so that a lost database is rebuilt.
"""
