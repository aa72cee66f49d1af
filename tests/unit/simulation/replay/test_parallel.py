"""Pieces of work on several processes: their results, their order, their failures."""

from __future__ import annotations

import pytest

from gpupool.simulation.replay.parallel import InOrder, TellProgress, run_all
from tests.support.simulation_builders import quiet


def boom(piece: int, tell: object) -> int:
    raise ValueError(f"piece {piece}")


def test_what_goes_wrong_in_a_process_is_raised_here() -> None:
    with pytest.raises(ValueError, match="piece"):
        run_all(boom, [1, 2], quiet, workers=2)


def double(piece: int, tell: TellProgress) -> int:
    tell(0.5)
    return 2 * piece


def test_run_all_in_this_process_scales_the_progress_of_each_piece() -> None:
    heard: list[float] = []
    done: list[int] = []
    assert run_all(double, [1, 2], heard.append, workers=1, done=done.append) == [2, 4]
    assert heard == [0.25, 0.75]
    assert done == [2, 4]


def test_run_all_without_pieces_returns_nothing() -> None:
    assert run_all(double, [], quiet) == []


def test_in_order_passes_results_on_in_the_order_of_the_keys() -> None:
    passed: list[str] = []
    ordered = InOrder(["a", "b", "c"], passed.append)
    ordered.put_result("c", "C")
    assert passed == []
    ordered.put_result("a", "A")
    assert passed == ["A"]
    ordered.put_result("b", "B")
    assert passed == ["A", "B", "C"]
