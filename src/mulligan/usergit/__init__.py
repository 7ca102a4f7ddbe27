"""The user's own repository: the few places that change it, for those who promise that."""
