"""
A report in a file: the page for people, the document for machines, and what is signed about both.

The statement is what a key signs: the hashes of the document and of the page around it, the number of checkpoints and the
head of their chain.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

DATA = "@@mulligan-report@@"
_OPEN = {"html": '<script type="application/json" id="mulligan-report">', "md": "<!-- mulligan-report "}
_CLOSE = {"html": "</script>", "md": " -->"}
_BLOCK = re.compile(
    r'(?:<script type="application/json" id="mulligan-report">|<!-- mulligan-report )(\{[^<>]*\})(?:</script>| -->)'
)


class ReportFile(NamedTuple):
    """What a file holds: the document, the statement about it, a signature of that, and the page around them."""

    document: dict[str, Any]
    statement: str
    signature: str
    page: str


def statement_of(document: dict[str, Any], page: str, digest: Callable[[Any], str]) -> str:
    """Returns the text that is signed."""
    around = f"page sha256:{hashlib.sha256(page.encode('utf-8', 'surrogatepass')).hexdigest()}" if page else "page none"
    chain = document["chain"]
    rows = ["mulligan report 1", f"document sha256:{digest(document)}", around]
    return "\n".join([*rows, f"checkpoints {chain['count']}", f"head sha256:{chain['head']}", ""])


def as_file(found: ReportFile, form: str) -> str:
    """Returns the text of a file; the page has a place for the document."""
    data = {"report": found.document, "statement": found.statement, "signature": found.signature or None}
    text = json.dumps(data, separators=(",", ":"))
    # Inside a page neither a tag nor a comment may end early.
    text = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026").replace("--", "-\\u002d")
    return found.page.replace(DATA, _OPEN[form] + text + _CLOSE[form])


def read_report(text: str) -> ReportFile | None:
    """Returns what a file holds, None for a file that is no report."""
    page, data = "", text
    if not text.lstrip().startswith("{"):
        blocks = list(_BLOCK.finditer(text))
        if len(blocks) != 1:
            return None
        data, page = blocks[0][1], text[: blocks[0].start()] + DATA + text[blocks[0].end() :]
    try:
        found = json.loads(data)
        document, statement, signature = found["report"], found["statement"], found.get("signature") or ""
        document["chain"]["count"], document["chain"]["head"], document["chain"]["links"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return ReportFile(document, str(statement), str(signature), page)
