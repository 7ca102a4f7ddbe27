"""
Putting mulligan's own files where an agent looks for them, and taking them away again.

A file that a person changed is never overwritten or removed without their word, and then a copy stays. Each target is one entry
in `targets`; everything else is the same for all of them.
"""
