"""Plots that any browser shows, in light and in dark, with nothing fetched."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from gpupool.drawing.charts import PlotSeries, draw_bars, draw_lines
from gpupool.drawing.page import build_page, render_table
from gpupool.drawing.svg import HEIGHT, LEFT, RIGHT, WIDTH

SVG = "{http://www.w3.org/2000/svg}"


def points(picture: str) -> list[list[tuple[float, float]]]:
    found = ET.fromstring(picture).findall(f"{SVG}polyline")
    return [
        [tuple(map(float, point.split(","))) for point in one.get("points", "").split()]
        for one in found
    ]  # type: ignore[misc]


def words(picture: str) -> list[str]:
    return [one.text or "" for one in ET.fromstring(picture).findall(f"{SVG}text")]


def test_lines_span_the_plot_and_stay_inside() -> None:
    found = points(draw_lines("t", [[0, 5, 10]], [PlotSeries("a", [0, 50, 100])], "h", 100))
    assert found[0][0] == (LEFT, 264.0)
    assert found[0][-1] == (WIDTH - RIGHT, 16.0)
    over = points(draw_lines("t", [[0, 1]], [PlotSeries("a", [0, 500])], "h", 100))
    assert over[0][-1][1] == 16.0


def test_a_line_is_broken_where_nothing_is_known() -> None:
    found = points(draw_lines("t", [[0, 1, 2, 3]], [PlotSeries("a", [1, None, 2, 3])], "h"))
    assert [len(piece) for piece in found] == [1, 2]


def test_unknown_has_no_bar_but_a_sign() -> None:
    picture = draw_bars("t", ["p50", "p99"], [PlotSeries("a", [1.0, None])])
    assert len(ET.fromstring(picture).findall(f"{SVG}rect")) == 1
    assert "--" in words(picture)


def test_nothing_is_drawn_of_nothing() -> None:
    assert draw_lines("t", [], [], "h") == ""
    assert draw_lines("t", [[]], [PlotSeries("a", [])], "h") == ""
    assert draw_bars("t", [], [PlotSeries("a", [])]) == ""


def test_a_single_instant_and_a_flat_zero_can_be_drawn() -> None:
    assert points(draw_lines("t", [[5]], [PlotSeries("a", [0])], "s"))
    assert "0" in words(draw_lines("t", [[5, 6]], [PlotSeries("a", [0, 0])], "s"))


def test_many_series_get_a_legend_of_several_rows_inside_the_picture() -> None:
    picture = draw_lines("t", [[0, 1]] * 8, [PlotSeries(f"s{n}", [n, n]) for n in range(8)], "h")
    box = ET.fromstring(picture).get("viewBox", "").split()
    legend = [
        one
        for one in ET.fromstring(picture).findall(f"{SVG}text")
        if (one.text or "").startswith("\u25a0")
    ]
    assert len(legend) == 8
    assert HEIGHT < max(float(one.get("y", "0")) for one in legend) <= float(box[3])


def test_names_are_text_and_never_markup() -> None:
    assert "<b>" not in draw_lines("<b>", [[0, 1]], [PlotSeries("<b>", [0, 1])], "<b>")
    assert "<b>" not in build_page("<b>", [render_table(["<b>"], [["<b>"]])])
