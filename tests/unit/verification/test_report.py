"""What an auditor keeps says everything, in a page that needs nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

from gpupool.verification.findings import (
    PromiseFinding,
    RateLine,
    RateTimeline,
    ShareBar,
    TimeMark,
    VerificationFindings,
)
from gpupool.verification.report import ReportIdentity, format_verdict, render_page, write_report
from gpupool.verification.statistics import RateStretch

S = 10**9
IDENTITY = ReportIdentity(
    pool="p-1",
    pool_version="0.1.0",
    node="node-1",
    card="node-1:0",
    card_model="H200",
    card_uuid="GPU-1",
    card_memory_bytes=141 << 30,
    driver_version=13050,
    simulated=True,
    fence="soft",
    fence_why="limits are root's",
    user="ada",
    tenant="<b>physics</b>",
    began_ns=1_795_262_400 * S,
    seconds=15.2,
    quick=True,
    processors=2,
    load=1.5,
)


def findings(*kept: bool | None) -> VerificationFindings:
    found = VerificationFindings(
        [PromiseFinding(f"k{n}", f"promise {n}", "30 %", "29 %", one) for n, one in enumerate(kept)]
    )
    line = RateLine("fixed 0.3", [RateStretch(n * S, (n + 1) * S, 0.3) for n in range(5)])
    found.timelines.append(RateTimeline("<a title>", [line], [TimeMark(2 * S, "then")], [0.3]))
    found.bars.append(ShareBar("fixed 0.3", 0.3, 0.298, 0.004))
    return found


class Page(HTMLParser):
    """Every tag, and what it would fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in ("meta", "line", "rect", "polyline"):
            self.open.append(tag)
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_fetches_nothing() -> None:
    page = Page(render_page(IDENTITY, findings(True, False)))
    assert page.open == []
    assert page.fetched == []
    assert "script" not in page.tags
    assert page.tags.count("svg") == 2


def test_names_from_people_are_text_in_it() -> None:
    text = render_page(IDENTITY, findings(True))
    assert "<b>physics" not in text
    assert "&lt;b&gt;physics&lt;/b&gt;" in text
    assert "&lt;a title&gt;" in text


def test_both_files_hold_the_same_verdict_and_all_figures(tmp_path: Path) -> None:
    data, page = write_report(tmp_path / "out", IDENTITY, findings(True, None, False))
    told = json.loads(data.read_text())
    assert (told["format"], told["kept"]) == ("gpupool-verification 1", False)
    assert [one["kept"] for one in told["findings"]] == [True, None, False]
    assert told["identity"]["driver_version"] == 13050
    assert len(told["timelines"][0]["lines"][0]["series"]) == 5
    assert "NOT KEPT" in page.read_text()


def test_the_verdict_says_the_level_and_that_the_card_is_simulated() -> None:
    assert format_verdict(IDENTITY, findings(True, True)) == (
        "Every promise that could be shown was kept (2 of them). The fence is soft: unmodified programs are held, a "
        "hostile one is not: it can load the driver without the fence, call the loaded driver's own functions or "
        "change its own memory; most of that is found and answered, not prevented. The card is SIMULATED."
    )
    advisory = format_verdict(
        replace(IDENTITY, fence="advisory", simulated=False), findings(True, False, None)
    )
    assert (
        advisory
        == "1 of 3 promises were NOT KEPT. The fence is advisory: a program that looks away is not held."
    )


def test_an_overloaded_host_is_said_because_it_takes_time_from_everybody() -> None:
    assert "overloaded" not in format_verdict(IDENTITY, findings(True))
    assert "overloaded (7.0 programs on 2 processors)" in format_verdict(
        replace(IDENTITY, load=7.0), findings(False)
    )


def test_nothing_shown_is_nothing_kept() -> None:
    assert not findings().is_kept
    assert not findings(None).is_kept
    assert findings(None, True).is_kept
