"""The agent's own layer: when its loop saves, how it recovers, and pipelines of steps that agents carry out."""
