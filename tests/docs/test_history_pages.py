"""
The transcripts of the pages on blame, search and reports are what the commands print.

The project that the pages talk about is played here; each `$ mulligan …` of a page is then run in it. Ids, times and ages
differ from run to run, and are not compared.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

import mulligan
from told import Session, write
from tools import cli

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("who-wrote-this-line", "find-when-it-happened", "hand-over-a-report")
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SESSION = "1bd24cd5-5c1e-4f0a-9a53-6f6c0b6f2a10"

SHOP = "def total(prices):\n    return sum(prices)\n"
DISCOUNT = "\n\ndef discount(price):\n    return price * 0.9\n"
TAX = "\n\ndef tax(price):\n    return price * 0.19\n"


def play(shop: Path) -> None:
    """A day in a shop: a save, two prompts, an edit by hand between them, a script that writes what nothing named."""
    write(shop, {"shop.py": SHOP, "debug.txt": "started\n", ".env": "TOKEN=abcdefgh12345678\n"})
    mulligan.open(shop).save("before the agent")
    agent = Session(shop, SESSION)
    agent.prompt("add a discount of ten percent")
    agent.does("cat discount.txt >> shop.py", {"shop.py": SHOP + DISCOUNT})
    agent.stop()
    write(shop, {"shop.py": SHOP + "# checked by hand\n" + DISCOUNT})
    agent.prompt("add the tax and clean up")
    agent.does("python add_tax.py", {"shop.py": SHOP + "# checked by hand\n" + DISCOUNT + TAX})
    agent.does("rm debug.txt", {"debug.txt": None})
    agent.does("make docs", {"docs/index.html": "<h1>shop</h1>\n"})
    agent.stop()


@pytest.fixture
def shop(tmp_path, private_home):
    """The shop, and a key to sign with."""
    play(tmp_path / "shop")
    (private_home / ".ssh").mkdir(mode=0o700)
    if shutil.which("ssh-keygen"):
        key = private_home / ".ssh" / "id_ed25519"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
        public = key.with_suffix(".pub").read_text()
        (tmp_path / "shop" / "allowed_signers").write_text(f"you@example.org {public}")
    return tmp_path / "shop"


def commands(page: str) -> list[tuple[list[str], str]]:
    """The commands of a page, each with what the page shows of its output."""
    text = (ROOT / "docs" / "howto" / f"{page}.md").read_text(encoding="utf-8")
    parts = [part for block in CONSOLE.findall(text) for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    return [(shlex.split(head)[1:], shown) for head, _, shown in (part.partition("\n") for part in parts)]


def comparable(text: str) -> list[str]:
    """Output without what differs from run to run."""
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME", text)
    text = re.sub(r"just now|\d+ (?:s|min|h|days?) ago", "AGO", text)
    text = re.sub(r"SHA256:[\w+/]+|\b[0-9a-f]{8,64}\b…?", "ID", text)
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


@pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="ssh-keygen is not installed")
@pytest.mark.parametrize("page", PAGES)
def test_transcripts_are_what_the_commands_print(page, shop):
    found = commands(page)
    assert found
    for words, shown in found:
        done = cli(*words, cwd=shop)
        assert comparable(done.stdout + done.stderr) == comparable(shown), words
