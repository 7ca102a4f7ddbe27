"""
The process around `mulligan ui`: one server per project, found by the next one, and a browser that opens its link.

The token of a link is never an argument of a process, which other users could list: the browser is given a page in the user's
private directory that leads to it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from mulligan.cli import client as wire
from mulligan.cli import watchers
from mulligan.errors import Busy, UserError
from mulligan.safefs.userfile import read_user_file, remove_user_file, write_private_file

if TYPE_CHECKING:
    from mulligan.model.policy import Settings

Place = watchers.WatcherPlace
_LARGEST = 4096
_PATIENCE = 3.0


def place_of(settings: Settings, environ: dict[str, str]) -> Place:
    """Returns where the server of a workspace is found, whether there is one or not."""
    directory = wire.run_directory(environ)
    if not directory:
        raise UserError("There is no private directory for the server. Nothing was started.", hint="Set HOME")
    store = hashlib.sha256(os.fsencode(settings.store)).hexdigest()[:16]
    return Place(directory, f"ui-{wire.name_of(settings.workspace)}{store}")


def remember(place: Place, address: str, key: str) -> None:
    """Leaves a note, for this user only, by which the next `mulligan ui` finds this one."""
    forget(place)
    write_private_file(place.directory, f"{place.name}.json", json.dumps({"address": address, "key": key}).encode())


def forget(place: Place) -> None:
    """Removes the notes of a server that ends."""
    for ending in ("json", "html"):
        remove_user_file(f"{place.directory}/{place.name}.{ending}")


def last_port(place: Place) -> int:
    """Returns the port of a server that did not get to remove its note, 0 where there is none: its pages ask there."""
    try:
        note = json.loads(read_user_file(f"{place.directory}/{place.name}.json", limit=_LARGEST) or b"")
        return int(str(note["address"]).rpartition(":")[2])
    except (OSError, ValueError, LookupError, TypeError):
        return 0


def further_link(place: Place) -> str:
    """Returns a new link to the server that runs; raises Busy where it does not answer."""
    from http.client import HTTPConnection, HTTPException

    try:
        note: dict[str, Any] = json.loads(read_user_file(f"{place.directory}/{place.name}.json", limit=_LARGEST) or b"")
        address = str(note["address"])
        server = HTTPConnection(address.removeprefix("http://"), timeout=_PATIENCE)
        headers = {"Authorization": f"Bearer {note['key']}", "Origin": address, "Content-Type": "application/json"}
        server.request("POST", "/api/links", b"{}", headers)
        token = json.loads(server.getresponse().read())["token"]
        server.close()
    except (OSError, ValueError, LookupError, TypeError, HTTPException) as error:
        process = watchers.running(place)
        raise Busy(
            f"Another `mulligan ui` of this project runs (process {process}) and did not answer.",
            hint=f"kill {process}, then: mulligan ui" if process else "mulligan ui",
        ) from error
    return f"{address}/#{token}"


def show(place: Place, url: str) -> None:
    """Opens the browser on a private page that leads to a link."""
    import webbrowser

    remove_user_file(f"{place.directory}/{place.name}.html")
    text = (
        f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url={url}"><title>mulligan</title>'
    )
    page = write_private_file(place.directory, f"{place.name}.html", text.encode())
    with suppress(webbrowser.Error):
        webbrowser.open(f"file://{page}")


def advice(url: str, environ: Mapping[str, str]) -> list[str]:
    """Returns what to type where no browser can be opened, over ssh and in a container; nothing where one can."""
    port = url.partition("/#")[0].rpartition(":")[2]
    if environ.get("SSH_CONNECTION"):
        host = environ["SSH_CONNECTION"].split()[2:3] or ["HOST"]
        return [
            "You are connected by ssh. On your own machine, type the following, then open the address there:",
            f"  ssh -N -L {port}:127.0.0.1:{port} {host[0]}",
        ]
    if any(map(os.path.exists, ("/.dockerenv", "/run/.containerenv"))):
        return [
            f"This is a container: its 127.0.0.1 is not your browser's. Forward port {port} (editors with dev containers do),",
            "start the container with --network host, or take a file out: mulligan ui --export timeline.html",
        ]
    return []
