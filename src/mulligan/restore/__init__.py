"""
History → workspace.

A pure planner says what would change; the executor stages every new file first, then puts them in place one by one in a
way that no instant shows half a file, and keeps what no plan foresaw. The journal in the timeline lets the next command
finish what a crash cut short.
"""
