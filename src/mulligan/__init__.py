"""mulligan: checkpoints and rollback for coding agents."""
