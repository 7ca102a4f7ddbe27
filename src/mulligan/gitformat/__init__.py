"""Git's own formats: records, packs, indexes of packs and deltas, for the store and for the user's repository alike."""
