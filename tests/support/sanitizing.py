"""Native code with a main program of its own, built under the compiler's sanitizers; where there are none, the test says so."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

#: How the compiler reads the source from its standard input, and what it is to be strict about.
STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pthread", "-x", "c", "-")


def sanitized(source: bytes, at: Path, kind: str = "address,undefined") -> Path:
    """Builds a program that ends where a sanitizer finds something."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    given = ["cc", "-O1", "-g", f"-fsanitize={kind}", "-fno-sanitize-recover=all", *STRICT, "-o", at]
    made = subprocess.run(given, input=source, capture_output=True, check=False)
    if made.returncode and re.search(rb"sanitize|lib(?:a|t|ub)san", made.stderr):
        pytest.skip("the compiler has no sanitizers")
    assert made.returncode == 0, made.stderr.decode()
    return at
