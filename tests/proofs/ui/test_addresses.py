"""Generated requests to every address: schemathesis asks, the server must never fail, and must answer as described."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from served import served
from timelines import shop

DOCUMENT = Path(__file__).parents[3] / "src/mulligan/ui/openapi.json"


def test_no_generated_request_makes_the_server_fail(project, store, tmp_path):
    pytest.importorskip(
        "schemathesis", reason="the addresses get no generated requests: pip install 'mulligan[ui-test]'"
    )
    examples = str(25 * int(os.environ.get("MULLIGAN_SWEEP", "1")))
    with served(shop(project, store)) as client:
        headers = {"Cookie": client.cookie, "Origin": f"http://{client.host}"}
        command = [
            *(
                sys.executable,
                "-c",
                "import sys; from schemathesis.cli import schemathesis; sys.exit(schemathesis())",
                "run",
            ),
            *(
                str(DOCUMENT),
                "--url",
                f"http://{client.host}",
                "--exclude-path",
                "/api/events",
                "--max-examples",
                examples,
            ),
            *("--checks", "not_a_server_error,response_schema_conformance,content_type_conformance"),
            *(
                "--phases",
                "examples,coverage,fuzzing",
                "--generation-database",
                "none",
                "--suppress-health-check",
                "all",
            ),
            *(word for name, value in headers.items() for word in ("-H", f"{name}: {value}")),
        ]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
