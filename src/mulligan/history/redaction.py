"""
Secrets left out of text: private keys, tokens of known shapes, passwords in addresses, and values of names that say password, token or key.

A word too many left out costs nothing here. A secret in a new form is not recognised, which is why copies of conversations are
bounded and private too.
"""

from __future__ import annotations

import re

from mulligan.scan.secrets import TOKENS

LEFT_OUT = "[left-out]"
# Each keeps its first group, if it has one that matched.
_LEAKS = (
    r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)",
    r"(?<![A-Za-z0-9])(?:" + TOKENS.decode() + r"|AKIA[0-9A-Z]{16})",
    r"(://)[^/\s:@]{1,200}:[^/\s@]{1,200}(?=@)",
    r"""(?ix)( (?:password|passwd|passphrase|_pass|_pwd|secret|token|api_?key|access_?key|private_?key|secret_?key|credential)s?
        \\?["']? \s* [=:] \s* (?:bearer\s+)? \\?["']? ) [^\s"',;&|\\]{3,}""",
    r"(?i)(bearer\s+)[\w.~+/=-]{8,}",
)


def redact(text: str) -> str:
    """Returns a text with what looks like a secret left out."""
    for pattern in _LEAKS:
        text = re.sub(pattern, _left_out, text)
    return text


def _left_out(match: re.Match[str]) -> str:
    return (match[1] if match.re.groups and match[1] else "") + LEFT_OUT
