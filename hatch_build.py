"""
Builds the native parts with the package, and gives its description links that work outside the repository.

Without a C compiler, or with MULLIGAN_NATIVE=0, the wheel is pure Python.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

FLAGS = ("-O2", "-Wall", "-Wextra", "-fstack-protector-strong")
LOOK = "mulligan/_native/look.so"
#: Where the project lives, as a release knows it: https://HOST/OWNER/NAME, with the paths of GitHub.
ADDRESS = "MULLIGAN_PROJECT_URL"
_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?://|#)([^)\s]+)\)")


class AddressHook(MetadataHookInterface):
    """Makes the README's links absolute and lists the project's pages, where ADDRESS is set; else neither."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Sets the description and the addresses of the project."""
        text = Path(self.root, "README.md").read_text("utf-8")
        address = os.environ.get(ADDRESS, "").rstrip("/")
        if address:
            at = f"v{metadata['version']}"
            metadata["urls"] = {
                "Homepage": address,
                "Documentation": f"{address}/blob/{at}/docs/README.md",
                "Changes": f"{address}/blob/{at}/CHANGELOG.md",
                "Source": address,
                "Issues": f"{address}/issues",
            }
            text = _LINK.sub(
                lambda found: f"{found[1]}[{found[2]}]({address}/{'raw' if found[1] else 'blob'}/{at}/{found[3]})",
                text,
            )
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


class NativeBuildHook(BuildHookInterface[Any]):
    """Compiles `native/client.c` into `bin/mulligan-client` and `native/look.c` into a library of the package."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Adds what can be compiled to the wheel, and tags it for this platform."""
        compiler = shlex.split(os.environ.get("CC", "cc"))
        if os.environ.get("MULLIGAN_NATIVE") == "0" or sys.platform != "linux" or shutil.which(compiler[0]) is None:
            return
        self._folder = tempfile.mkdtemp()
        client, look = os.path.join(self._folder, "mulligan-client"), os.path.join(self._folder, "look.so")
        named = f'-DVERSION="{self.metadata.version}"'
        # Without a loader the client takes 0.45 ms instead of 0.59; not every system has the library for that.
        if any(self._compile([*compiler, "-std=gnu11", named, *how], "client.c", client) for how in (["-static"], [])):
            build_data["shared_scripts"][client] = "mulligan-client"
        if self._compile([*compiler, "-std=c99", "-shared", "-fPIC", "-pthread"], "look.c", look):
            if version == "editable":  # the package is imported from where it is
                (place := Path(self.root, "src", LOOK)).parent.mkdir(exist_ok=True)
                # Under a new name first: a running process that has the old one mapped would crash.
                shutil.copy(look, place.with_suffix(".new"))
                place.with_suffix(".new").replace(place)
            else:
                build_data["force_include"][look] = LOOK
        if not os.listdir(self._folder):
            return
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002 - as given
        """Removes what is in the wheel by now."""
        shutil.rmtree(getattr(self, "_folder", ""), ignore_errors=True)

    def _compile(self, words: list[str], source: str, target: str) -> bool:
        """Returns whether a source could be compiled; says so where it could not."""
        words = [*words, *FLAGS, os.path.join(self.root, "native", source), "-o", target]
        done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603 - the user's own compiler
        if done.returncode:
            self.app.display_warning(f"{shlex.join(words)}: {done.stderr}")
        return done.returncode == 0
