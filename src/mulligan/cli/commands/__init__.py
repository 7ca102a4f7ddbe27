"""The commands, one file each; only the one that was asked for is ever imported."""
