"""
The only code that touches disks.

Everything that opens, creates, renames or removes a file of a workspace or a store is in this package, and every such call
goes through one seam (`syscalls.calls`), so that a test can make the n-th call fail, record the calls, or tell a lie.

Promises: a path is walked name by name from an open root, never through a symbolic link; what `durable` acknowledges
survives a power cut; a lock dies with the process that holds it.
"""
