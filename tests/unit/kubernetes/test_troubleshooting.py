"""The page of troubles has every code that somebody on a cluster can meet, and none that nobody
can."""

from __future__ import annotations

import re
from pathlib import Path

from gpupool.base.errors import list_error_classes

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "how-to" / "kubernetes-troubleshooting.md"
ROOMS = ("kubernetes", "dialects", "mechanisms", "probes")
"""Those whose words reach people on a cluster."""


def test_the_table_has_the_codes_that_these_rooms_raise() -> None:
    texts = [
        file.read_text()
        for room in ROOMS
        for file in (ROOT / "src" / "gpupool" / room).rglob("*.py")
    ]
    words = set(re.findall(r"\b[A-Z]\w+", "\n".join(texts)))
    raised = {code for code, kind in list_error_classes().items() if kind.__name__ in words}
    rows = re.findall(r"^\| (GP-\d{4}) ", PAGE.read_text(), re.MULTILINE)
    assert set(rows) == raised


def test_every_code_that_a_page_names_is_one() -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        named = set(re.findall(r"GP-\d{4}", page.read_text()))
        assert named <= list_error_classes().keys(), page
