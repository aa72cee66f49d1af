"""Plots of a verification: every bar and line stays inside the picture."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from gpupool.drawing.svg import HEIGHT, LEFT, RIGHT, TOP, WIDTH
from gpupool.verification.findings import RateLine, RateTimeline, ShareBar, TimeMark
from gpupool.verification.plots import draw_shares, draw_timeline
from gpupool.verification.statistics import RateStretch

SVG = "{http://www.w3.org/2000/svg}"
SECOND = 10**9


def words(picture: str) -> list[str]:
    return [one.text or "" for one in ET.fromstring(picture).findall(f"{SVG}text")]


def test_shares_have_two_bars_each_and_a_whisker_where_the_error_is_known() -> None:
    picture = draw_shares([ShareBar("a", 0.3, 0.298, 0.01), ShareBar("b", 0.6, 0.5, None)])
    root = ET.fromstring(picture)
    assert len(root.findall(f"{SVG}rect")) == 4
    # Six levels of the grid, and three strokes of one whisker.
    assert len(root.findall(f"{SVG}line")) == 9
    assert "30 % asked, 29.8 % measured" in words(picture)


def test_shares_above_a_whole_card_stay_inside_the_picture() -> None:
    root = ET.fromstring(draw_shares([ShareBar("a", 1.0, 1.4, 0.2)]))
    tops = [float(one.get("y", "")) for one in root.findall(f"{SVG}rect")]
    assert min(tops) >= TOP
    ends = [float(one.get("y2", "")) for one in root.findall(f"{SVG}line")]
    assert min(ends) == TOP


def timeline(*lines: RateLine, marks: tuple[TimeMark, ...] = ()) -> str:
    return draw_timeline(RateTimeline("t", lines, marks, (0.5,)))


def test_timeline_without_a_measured_rate_is_no_picture() -> None:
    assert timeline(RateLine("a", ())) == ""


def test_timeline_cuts_a_short_peak_and_spans_the_picture() -> None:
    peak = RateLine(
        "a", [RateStretch(SECOND, 2 * SECOND, 0.5), RateStretch(2 * SECOND, 3 * SECOND, 40.0)]
    )
    picture = timeline(peak, marks=(TimeMark(2 * SECOND, "crash"),))
    path = ET.fromstring(picture).find(f"{SVG}polyline")
    assert path is not None
    points = [tuple(map(float, one.split(","))) for one in path.get("points", "").split()]
    assert (points[0][0], points[-1][0]) == (LEFT, WIDTH - RIGHT)
    assert min(y for _, y in points) == TOP
    assert "crash" in words(picture)
    assert all(0 <= y <= HEIGHT for _, y in points)


def test_timeline_of_a_long_time_has_few_words_below() -> None:
    for seconds, first in ((5, "0.5 s"), (60, "5 s"), (600, "60 s")):
        found = words(timeline(RateLine("a", [RateStretch(0, seconds * SECOND, 0.5)])))
        labels = [word for word in found if word.endswith(" s")]
        assert labels[0] == first
        assert len(labels) <= 12
