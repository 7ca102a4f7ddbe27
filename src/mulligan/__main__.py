"""`python -m mulligan` is the command line."""

import sys

from mulligan.cli import process

sys.exit(process())
