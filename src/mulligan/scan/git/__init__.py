"""
The user's git repository, read as data.

Everything here only reads: HEAD, refs, the index, exclude files, and the few objects that say what HEAD holds. No git
process is started, no setting of the repository's config is obeyed, no lock is taken and nothing is written.
The files may come from anybody: whatever cannot be understood counts as unknown, and no error leaves this package.
"""
