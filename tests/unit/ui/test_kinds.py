"""The words of the page for each kind of checkpoint."""

from __future__ import annotations

import re
from pathlib import Path

from mulligan.model.checkpoint import KINDS

STORY = Path(__file__).parents[3] / "src/mulligan/ui/front/story.js"


def test_the_page_has_words_for_every_kind_of_checkpoint() -> None:
    table = re.search(r"^const KINDS = \{(.*)\};$", STORY.read_text(), re.MULTILINE)
    assert table is not None
    assert set(re.findall(r'(\w+): "', table[1])) == set(KINDS)
