"""Every link of every page leads to a file and a heading that exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.links import ROOT, broken, pages, slug


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_existing_files_and_headings(page: Path) -> None:
    assert broken(page) == []


def test_slug_is_the_one_of_the_site() -> None:
    assert slug("What `gpupool` gains, and what it does not") == (
        "what-gpupool-gains-and-what-it-does-not"
    )


@pytest.mark.parametrize("folder", ["concepts", "how-to"])
def test_contents_name_every_guide_and_concept(folder: str) -> None:
    """Those of the site (mkdocs.yml) and those of docs/README.md."""
    site = (ROOT / "mkdocs.yml").read_text()
    contents = (ROOT / "docs" / "README.md").read_text()
    for page in sorted((ROOT / "docs" / folder).glob("*.md")):
        assert f"docs/{folder}/{page.name}\n" in site
        assert f"({folder}/{page.name})" in contents
