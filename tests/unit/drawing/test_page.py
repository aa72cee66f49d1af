"""One page that needs nothing else, and files that are whole or not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.drawing.charts import PlotSeries, draw_lines
from gpupool.drawing.page import build_page, render_table, write_files


def test_ink_is_of_the_page_so_that_dark_and_light_can_both_be_read() -> None:
    assert "currentColor" in draw_lines("t", [[0, 1]], [PlotSeries("a", [0, 1])], "h")
    assert "prefers-color-scheme:dark" in build_page("t", [])


def test_a_page_lets_wide_plots_and_tables_be_moved_on_narrow_screens() -> None:
    text = build_page(
        "t",
        [draw_lines("a", [[0, 1]], [PlotSeries("a", [0, 1])], "h"), render_table(["x"], [["1"]])],
    )
    assert text.count('<div class="wide"><svg') == text.count('<div class="wide"><table') == 1
    assert 'name="viewport"' in text
    assert ">a</text>" not in text, "one series that is named as its plot needs no legend"


def test_files_are_there_whole_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "out" / "b.html").mkdir(parents=True)  # what cannot be written to
    with pytest.raises(OSError):
        write_files(tmp_path / "out", {"a.json": "{}", "b.html": "x"})
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["b.html"]
    a, b = write_files(tmp_path / "new", {"a.json": "{}", "b.html": "x"})
    assert (a.read_text(), b.read_text()) == ("{}", "x")
    assert len(list((tmp_path / "new").iterdir())) == 2
