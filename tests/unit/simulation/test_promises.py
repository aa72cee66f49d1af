"""Promises and what became of them, of lives small enough to be worked out by hand."""

from __future__ import annotations

from gpupool.base.units import GIB
from gpupool.model.claim import Shape
from gpupool.model.quota import UNLIMITED, Amount
from gpupool.scheduling.snapshot import Snapshot, TenantView
from gpupool.simulation.promises import Ledger, PromisedReplay
from gpupool.simulation.trace import NS, Arrival, Node
from gpupool.simulation.world import World, columns_of

WHOLE, BOTH = Shape(1000), Shape(1000, count=2)


def ledger(*arrivals: Arrival) -> Ledger:
    world = World(
        Snapshot(0, columns_of([Node("n", (("H200", 140 * GIB),) * 2)]), {"t": TenantView(UNLIMITED, Amount())}, ())
    )
    replay = PromisedReplay(world)
    replay.run(arrivals)
    return replay.ledger


def job(name: str, at: int, seconds: int, limit: int, shape: Shape = WHOLE) -> Arrival:
    return Arrival(name, at * NS, shape, seconds * NS, "t", limit_seconds=limit)


def test_a_head_is_promised_the_limit_of_what_runs_and_starts_earlier_when_that_ends_earlier() -> None:
    found = ledger(job("a", 0, 50, 100), job("b", 1, 10, 10, BOTH))
    assert (found.first_ns, found.started_ns["b"]) == ({"b": 100 * NS}, 50 * NS)
    assert (found.put_off, found.late) == ([], [])


def test_a_job_that_outlives_its_limit_makes_the_promise_late_and_that_is_seen() -> None:
    found = ledger(job("a", 0, 200, 100), job("b", 1, 10, 10, BOTH), job("c", 150, 1, 1))
    assert found.put_off[0] == ("b", 100 * NS, 160 * NS)
    assert found.late == ["b"]


def test_what_is_short_enough_passes_the_head_and_what_is_not_does_not() -> None:
    found = ledger(job("a", 0, 100, 100), job("b", 1, 10, 10, BOTH), job("short", 2, 98, 98), job("long", 2, 5, 99))
    assert {name: at // NS for name, at in found.started_ns.items()} == {"a": 0, "short": 2, "b": 100, "long": 110}
