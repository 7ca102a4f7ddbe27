"""Several ways from one point: forks side by side, the step that broke a command, any command watched. Runs what you name."""
