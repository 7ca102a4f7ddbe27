"""
Objects in git's format, written by us.

The store is a bare git repository that plain git can read and check; no git process is ever started on it.
What a writer has finished survives a power cut; what is read was verified by its hash; what is damaged is named, never
returned. History, ancestry and retention are not known here: this package keeps bytes by their id.
"""
