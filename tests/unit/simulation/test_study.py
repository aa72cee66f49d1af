"""A question to the simulator: every policy with every seed, in order, on any number of processes."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest

from gpupool.base.errors import UnknownPolicy
from gpupool.simulation.nodes import read_nodes
from gpupool.simulation.parallel import run_all
from gpupool.simulation.report import html
from gpupool.simulation.study import FORMAT, Question, ask, document, mean, rows, seeds_of
from gpupool.simulation.synthetic import Parameters

SMALL = Parameters(days=1, cards=8, load_pct=80, median_seconds=7200)


def question(*policies: str, seeds: int = 1) -> Question:
    return Question(read_nodes("1x8xH200"), policies, seeds_of(seeds), synthetic=SMALL)


def quiet(_part: float) -> None:
    pass


def test_every_policy_lives_with_every_seed_in_order() -> None:
    lives = ask(question("binpack", "spread", seeds=2), quiet, workers=1)
    assert [(one.policy, one.seed) for one in lives] == [
        ("binpack", 42),
        ("binpack", 43),
        ("spread", 42),
        ("spread", 43),
    ]
    assert lives[0].figures.jobs == lives[2].figures.jobs  # one seed is one trace
    assert lives[0].figures.jobs != lives[1].figures.jobs


def test_processes_change_nothing_but_the_time() -> None:
    alone, together = (ask(question("binpack", "spread"), quiet, workers=number) for number in (1, 2))
    assert alone == together


def test_an_unknown_policy_is_refused_with_the_nearest_before_anything_runs() -> None:
    told: list[float] = []
    with pytest.raises(UnknownPolicy) as caught:
        ask(question("binpack", "spred"), told.append)
    assert caught.value.message == 'no placement policy is called "spred"'
    assert "did you mean spread?" in caught.value.hint
    assert caught.value.code == "GP-1021"
    assert not told


def test_the_document_says_everything_and_is_json() -> None:
    asked = question("binpack")
    lives = ask(asked, quiet)
    found = json.loads(json.dumps(document(asked, lives)))
    assert (found["format"], found["nodes"], found["cards"], found["synthetic"]["days"]) == (FORMAT, 1, 8, 1)
    (run,) = found["runs"]
    assert {"policy", "seed", "allocation_pct", "fragment_pct", "waits", "tenants", "timeline"} <= set(run)
    assert rows(lives)[0]["allocation_pct"] == run["allocation_pct"]


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
    text = html(asked, ask(asked, quiet))
    page = Page(text)
    assert page.fetched == []
    assert "script" not in page.tags
    for title in ("Allocation", "Fragments", "Jobs that wait", "50th, 95th and 99th", "Fairness", "Over time"):
        assert title in text
    pictures = [f"<svg{piece.split('</svg>')[0]}</svg>" for piece in text.split("<svg")[1:]]
    assert len(pictures) >= 8
    for picture in pictures:
        ET.fromstring(picture)


def test_a_mean_of_something_unknown_is_unknown() -> None:
    assert mean([1.0, 2.0]) == 1.5
    assert mean([1.0, None]) is None
    assert mean([]) is None


def boom(piece: int, tell: object) -> int:
    raise ValueError(f"piece {piece}")


def test_what_goes_wrong_in_a_process_is_raised_here() -> None:
    with pytest.raises(ValueError, match="piece"):
        run_all(boom, [1, 2], quiet, workers=2)
