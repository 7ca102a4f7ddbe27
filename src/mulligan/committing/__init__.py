"""
Commits on the user's own branch, for those who promise them: the agent loop, environments and forks.

Runs git, with everything off that could start a program (`commands`). The core reads and moves repositories as data (`usergit`)
and imports nothing from here.
"""
