"""`python -m mulligan` is the command line."""

import sys

from mulligan.cli import main

sys.exit(main())
