"""Pages for users start with what the reader can do after them, and avoid words that hide the
actor of a sentence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.links import FENCE, ROOT

PAGES = [
    *sorted((ROOT / "docs" / "concepts").glob("*.md")),
    *sorted((ROOT / "docs" / "how-to").glob("*.md")),
    ROOT / "docs" / "README.md",
    ROOT / "docs" / "architecture.md",
    ROOT / "GLOSSARY.md",
]
#: Words without a named actor, and private words for evict, recreate, release.
BANNED = re.compile(
    r"\b(nobody|somebody|anybody|everybody|whoever|whom|let go|made anew|begun anew|sent away)\b",
    re.IGNORECASE,
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_starts_with_what_the_reader_can_do(page: Path) -> None:
    _, _, text = page.read_text().partition("\n\n")
    assert text.startswith("After this page ")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_names_actors(page: Path) -> None:
    text = re.sub(r"\]\([^)]*\)", "]", FENCE.sub("", page.read_text()))
    assert BANNED.findall(text) == []
