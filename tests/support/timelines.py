"""Timelines as agents leave them, made by the engine's own verbs: a believable one, and a very long one."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import mulligan
from mulligan.engine.workspace import Workspace
from mulligan.model.event import AFTER, BEFORE, FAILED, PROMPT, STOP, AgentEvent

CART = '''"""The shopping cart."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal


@dataclass
class Item:
    """One article in the cart."""

    name: str
    price: Decimal
    quantity: int = 1


@dataclass
class Cart:
    """What a customer is about to buy."""

    items: list[Item] = field(default_factory=list)

    def add(self, item: Item) -> None:
        self.items.append(item)

    def total(self) -> Decimal:
        return sum((item.price * item.quantity for item in self.items), Decimal(0))
'''
LOGIN = """import hashlib


def check(user, password):
    stored = user.password
    return hashlib.md5(password.encode()).hexdigest() == stored
"""
STYLE = "body {\n  font: 16px/1.5 sans-serif;\n  color: #222;\n}\n\n.cart {\n  display: grid;\n  gap: 8px;\n}\n"


def png(colour: tuple[int, int, int], size: int = 96) -> bytes:
    """A picture of one colour with a lighter square in it."""
    light = tuple(min(255, part + 70) for part in colour)
    inside = range(size // 4, size * 3 // 4)
    rows = b"".join(
        b"\0" + b"".join(bytes(light if x in inside and y in inside else colour) for x in range(size))
        for y in range(size)
    )

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


class Agent:
    """One session of an agent: prompts, and tools that change files."""

    def __init__(self, workspace: Workspace, name: str, session: str) -> None:
        self.workspace, self.name, self.session, self.calls = workspace, name, session, 0

    def tell(self, kind: str, **about: object) -> None:
        self.workspace.record(AgentEvent(self.name, self.session, kind, **about))

    def prompt(self, text: str) -> None:
        self.tell(PROMPT, text=text)

    def tool(self, name: str, text: str, change: Callable[[], object] = lambda: None, *, fails: bool = False) -> None:
        self.calls += 1
        call = f"call-{self.calls}"
        self.tell(BEFORE, tool=name, call=call, text=text)
        change()
        self.tell(FAILED if fails else AFTER, tool=name, call=call, text=text)

    def stop(self) -> None:
        self.tell(STOP)


def shop(root: Path, store: Path | None = None) -> Workspace:
    """A small shop on which two agents worked: edits, a picture, a deletion, an undone prompt, a person's checkpoint."""
    write = _writer(root)
    write("README.md", "# shop\n\nA small shop.\n")
    write("src/shop/cart.py", CART)
    write("src/shop/login.py", LOGIN)
    write("src/shop/style.css", STYLE)
    write("tests/test_cart.py", "def test_an_empty_cart_costs_nothing():\n    assert True\n")
    write("assets/logo.png", png((60, 70, 160)))
    workspace = mulligan.open(root, store=store)
    workspace.save("before the agents", description="the shop as it was released")
    claude = Agent(workspace, "claude-code", "1bd24cd5-7c11-4a4e-9f5b-0d6f7a1c2e3b")
    _first_day(claude, write, root)
    codex = Agent(workspace, "codex", "c0de9f31-22aa-4f0e-8c1d-5b6a7c8d9e0f")
    codex.prompt("Hash passwords with argon2 instead of md5")
    codex.tool("Bash", "rg -n md5 src")
    better = LOGIN.replace("import hashlib\n", "from argon2 import PasswordHasher\n\n_HASHER = PasswordHasher()\n")
    better = better.replace(
        "    return hashlib.md5(password.encode()).hexdigest() == stored\n",
        '    """Returns whether this is the password of a user."""\n    return _HASHER.verify(stored, password)\n',
    )
    codex.tool("apply_patch", "src/shop/login.py", lambda: write("src/shop/login.py", better))
    codex.tool("Bash", "pytest -q tests", fails=True)
    codex.stop()
    workspace.save("passwords are safe", description="reviewed")
    claude.prompt("Now clean up: remove everything we do not need")
    claude.tool(
        "Bash",
        "rm -rf tests assets",
        lambda: _remove(root, "tests/test_cart.py", "tests/test_discount.py", "assets/logo.png"),
    )
    claude.tool("Write", "NOTES.md", lambda: write("NOTES.md", "# Notes\n\nEverything is clean now.\n"))
    claude.stop()
    workspace.undo()
    claude.prompt("Write a section on discounts for the README")
    claude.tool(
        "Edit",
        "README.md",
        lambda: write(
            "README.md",
            "# shop\n\nA small shop.\n\n## Discounts\n\nA code takes a share off the total: `SPRING` takes ten percent.\n",
        ),
    )
    claude.stop()
    return workspace


def _first_day(claude: Agent, write: Callable[[str, str | bytes], None], root: Path) -> None:
    discount = (
        CART.replace(
            "    def total(self) -> Decimal:\n        return sum(",
            '    def total(self, discount: Decimal = Decimal(0)) -> Decimal:\n        """Returns the price of everything, less a share between 0 and 1."""\n'
            "        if not 0 <= discount < 1:\n            raise ValueError(discount)\n        full = sum(",
        ).rstrip()
        + "\n        return full * (1 - discount)\n"
    )
    test = 'from decimal import Decimal\n\nimport pytest\n\nfrom shop.cart import Cart, Item\n\n\ndef test_a_discount_is_taken_off():\n    cart = Cart([Item("tea", Decimal(10))])\n    assert cart.total(Decimal("0.1")) == 9\n'
    claude.prompt("Add discount codes to the cart, with tests")
    claude.tool("Read", "src/shop/cart.py")
    claude.tool("Edit", "src/shop/cart.py", lambda: write("src/shop/cart.py", discount))
    claude.tool("Write", "tests/test_discount.py", lambda: write("tests/test_discount.py", test))
    claude.tool(
        "Bash", "pytest -q", lambda: write("src/shop/cart.py", discount.replace("full = sum(", "full: Decimal = sum("))
    )
    claude.stop()
    write("src/shop/style.css", STYLE.replace("#222", "#1a1e26"))
    claude.prompt("Make the logo green and the page a little calmer")
    claude.tool(
        "Bash", "python tools/recolour.py assets/logo.png", lambda: write("assets/logo.png", png((30, 120, 70)))
    )
    claude.tool(
        "Edit",
        "src/shop/style.css",
        lambda: write(
            "src/shop/style.css",
            STYLE.replace("#222", "#1a1e26").replace("gap: 8px", "gap: 12px;\n  align-items: start"),
        ),
    )
    claude.stop()


def _writer(root: Path) -> Callable[[str, str | bytes], None]:
    def write(path: str, content: str | bytes) -> None:
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)

    return write


def _remove(root: Path, *paths: str) -> None:
    for path in paths:
        os.unlink(root / path)


def long(root: Path, steps: int, store: Path | None = None) -> Workspace:
    """A timeline of many steps; the caller's configuration must keep so many."""
    for number in range(20):
        (root / f"module_{number}.py").write_text("".join(f"value_{line} = {line}\n" for line in range(40)))
    workspace = mulligan.open(root, store=store)
    workspace.save("first")
    agent = Agent(workspace, "claude-code", "10000000-0000-4000-8000-000000000000")
    with workspace.watch():
        for number in range(steps):
            if number % 25 == 0:
                agent.prompt(f"Prompt {number // 25 + 1}: rename value {number} everywhere")
            name = f"module_{number % 20}.py"
            agent.tool(
                "Edit", name, lambda name=name, number=number: _append(root / name, f"more_{number} = {number}\n")
            )
    return workspace


def _append(path: Path, text: str) -> None:
    with path.open("a") as stream:
        stream.write(text)


def crowded(root: Path, steps: int, store: Path | None = None) -> Workspace:
    """
    A timeline with as many rows of prompts and tool calls as it keeps events, written in one transaction.

    None of the calls changed a file: recording each by itself takes minutes on a busy machine.
    """
    (root / "a.txt").write_text("one\n")
    workspace = mulligan.open(root, store=store)
    here, name, session = workspace.save("first").id, "claude-code", "10000000-0000-4000-8000-000000000000"
    with workspace.bench.writing("hook"):
        known = workspace.bench.store
        begun = workspace.bench.now_ns()
        with known.database.transaction():
            for number in range(steps):
                if number % 25 == 0:
                    event = AgentEvent(name, session, PROMPT, text=f"Prompt {number // 25 + 1}")
                else:
                    text = f"step_{number - number // 25 - 1}.py"
                    event = AgentEvent(name, session, AFTER, tool="Read", call=f"call-{number}", text=text)
                place = known.events.place(event, begun)
                known.events.add(event, place, here, saved=False, now_ns=begun + number * 1_000_000)
    return workspace
