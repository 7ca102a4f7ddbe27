"""State that a checkpoint holds besides files: values that registered providers save and restore."""
