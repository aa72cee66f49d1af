"""What a simulated pool knows of the claims to come is what a pool would know at that moment, or
all of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpupool.base.units import GIB, WHOLE
from gpupool.base.units import NANOS_PER_SECOND as NS
from gpupool.model.claim import Rejection, RejectionReason, Shape
from gpupool.model.quota import UNLIMITED, ResourceAmount
from gpupool.scheduling.scoring.demand_knowledge import ENDING, FILLING, FIRST_CLAIMS, MOST_JOBS
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from gpupool.scheduling.snapshot.snapshot import Snapshot, TenantView
from gpupool.simulation.replay.arrival_jobs import build_jobs
from gpupool.simulation.replay.foreknowledge import ONLINE, ORACLE, Foreknowledge
from gpupool.simulation.replay.replay import Replay
from gpupool.simulation.replay.world import SimulatedPool, build_card_table
from gpupool.simulation.traces.trace import JobArrival, TraceNode

CARD, HALF = Shape(WHOLE), Shape(500, GIB)
WHOLE_TRACE = ExpectedDemand((CARD, HALF), (30.0, 10.0))


def world(cards: int, expected: ExpectedDemand = WHOLE_TRACE) -> SimulatedPool:
    nodes = [TraceNode("n0", (("H200", 140 * GIB),) * cards)]
    tenants = {"default": TenantView(UNLIMITED, ResourceAmount())}
    return SimulatedPool(Snapshot(0, build_card_table(nodes), tenants, (), expected=expected))


def live(known: Foreknowledge, cards: int, arrivals: list[JobArrival]) -> list[ExpectedDemand]:
    """What the scheduler was told to expect, each time it was asked."""
    seen: list[ExpectedDemand] = []

    class Spied(SimulatedPool):
        def take_snapshot(self, now_ns: int) -> Snapshot:
            seen.append(known.expected_demand)
            return super().take_snapshot(now_ns)

    before = world(cards)
    Replay(Spied(before.first), known=known).play_arrivals(arrivals)
    return seen


def test_an_oracle_knows_the_whole_trace_before_the_first_claim_and_learns_nothing() -> None:
    known = Foreknowledge(ORACLE, WHOLE_TRACE, 4 * WHOLE)
    seen = live(
        known, 4, [JobArrival(f"j{n}", n * NS, HALF, 5 * NS) for n in range(3 * FIRST_CLAIMS)]
    )
    assert set(map(id, seen)) == {id(WHOLE_TRACE)}


def test_online_a_pool_knows_only_claims_that_came() -> None:
    known = Foreknowledge(ONLINE, WHOLE_TRACE, 100 * WHOLE)
    seen = live(
        known, 8, [JobArrival(f"j{n}", n * NS, HALF, 1000 * NS) for n in range(FIRST_CLAIMS)]
    )
    assert seen[0].shapes == ()
    assert seen[-1].shapes == (HALF,)
    assert seen[-1].counts[0] <= FIRST_CLAIMS
    assert seen[-1].returned_pct == FILLING


def test_online_a_pool_learns_that_claims_end() -> None:
    known = Foreknowledge(ONLINE, WHOLE_TRACE, 4 * WHOLE)
    seen = live(known, 4, [JobArrival(f"j{n}", n * NS, CARD, 2 * NS) for n in range(40)])
    assert seen[-1].returned_pct == ENDING


def test_members_of_one_submission_are_one_claim_of_so_many_jobs() -> None:
    known = Foreknowledge(ONLINE, WHOLE_TRACE, 4 * WHOLE)
    for number in range(FIRST_CLAIMS - 1):
        known.on_arrival(list(build_jobs([JobArrival(f"j{number}", 0, CARD, NS)])), None, 0)
    known.on_arrival(list(build_jobs([JobArrival("many", 0, HALF, NS, members=1000)])), None, 0)
    assert (
        dict(zip(known.expected_demand.shapes, known.expected_demand.counts, strict=True))[HALF]
        == MOST_JOBS
    )


def test_a_pool_does_not_learn_from_what_it_refuses() -> None:
    known = Foreknowledge(ONLINE, WHOLE_TRACE, 4 * WHOLE)
    jobs = list(build_jobs([JobArrival("j", 0, CARD, NS)]))
    refusal = Rejection("no card is that large", RejectionReason.CARD_TOO_SMALL, fits_ever=False)
    for _ in range(2 * FIRST_CLAIMS):
        known.on_arrival(jobs, refusal, 0)
    assert known.expected_demand.shapes == ()


@pytest.mark.parametrize("choice", [ONLINE, ORACLE])
def test_the_same_trace_teaches_the_same(choice: str) -> None:
    arrivals = [
        JobArrival(f"j{n}", n * NS, replace(HALF, gpu_milli=100 + n % 7), (n % 9) * NS)
        for n in range(90)
    ]
    one, other = (
        live(Foreknowledge(choice, WHOLE_TRACE, 4 * WHOLE), 4, arrivals) for _ in range(2)
    )
    assert one == other
