"""
Two states compared: which paths differ, which were renamed, the patch between them.

Pure: everything here works on objects and bytes that the caller reads, opens nothing, and has a bound on what it will
spend on any one file, so that a hostile or merely huge workspace costs seconds at most.
"""
