"""Links of the pages: relative targets and headings, found without building the site."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
ANCHOR = re.compile(r'<a id="([^"]+)">')


def pages() -> list[Path]:
    """Every page for people: those of the root, of docs/ and of bench/."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "bench").glob("*.md")]
    return sorted(found)


def slug(heading: str) -> str:
    """A heading's anchor, as GitHub and the site make it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
    return re.sub(r"[^\w\- ]", "", text).strip().replace(" ", "-")


def anchors(page: Path) -> set[str]:
    """Every anchor of a page."""
    text = page.read_text(encoding="utf-8")
    headings = HEADING.findall(FENCE.sub("", text))
    return {slug(heading) for heading in headings} | set(ANCHOR.findall(text))


def links(page: Path) -> Iterator[str]:
    """The page's links that lead to files or headings, outside of code."""
    text = CODE.sub("", FENCE.sub("", page.read_text(encoding="utf-8")))
    for target in LINK.findall(text):
        if "://" not in target and not target.startswith("mailto:"):
            yield target


def broken(page: Path) -> list[str]:
    """Links whose file or heading is not there."""
    found: list[str] = []
    for target in links(page):
        path, _, anchor = target.partition("#")
        other = (page.parent / path).resolve() if path else page
        if not other.exists() or (
            anchor and other.suffix == ".md" and anchor not in anchors(other)
        ):
            found.append(target)
    return found
