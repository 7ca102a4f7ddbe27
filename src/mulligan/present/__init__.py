"""
Text for people, shared by every door: diffs, statistics, and names that are safe to print.

Nothing here prints or knows a terminal; callers pass the width and whether colour is wanted.
"""
