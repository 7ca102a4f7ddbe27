"""Other systems' interfaces over mulligan's engine: change one import and keep your code."""
