"""A simulated life as a picture."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest

from gpupool.base.units import GIB
from gpupool.cli.main import main
from gpupool.simulation import picture
from gpupool.simulation.decisions import COLUMNS
from gpupool.simulation.measure import Sample
from gpupool.simulation.picture import Stay, html, offsets, stays
from gpupool.simulation.trace import NS, Node

NODES = (Node("n1", (("T4", GIB),) * 2),)


def row(time: str, event: str, claim: str, tenant: str, cards: str, milli: int) -> tuple[object, ...]:
    cells = {"time": time, "event": event, "claim": claim, "tenant": tenant, "node": "n1", "cards": cards}
    return tuple({**dict.fromkeys(COLUMNS, ""), **cells, "gpu_milli": milli}.values())


ROWS = [
    row("0", "placed", "a", "nlp", "0", 400),
    row("5", "placed", "b", "<vision>", "0 1", 500),
    row("10", "evicted", "a", "nlp", "0", 400),
    row("20", "ended", "b", "<vision>", "0 1", 500),
    row("30", "refused", "c", "nlp", "", 0),
]
TIMELINE = [Sample(at * NS, 900, 100, 1000, 0, at) for at in (0, 10, 20)]


def drawn(text: str) -> list[str]:
    """The sentences of all boxes."""
    found, inside = list[str](), False

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            nonlocal inside
            inside = tag == "title"

        def handle_data(self, data: str) -> None:
            if inside:
                found.append(data)

        def handle_endtag(self, tag: str) -> None:
            nonlocal inside
            inside = False

    Reader().feed(text)
    return [one for one in found if " GPU, " in one]


def test_each_stay_on_each_card_is_a_box_that_says_whose_it_is() -> None:
    text = html("a life", NODES, ROWS, TIMELINE)
    assert drawn(text) == [
        "a of nlp: 0.40 GPU, 0.00 h to 0.00 h",
        "b of <vision>: 0.50 GPU, 0.00 h to 0.01 h",
        "b of <vision>: 0.50 GPU, 0.00 h to 0.01 h",
    ]
    assert "2 of 2 cards, 3 of 3 stays" in text
    assert "<vision>" not in text
    for needed in ("http://", "https://", "<script", "src="):
        assert needed not in text.replace("http://www.w3.org", "")


def test_shares_of_one_card_lie_above_each_other_and_take_the_place_of_what_left() -> None:
    def stay(name: str, milli: int, begin: int, end: int) -> Stay:
        return Stay(("n1", 0), name, "nlp", milli, begin, end)

    here = [stay("a", 400, 0, 10), stay("b", 600, 0, 20), stay("c", 300, 10, 30), stay("d", 100, 12, 13)]
    assert [(one.claim, at) for one, at in offsets(here)] == [("a", 0), ("b", 400), ("c", 0), ("d", 300)]


def test_what_is_left_out_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture, "MOST_CARDS", 1)
    monkeypatch.setattr(picture, "MOST_BOXES", 1)
    assert "1 of 2 cards, 1 of 3 stays" in html("a life", NODES, ROWS, TIMELINE)
    assert len(list(stays(ROWS))) == 3


def test_simulate_writes_the_page_and_refuses_several_lives(tmp_path: Path) -> None:
    page = tmp_path / "run.html"
    small = "synthetic:days=1,cards=2,cards_per_node=2,load_pct=50"
    assert main(["simulate", small, "--page", str(page)]) == 0
    assert drawn(page.read_text())
    assert main(["simulate", small, "--page", str(page), "--seeds", "2"]) == 2
