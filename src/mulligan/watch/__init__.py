"""
What changed since the last look, without looking: the kernel's notices, kept until a checkpoint holds what they tell of.

A watcher never says what a file holds. It says where to look again; everything else is as it was.
"""
