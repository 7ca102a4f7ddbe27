"""
Writes docs/reference/mcp.md from the tools, resources and prompts themselves.

    python scripts/generate_mcp_reference.py          write the page
    python scripts/generate_mcp_reference.py --check  exit 1 if the page is not current
"""

# ruff: noqa: INP001 - a script, not a package
from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mulligan.mcp import bounds, prompts, resources
from mulligan.mcp.tools import TOOLS, Tool

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "mcp.md"

HEAD = f"""\
# MCP server

<!-- Written by scripts/generate_mcp_reference.py from the server itself; edit that. -->

`mulligan mcp` serves the Model Context Protocol on standard input and output, `mulligan mcp --http` over streamable HTTP on 127.0.0.1 with a token; how to give it to an agent is in [the guide](../howto/mcp.md).

- The workspace is fixed when the server starts. No tool takes a directory.
- No tool deletes a checkpoint, frees the store or forgets a path, and nothing that the server does pushes an older checkpoint out ([why](../decisions/0012-the-model-cannot-delete-history.md)).
- Calls are carried out one after another, in the order they came. A cancelled call that waits, or is still reading files, is left off; a restore that has begun is finished.
- A message to the server has at most 1 MiB. An argument that is not listed here is refused.
- Lists in results are `{{"items": […], "total": n, "more": n}}` with at most {bounds.PATHS} paths; long texts come in parts of about {bounds.TEXT:,} characters, `{{"text": …, "next_offset": n or null}}`. Control characters, direction marks and bytes that are not UTF-8 are written as escapes.
- What cannot be done is an answer with `isError` and the text `{{"error": {{"type", "message", "hint"}}}}`; the types are those of [the library](exit-codes.md).
"""


def page() -> str:
    """Returns the whole page."""
    lines = [HEAD, "## Tools", "", "| tool | reads only | destructive | may be repeated |", "|---|---|---|---|"]
    lines += [
        f"| `{tool.name}` | {_yes(tool.reads_only)} | {_yes(tool.destroys)} | {_yes(tool.reads_only or tool.repeatable)} |"
        for tool in TOOLS.values()
    ]
    lines += [
        "",
        "These are the annotations `readOnlyHint`, `destructiveHint` and `idempotentHint`; `openWorldHint` is false for all.",
    ]
    for tool in TOOLS.values():
        lines += _tool(tool)
    lines += ["", "## Resources", "", "| address | what | type |", "|---|---|---|"]
    lines += [
        f"| `{each.uri}` | {each.description} | `{each.mime}` |" for each in (*resources.FIXED, *resources.TEMPLATES)
    ]
    lines += ["", "`resources/list` names the first three and every checkpoint, a page at a time."]
    lines += ["", "## Prompts", "", "| prompt | what | arguments |", "|---|---|---|"]
    for prompt in prompts.PROMPTS.values():
        arguments = ", ".join(f"`{argument.name}`" for argument in prompt.arguments) or "none"
        lines.append(f"| `{prompt.name}` | {prompt.description} | {arguments} |")
    return "\n".join(lines) + "\n"


def _yes(value: bool) -> str:  # noqa: FBT001 - one value, one word
    return "yes" if value else "no"


def _tool(tool: Tool) -> Iterator[str]:
    yield from ("", f"### {tool.name}", "", tool.description)
    properties: dict[str, dict[str, Any]] = tool.arguments["properties"]
    if not properties:
        yield from ("", "No arguments.")
        return
    yield from ("", "| argument | | |", "|---|---|---|")
    required = tool.arguments.get("required", ())
    for name, schema in properties.items():
        yield f"| `{name}` | {_kind(schema, needed=name in required)} | {schema['description']} |"


def _kind(schema: dict[str, Any], *, needed: bool) -> str:
    words = {"string": "text", "integer": "whole number", "boolean": "true or false", "array": "list of paths"}[
        schema["type"]
    ]
    if "enum" in schema:
        words = ", ".join(f"`{value}`" for value in schema["enum"])
    if "maximum" in schema and schema["maximum"] <= 1000:
        words += f", {schema['minimum']} to {schema['maximum']}"
    if schema.get("default") not in (None, ""):
        words += f", default `{str(schema['default']).lower()}`"
    return words + (", needed" if needed else "")


def main() -> int:
    """Writes or checks the page."""
    if "--check" in sys.argv:
        return int(not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page())
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
