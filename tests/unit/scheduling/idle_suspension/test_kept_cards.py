"""A waiting claim hears on which card it would start, were nothing kept there."""

from __future__ import annotations

from gpupool.base.units import GIB
from gpupool.model.claim import Shape
from gpupool.scheduling.idle_suspension import (
    describe_kept,
    find_kept_card,
    replace_suspended,
)
from gpupool.scheduling.preemption.victims import PreemptionRules
from gpupool.scheduling.snapshot.claims import SuspendedJob, WaitingClass
from gpupool.scheduling.snapshot.snapshot import Snapshot
from tests.support.scheduling_builders import cards, snapshot, waiting, whole

ONE = waiting("new", want=whole())


def away(job: str, wanted_ns: int = 0) -> SuspendedJob:
    return SuspendedJob(job, (0,), 1000, (60 * GIB,), wanted_ns)


def pool(*suspended: SuspendedJob, claim: WaitingClass = ONE) -> Snapshot:
    return replace_suspended(snapshot(cards("1xH200"), claim), suspended)


def describe(before: Snapshot) -> str | None:
    kept = find_kept_card(before, 0, PreemptionRules())
    return None if kept is None else describe_kept(kept, "node-1:0")


def test_the_amounts_for_jobs_that_want_to_work_and_the_factor_are_named() -> None:
    assert describe(pool(away("a", 3))) == (
        "would start on node-1:0, which keeps 1.00 GPU (100 % compute) + 61440 MiB for 1 suspended "
        "job that wants to work again"
    )
    assert describe(pool(away("a"))) == (
        "would start on node-1:0, which keeps 61440 MiB of the 61440 MiB that idle jobs have there "
        "while they run: with the pool's factor 1 running and idle-suspended shares have at most "
        "143360 MiB together (GPUPOOL_SUSPEND_FACTOR)"
    )


def test_a_claim_that_starts_anyway_or_never_hears_nothing() -> None:
    assert describe(pool()) is None
    assert describe(pool(away("a"), claim=waiting("new", want=whole(2)))) is None
    small = waiting("new", want=Shape(1000, 80 * GIB))
    assert describe(pool(away("a"), claim=small)) is None
