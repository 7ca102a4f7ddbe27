"""
The user's git repository: read it, move it.

Reading (`repository`, `refs`, `objects`, `index`, `status`, `trust`, `records`) starts no git process, obeys no setting
of the repository's config, takes no lock and writes nothing. The files are untrusted: what cannot be understood
counts as unknown, and no error leaves these modules.
Moving (`position`, `next_index`, `locks`, `moving`) changes HEAD, branches and the index by git's own locks.
No git is run here: `committing` does that, outside the core.
"""
