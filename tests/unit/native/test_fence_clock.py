"""The clock of the launch path: it follows the system's, also on a machine whose counter goes at
another rate."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.unit.native.fence_share import HERE, SRC, compile_c

MOST_NS = 15_000
"""A span of 1 ms at a rate that is a hundredth wrong is 10 us; the rest is for a thread that loses
its processor."""


def test_fence_clock_follows_the_system_and_a_change_of_rate(tmp_path: Path) -> None:
    program = compile_c(
        tmp_path / "probe", [HERE / "fence_clock_probe.c", SRC / "time/clock.c"], "-O2", "-lpthread"
    )
    said = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    same_ns, faster_ns = map(int, said.split())
    assert same_ns <= MOST_NS
    assert faster_ns <= MOST_NS
