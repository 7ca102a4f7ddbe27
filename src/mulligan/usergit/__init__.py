"""
The user's git repository: read it, move it, commit to it.

Reading (`repository`, `refs`, `objects`, `index`, `status`, `trust`, `records`) starts no git process, obeys no setting
of the repository's config, takes no lock and writes nothing. The files are untrusted: what cannot be understood
counts as unknown, and no error leaves these modules.
Moving (`position`, `next_index`, `locks`, `moving`) changes HEAD, branches and the index by git's own locks.
Committing (`commands`, `commits`, `labels`) runs git, with everything off that could start a program.
"""
