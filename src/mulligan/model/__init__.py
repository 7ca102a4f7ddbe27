"""
The words of the domain: values without I/O.

Everything here is pure: paths that are safe by construction, git objects as bytes, checkpoints, diffs, plans.
Nothing here opens a file, reads a clock or knows where a store is.
"""
