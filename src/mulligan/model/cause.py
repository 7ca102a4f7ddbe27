"""The word under which a checkpoint's metadata say which event of an agent it was made for."""

from __future__ import annotations

CAUSE = "agent"
