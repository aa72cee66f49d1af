"""The page of a simulation: every plot is in it, and it fetches nothing."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest

from gpupool.simulation.reports.report import (
    choose_unit,
    describe_knowledge,
    format_number,
    render_page,
)
from gpupool.simulation.studies.study import (
    answer_question,
)
from tests.support.simulation_builders import question, quiet


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href", "srcset")]


def test_the_report_has_every_plot_and_fetches_nothing() -> None:
    asked = question("binpack", "spread")
    text = render_page(asked, answer_question(asked, quiet))
    page = Page(text)
    assert page.fetched == []
    assert "script" not in page.tags
    for title in (
        "Allocation",
        "Fragments",
        "Jobs that wait",
        "50th, 95th and 99th",
        "Fairness",
        "Over time",
    ):
        assert title in text
    pictures = [f"<svg{piece.split('</svg>')[0]}</svg>" for piece in text.split("<svg")[1:]]
    assert len(pictures) >= 8
    for picture in pictures:
        ET.fromstring(picture)


@pytest.mark.parametrize(
    ("seconds", "unit"),
    [
        (119, (1, "s")),
        (120, (60, "min")),
        (7199, (60, "min")),
        (7200, (3600, "h")),
        (2 * 86400 - 1, (3600, "h")),
        (2 * 86400, (86400, "d")),
    ],
)
def test_choose_unit_changes_at_two_of_the_next_unit(seconds: float, unit: tuple[int, str]) -> None:
    assert choose_unit(seconds) == unit


def test_format_number_of_an_unknown_value_is_dashes() -> None:
    assert (format_number(93.084), format_number(12.5, 0), format_number(None)) == (
        "93.08",
        "12",
        "--",
    )


def test_describe_knowledge_warns_of_an_oracle() -> None:
    assert "which no pool can" in describe_knowledge("oracle")
    assert "as in a pool" in describe_knowledge("online")
