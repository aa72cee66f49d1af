"""The comparison of the driver's and the fence's GPU time, on series of samples as NVML gives
them."""

from __future__ import annotations

import pytest

from gpupool.probes.process_times import SampledTimes, UseSample
from tests.support.gpu_times import Look, points_apart

MS_US = 1000
#: Milliseconds between samples and their percents: uneven, as drivers take them.
SERIES = ((167, 31), (167, 28), (334, 30), (166, 33), (1000, 29), (166, 30))


def looks(fence_percent: int) -> list[Look]:
    times, at_us, found = SampledTimes(last_us=10**15), 10**15, [Look(0, 0, 0)]
    for lasted_ms, percent in SERIES:
        at_us += lasted_ms * MS_US
        told = times.add_samples([UseSample(7, at_us, percent)], {7})
        passed_ns = (at_us - 10**15) * 1000
        found.append(Look(passed_ns, told[7], passed_ns * fence_percent // 100))
    return found


def test_accounts_that_agree_are_less_than_a_point_apart() -> None:
    assert abs(points_apart(looks(30))) < 1


def test_time_that_the_fence_did_not_see_shows_as_points() -> None:
    assert points_apart(looks(10)) == pytest.approx(points_apart(looks(30)) + 20)


def test_one_look_has_no_difference() -> None:
    with pytest.raises(ValueError, match="got 1 over 0 ns"):
        points_apart([Look(5, 1, 1)])
