"""What a container environment is made of: the engine, its archives and commands, its checkpoints and their journal."""
