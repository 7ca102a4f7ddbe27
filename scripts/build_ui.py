"""
Builds the web page's one script from `src/mulligan/ui/front` and the pinned packages of the npm registry.

    python scripts/build_ui.py            writes src/mulligan/ui/static/app.js and VENDORED.json
    python scripts/build_ui.py --check    builds elsewhere and fails where the committed files differ

Needs Node and npm; nothing else of mulligan does. A new version of a package is a change of `PINNED` here.
"""

# ruff: noqa: INP001, S603, T201 - a script, not a package; it starts npm and esbuild, and prints
from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FRONT = ROOT / "src" / "mulligan" / "ui" / "front"
STATIC = ROOT / "src" / "mulligan" / "ui" / "static"
PINNED = {
    "preact": "11.2.0",
    "htm": "3.1.1",
    "@preact/signals": "2.11.4",
    "@preact/signals-core": "1.14.5",
    "@tanstack/virtual-core": "3.19.11",
    "prismjs": "1.30.0",
}
ESBUILD = "0.28.2"
BANNER = "/* Built by scripts/build_ui.py from src/mulligan/ui/front; libraries and licences: VENDORED.json */"


def build(work: Path) -> dict[str, bytes]:
    """Returns the files of `static` that are made: the script, and the list of what is in it."""
    packages = [f"{name}@{version}" for name, version in PINNED.items()]
    (work / "package.json").write_text("{}")
    install = [
        "npm",
        "install",
        "--silent",
        "--no-audit",
        "--fetch-retries=1",
        "--fetch-timeout=30000",
        "--no-fund",
        "--ignore-scripts",
        "--save-exact",
        "--prefix",
        str(work),
    ]
    subprocess.run([*install, *packages], check=True)
    # The compiler is a program that its own script puts into place.
    subprocess.run([word for word in install if word != "--ignore-scripts"] + [f"esbuild@{ESBUILD}"], check=True)
    (work / "front").symlink_to(FRONT)
    command = [
        str(work / "node_modules" / ".bin" / "esbuild"), "front/main.js", "--bundle", "--minify", "--format=esm", "--target=es2022",
        "--legal-comments=none", "--charset=ascii", "--preserve-symlinks", f"--banner:js={BANNER}", "--outfile=app.js",
    ]  # fmt: skip
    subprocess.run([*command, "--log-level=warning"], cwd=work, check=True)
    script = (work / "app.js").read_bytes()
    return {"app.js": script, "VENDORED.json": listed(work, script)}


def listed(work: Path, script: bytes) -> bytes:
    """Returns the list of what was vendored: name, version, licence, where from, and digests."""
    lock = json.loads((work / "package-lock.json").read_text())["packages"]
    libraries = []
    for name, version in PINNED.items():
        about = json.loads((work / "node_modules" / name / "package.json").read_text())
        if about["version"] != version:
            sys.exit(f"{name} is {about['version']}, not {version}")
        licence = next(iter(sorted((work / "node_modules" / name).glob("LICENSE*"))))
        libraries.append(
            {
                "name": name,
                "version": version,
                "licence": about["license"],
                "integrity": lock[f"node_modules/{name}"]["integrity"],
                "licence_sha256": hashlib.sha256(licence.read_bytes()).hexdigest(),
            }
        )
    document = {
        "built_with": f"esbuild {ESBUILD}",
        "libraries": libraries,
        "files": {"app.js": hashlib.sha256(script).hexdigest()},
        "sources": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(FRONT.glob("*.js"))},
    }
    return (json.dumps(document, indent=2) + "\n").encode()


def main() -> int:
    """Builds, and writes or compares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with the committed files and write nothing")
    check = parser.parse_args().check
    with tempfile.TemporaryDirectory() as folder:
        made = build(Path(folder))
    if not check:
        for name, data in made.items():
            (STATIC / name).write_bytes(data)
        return 0
    different = [name for name, data in made.items() if (STATIC / name).read_bytes() != data]
    for name in different:
        print(f"{name} is not what the sources make")
    return bool(different)


if __name__ == "__main__":
    sys.exit(main())
