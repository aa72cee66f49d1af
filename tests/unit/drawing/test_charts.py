"""Plots that any browser shows, in light and in dark, with nothing fetched."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from gpupool.drawing.charts import Series, bars, lines
from gpupool.drawing.page import page, table, write_files
from gpupool.drawing.svg import HEIGHT, LEFT, RIGHT, WIDTH

SVG = "{http://www.w3.org/2000/svg}"


def points(picture: str) -> list[list[tuple[float, float]]]:
    found = ET.fromstring(picture).findall(f"{SVG}polyline")
    return [[tuple(map(float, point.split(","))) for point in one.get("points", "").split()] for one in found]  # type: ignore[misc]


def words(picture: str) -> list[str]:
    return [one.text or "" for one in ET.fromstring(picture).findall(f"{SVG}text")]


def test_lines_span_the_plot_and_stay_inside() -> None:
    found = points(lines("t", [[0, 5, 10]], [Series("a", [0, 50, 100])], "h", 100))
    assert found[0][0] == (LEFT, 264.0)
    assert found[0][-1] == (WIDTH - RIGHT, 16.0)
    over = points(lines("t", [[0, 1]], [Series("a", [0, 500])], "h", 100))
    assert over[0][-1][1] == 16.0


def test_a_line_is_broken_where_nothing_is_known() -> None:
    found = points(lines("t", [[0, 1, 2, 3]], [Series("a", [1, None, 2, 3])], "h"))
    assert [len(piece) for piece in found] == [1, 2]


def test_unknown_has_no_bar_but_a_sign() -> None:
    picture = bars("t", ["p50", "p99"], [Series("a", [1.0, None])])
    assert len(ET.fromstring(picture).findall(f"{SVG}rect")) == 1
    assert "--" in words(picture)


def test_nothing_is_drawn_of_nothing() -> None:
    assert lines("t", [], [], "h") == ""
    assert lines("t", [[]], [Series("a", [])], "h") == ""
    assert bars("t", [], [Series("a", [])]) == ""


def test_a_single_instant_and_a_flat_zero_can_be_drawn() -> None:
    assert points(lines("t", [[5]], [Series("a", [0])], "s"))
    assert "0" in words(lines("t", [[5, 6]], [Series("a", [0, 0])], "s"))


def test_many_series_get_a_legend_of_several_rows_inside_the_picture() -> None:
    picture = lines("t", [[0, 1]] * 8, [Series(f"s{n}", [n, n]) for n in range(8)], "h")
    box = ET.fromstring(picture).get("viewBox", "").split()
    legend = [one for one in ET.fromstring(picture).findall(f"{SVG}text") if (one.text or "").startswith("\u25a0")]
    assert len(legend) == 8
    assert HEIGHT < max(float(one.get("y", "0")) for one in legend) <= float(box[3])


def test_ink_is_of_the_page_so_that_dark_and_light_can_both_be_read() -> None:
    assert "currentColor" in lines("t", [[0, 1]], [Series("a", [0, 1])], "h")
    assert "prefers-color-scheme:dark" in page("t", [])


def test_a_page_lets_wide_plots_and_tables_be_moved_on_narrow_screens() -> None:
    text = page("t", [lines("a", [[0, 1]], [Series("a", [0, 1])], "h"), table(["x"], [["1"]])])
    assert text.count('<div class="wide"><svg') == text.count('<div class="wide"><table') == 1
    assert 'name="viewport"' in text
    assert ">a</text>" not in text, "one series that is named as its plot needs no legend"


def test_names_are_text_and_never_markup() -> None:
    assert "<b>" not in lines("<b>", [[0, 1]], [Series("<b>", [0, 1])], "<b>")
    assert "<b>" not in page("<b>", [table(["<b>"], [["<b>"]])])


def test_files_are_there_whole_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "out" / "b.html").mkdir(parents=True)  # what cannot be written to
    with pytest.raises(OSError):
        write_files(tmp_path / "out", {"a.json": "{}", "b.html": "x"})
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["b.html"]
    a, b = write_files(tmp_path / "new", {"a.json": "{}", "b.html": "x"})
    assert (a.read_text(), b.read_text()) == ("{}", "x")
    assert len(list((tmp_path / "new").iterdir())) == 2
