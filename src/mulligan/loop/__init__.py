"""The agent's own layer: when its loop saves, how it recovers, and pipelines of steps that agents carry out."""

import logging

# Silent until the program that embeds mulligan asks for it.
logging.getLogger("mulligan").addHandler(logging.NullHandler())
