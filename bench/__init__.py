"""The benchmark: what a checkpoint costs, here and in the tools people use today, in one run on one generated tree."""
