"""`gpupool top`: one screen of cards, tenants and jobs."""

from __future__ import annotations

import pytest
from rich.console import Console

from gpupool.cli.work.top import format_bar, render_screen
from tests.unit.cli.golden import GoldenLine, TypedLine
from tests.unit.cli.sample import live
from tests.unit.client.scripted_pool import ScriptedPool


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("top", "top"),
    ],
)
def test_top_prints_the_recorded_output(name: str, line: str, golden_line: GoldenLine) -> None:
    golden_line(name, line)


@pytest.mark.parametrize(
    ("part", "drawn"),
    [(0, "····"), (1, "████"), (0.5, "██··"), (0.03, "▏···"), (7, "████"), (-1, "····")],
)
def test_bars_show_eighths_and_never_leave_their_box(part: float, drawn: str) -> None:
    assert format_bar(part, 4) == drawn


def screen(rows: int, width: int) -> str:
    console = Console(width=width, no_color=True, highlight=False)
    with console.capture() as drawn:
        console.print(render_screen(live(), rows, width))
    return drawn.get()


def test_a_narrow_screen_leaves_columns_out_and_shortens_bars() -> None:
    narrow = screen(1000, 100)
    assert "health" not in narrow
    assert "owner" not in narrow
    assert max(map(len, narrow.splitlines())) <= 100
    assert "health" in screen(1000, 120)


def test_cards_beyond_the_rows_are_counted() -> None:
    assert "node-1:1 " not in screen(1, 120)
    assert "… and 1 more\n" in screen(1, 120)
    assert screen(1000, 120).count("… and") == 1, "of three jobs one is given"


def test_top_into_a_pipe_asks_once_for_each_screen(
    pool: ScriptedPool, type_line: TypedLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused: list[float] = []
    monkeypatch.setattr("gpupool.cli.work.top.time.sleep", paused.append)
    assert type_line("top -n 3 --interval 7")[0] == 0
    assert [one.target for one in pool.requests] == ["/api/v1/usage"] * 3
    assert paused == [7.0, 7.0]
