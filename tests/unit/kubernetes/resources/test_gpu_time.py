"""GPU time of a container in reports of its node."""

from __future__ import annotations

import pytest

from gpupool.kubernetes.resources.gpu_time import MOST_MS, GpuTime


@pytest.mark.parametrize("spent", [GpuTime(0), GpuTime(9, 0, 0), GpuTime(9, 4), GpuTime(9, 4, 7)])
def test_time_reads_back_as_written_and_unknown_stays_unknown(spent: GpuTime) -> None:
    assert GpuTime.from_json(spent.to_json()) == spent


def test_container_without_gpu_time_has_none() -> None:
    assert GpuTime.from_json({"uid": "u", "container": "main"}) is None


def test_sums_are_limited_and_unknown_ones_stay_unknown() -> None:
    assert GpuTime(MOST_MS + 1, None, MOST_MS + 1).limit_sums() == GpuTime(MOST_MS, None, MOST_MS)
    assert GpuTime(1, 2, 3).limit_sums() == GpuTime(1, 2, 3)
