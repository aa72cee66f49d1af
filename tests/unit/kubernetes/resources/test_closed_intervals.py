"""A closed interval is written into a ledger and read back from it as it was."""

from __future__ import annotations

from dataclasses import replace

from gpupool.kubernetes.resources.closed_intervals import (
    ClosedInterval,
    seats_from_json,
    seats_to_json,
)
from gpupool.kubernetes.resources.gpu_time import GpuTime
from gpupool.model.allocation import Seat

SEATS = (Seat("GPU-0", 300, 1 << 30), Seat("GPU-1", 1000, 48 << 30))
COUNTED = ClosedInterval("u", "team", "a", "main", SEATS, "nlp", "acct", 3, 9, spent=GpuTime(0))


def test_seats_keep_their_order_and_amounts() -> None:
    written = seats_to_json(SEATS)
    assert written[1] == {"uuid": "GPU-1", "gpuMilli": 1000, "memoryBytes": 48 << 30}
    assert seats_from_json(written) == SEATS


def test_no_gpu_time_differs_from_a_gpu_time_of_0() -> None:
    unknown = replace(COUNTED, spent=None)
    assert COUNTED.to_json()["gpuMs"] == 0
    assert "gpuMs" not in unknown.to_json()
    for one in (COUNTED, unknown):
        assert ClosedInterval.from_json(one.to_json()) == one
