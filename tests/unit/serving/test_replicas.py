"""Which replicas end, which ports they get, and how long a failed start waits."""

from __future__ import annotations

import pytest

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.serving.replicas import (
    DRAINING,
    READY,
    STARTING,
    WANTED,
    ReplicaFact,
    choose_port,
    choose_victims,
    compute_pause,
    is_failed_start,
)


def test_those_that_serve_least_end_first_then_the_newest() -> None:
    states = (READY, READY, STARTING, WANTED, DRAINING)
    replicas = [ReplicaFact(number, state) for number, state in enumerate(states, 1)]
    assert choose_victims(replicas, 0) == []
    assert choose_victims(replicas, -1) == []
    assert choose_victims(replicas, 3) == [4, 3, 2]
    assert choose_victims(replicas, 9) == [4, 3, 2, 1]


@pytest.mark.parametrize(
    ("first", "number", "taken", "port"),
    [
        (8000, 1, (), 8000),
        (8000, 2, (8000,), 8001),
        (8000, 2, (8001,), 8002),
        (8000, 1001, (), 8000),
        (8000, 1000, (8999,), 8000),
        (65535, 7, (), 65535),
        (65535, 7, (65535,), None),
        (65530, 7, (65530,), 65531),
    ],
)
def test_the_next_replica_gets_the_next_free_port(
    first: int, number: int, taken: tuple[int, ...], port: int | None
) -> None:
    assert choose_port(first, number, set(taken)) == port


def test_pauses_between_failed_starts_double_up_to_five_minutes() -> None:
    pauses = [compute_pause(failures) // NANOS_PER_SECOND for failures in range(9)]
    assert pauses == [0, 10, 20, 40, 80, 160, 300, 300, 300]


def test_a_replica_that_served_a_minute_has_started_well() -> None:
    assert is_failed_start(None, 10**18)
    assert is_failed_start(10**18, 10**18 + 59 * NANOS_PER_SECOND)
    assert not is_failed_start(10**18, 10**18 + 60 * NANOS_PER_SECOND)
