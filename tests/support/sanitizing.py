"""Programs in C around the compiled part, built under the compiler's sanitizers; where there are none, the test says so."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from mulligan.safefs import compiled

#: How the compiler reads the compiled part from its standard input, and what it is to be strict about.
STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pthread", "-x", "c", "-")


def sanitized(main: bytes, at: Path, kind: str = "address,undefined") -> Path:
    """Builds the compiled part with a main program behind it; what a sanitizer finds ends that."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    given = ["cc", "-O1", "-g", f"-fsanitize={kind}", "-fno-sanitize-recover=all", *STRICT, "-o", at]
    made = subprocess.run(given, input=compiled.source() + main, capture_output=True, check=False)
    if made.returncode and re.search(rb"sanitize|lib(?:a|t|ub)san", made.stderr):
        pytest.skip("the compiler has no sanitizers")
    assert made.returncode == 0, made.stderr.decode()
    return at
