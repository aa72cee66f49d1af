"""`gpupool burn`: options that exclude each other, and the worst end of several processes."""

from __future__ import annotations

import argparse
import os

import pytest

from gpupool.cli.proof import burn
from tests.unit.cli.golden import TypedLine


@pytest.mark.parametrize("other", ["--graph 10", "--long-kernel 5"])
def test_burn_with_copies_and_kernels_at_once_is_refused(other: str, type_line: TypedLine) -> None:
    code, _, err = type_line(f"burn --copy 1GiB {other}")
    assert (code, err.splitlines()[0]) == (2, "gpupool: GP-1005: --copy does no kernels")


@pytest.mark.parametrize("seconds", ["0.009", "2592001", "-1", "soon", "nan"])
def test_burn_for_no_sensible_time_is_refused(seconds: str, type_line: TypedLine) -> None:
    code, _, err = type_line(f"burn --seconds {seconds}")
    assert code == 2
    assert "a number from 0.01 to 2592000" in err


@pytest.mark.parametrize(
    ("ends", "worst"), [([0, 0], 0), ([0, 1], 1), ([-9, 1], 137), ([130, 2], 130)]
)
def test_burn_of_several_processes_ends_with_the_worst_code(
    ends: list[int], worst: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    statuses = [-end if end < 0 else end << 8 for end in ends]
    numbers = iter(range(100, 200))
    monkeypatch.setattr(os, "fork", lambda: next(numbers))
    monkeypatch.setattr(os, "waitpid", lambda pid, _flags: (pid, statuses[pid - 100]))
    options = argparse.Namespace(fork=len(ends))
    assert burn._burn_forked(options) == worst


def test_a_stretch_of_copies_names_no_part_of_a_card() -> None:
    assert burn._describe_stretch(1.0, None, 0.5) == "   1.0 s  busy  50.0 %"
    assert burn._describe_stretch(1.0, 0.3, 0.5) == ("   1.0 s   30.0 % of a card   busy  50.0 %")
