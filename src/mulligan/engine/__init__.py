"""The verbs: save, restore, undo and the rest, each as one procedure over scan, store, timeline and restore."""
