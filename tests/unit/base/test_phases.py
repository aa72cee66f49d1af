"""Where the time of one piece of work went, in a line."""

from __future__ import annotations

from gpupool.base.phases import PhaseTimer
from tests.support.hand_clock import Clock


def test_each_part_is_shown_with_its_time_and_that_on_the_processor() -> None:
    wall = Clock()
    processor = Clock()
    phases = PhaseTimer(wall, processor)
    wall.now = 0.25
    processor.now = 0.01
    phases.mark_phase("lease")
    wall.now = 0.75
    processor.now = 0.03
    phases.mark_phase("jobs")
    assert phases.format_text() == "0.750 s: lease 0.250 (0.010), jobs 0.500 (0.020)"
