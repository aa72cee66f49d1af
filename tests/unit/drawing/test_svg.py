"""Strokes of a plot: heights, bars and texts."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from gpupool.drawing.svg import (
    BOTTOM,
    HEIGHT,
    TOP,
    compute_y,
    draw_bar,
    draw_grid,
    draw_path,
    draw_text,
    wrap_picture,
)

SVG = "{http://www.w3.org/2000/svg}"


def test_height_of_nothing_is_the_foot_and_of_the_top_the_head() -> None:
    assert compute_y(0, 50) == HEIGHT - BOTTOM
    assert compute_y(50, 50) == TOP
    assert compute_y(25, 50) == (HEIGHT - BOTTOM + TOP) / 2


def test_bar_stands_on_the_foot() -> None:
    bar = ET.fromstring(draw_bar(10, 25, 5, 50, "#123456"))
    assert float(bar.get("y", "")) + float(bar.get("height", "")) == HEIGHT - BOTTOM


def test_grid_has_a_solid_foot_and_a_dashed_line_for_each_level_but_nought() -> None:
    root = ET.fromstring(wrap_picture(list(draw_grid(1.0, [(0.0, "0 %"), (0.5, "50 %")])), "t"))
    lines = root.findall(f"{SVG}line")
    assert [one.get("stroke-dasharray") for one in lines] == [None, "5 4"]
    assert [one.text for one in root.findall(f"{SVG}text")] == ["0 %", "50 %"]


def test_words_in_a_picture_are_text_and_no_markup() -> None:
    picture = wrap_picture([draw_text(1, 2, "<a> & b", "end")], "<t> & u", 40)
    root = ET.fromstring(picture)
    assert root.get("viewBox", "").endswith(" 40")
    assert [one.text for one in root] == ["<t> & u", "<a> & b"]


def test_path_goes_through_its_points_in_order() -> None:
    path = ET.fromstring(draw_path([(1, 2), (3.04, 4)], "red"))
    assert path.get("points") == "1.0,2.0 3.0,4.0"
