"""A simulated life as a picture."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from gpupool.base.units import GIB
from gpupool.base.units import NANOS_PER_SECOND as NS
from gpupool.cli.main import main
from gpupool.simulation.replay.measure import PoolSample
from gpupool.simulation.reports import picture
from gpupool.simulation.reports.picture import render_page
from gpupool.simulation.studies.decisions import COLUMNS
from gpupool.simulation.traces.trace import TraceNode

NODES = (TraceNode("n1", (("T4", GIB),) * 2),)


def row(
    time: str, event: str, claim: str, tenant: str, cards: str, milli: int
) -> tuple[object, ...]:
    cells = {
        "time": time,
        "event": event,
        "claim": claim,
        "tenant": tenant,
        "node": "n1",
        "cards": cards,
    }
    return tuple({**dict.fromkeys(COLUMNS, ""), **cells, "gpu_milli": milli}.values())


ROWS = [
    row("0", "placed", "a", "nlp", "0", 400),
    row("5", "placed", "b", "<vision>", "0 1", 500),
    row("10", "evicted", "a", "nlp", "0", 400),
    row("20", "ended", "b", "<vision>", "0 1", 500),
    row("30", "refused", "c", "nlp", "", 0),
]
TIMELINE = [PoolSample(at * NS, 900, 100, 1000, 0, at) for at in (0, 10, 20)]


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
    text = render_page("a life", NODES, ROWS, TIMELINE)
    assert drawn(text) == [
        "a of nlp: 0.40 GPU, 0.00 s to 10.00 s, then evicted",
        "b of <vision>: 0.50 GPU, 5.00 s to 20.00 s",
        "b of <vision>: 0.50 GPU, 5.00 s to 20.00 s",
    ]
    assert "2 of 2 cards, 3 of 3 stays" in text
    assert "<vision>" not in text
    for needed in ("http://", "https://", "<script", "src="):
        assert needed not in text.replace("http://www.w3.org", "")


def test_what_is_left_out_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture, "MOST_CARDS", 1)
    monkeypatch.setattr(picture, "MOST_BOXES", 1)
    monkeypatch.setattr(picture, "MOST_LINES", 2)
    assert "1 of 2 cards, 1 of 3 stays" in render_page("a life", NODES, ROWS, TIMELINE)
    assert "3 stays, the first 2; all of them: --record" in render_page(
        "a life", NODES, ROWS, TIMELINE
    )


def test_simulate_writes_the_page_and_refuses_several_lives(tmp_path: Path) -> None:
    page = tmp_path / "run.html"
    small = "synthetic:days=1,cards=2,cards_per_node=2,load_pct=50"
    assert main(["simulate", small, "--page", str(page)]) == 0
    assert drawn(page.read_text())
    assert main(["simulate", small, "--page", str(page), "--seeds", "2"]) == 2


def cells(text: str) -> list[list[str]]:
    """Every line of every table."""
    return [
        re.findall(r"<t[dh][^>]*>([^<]*)", line) for line in re.findall(r"<tr>(.*?)</tr>", text)
    ]


def test_exact_values_stand_in_tables() -> None:
    found = cells(render_page("a life", NODES, ROWS, TIMELINE))
    assert found[1] == ["2", "2", "1", "1", "1", "0"]
    assert ["a", "nlp", "n1:0", "0.40", "0.000", "10.000", "evicted"] in found
    assert ["b", "&lt;vision&gt;", "n1:1", "0.50", "5.000", "20.000", "ended"] in found
    assert ["10.00", "10.00", "0.90", "0.10"] in found


def test_a_life_without_a_start_says_so() -> None:
    for rows in ([], ROWS[-1:]):
        text = render_page("a life", NODES, rows, [])
        assert "No job held a card." in text
        assert "<svg" not in text


def test_one_job_has_an_axis_in_its_own_unit() -> None:
    one = [row("0", "placed", "a", "nlp", "0", 1000), row("600", "ended", "a", "nlp", "0", 1000)]
    text = render_page("a life", NODES, one, [])
    assert drawn(text) == ["a of nlp: 1.00 GPU, 0.00 min to 10.00 min"]
    assert ">0 min<" in text
    assert ">10 min<" in text


def test_ten_thousand_jobs_are_a_page_that_a_browser_takes() -> None:
    many = [
        row(str(n // 2 + 5 * (n % 2)), event, f"job-{n // 2}", f"team-{n % 20 // 2}", "0", 100)
        for n in range(20_000)
        for event in [("placed", "ended")[n % 2]]
    ]
    text = render_page(
        "a life",
        NODES,
        sorted(many, key=lambda one: float(str(one[COLUMNS.index("time")]))),
        TIMELINE,
    )
    assert "10000 of 10000 stays" in text
    assert "7 colours for 10 tenants" in text
    assert len(text) < 4_000_000


def test_cards_with_long_names_keep_their_end() -> None:
    node = TraceNode("a-node-with-a-very-long-name-in-a-zone-12", (("T4", GIB),) * 2)
    cells_ = dict(zip(COLUMNS, ROWS[0], strict=True)) | {"node": node.name}
    ended = cells_ | {"time": "9", "event": "ended"}
    text = render_page("a life", [node], [tuple(cells_.values()), tuple(ended.values())], [])
    assert "\u2026very-long-name-in-a-zone-12:0<" in text
