"""Modules beside the tests of this folder are imported by plain name, whatever import mode pytest runs in."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
