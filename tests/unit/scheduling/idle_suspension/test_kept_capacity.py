"""Cards keep the seats of jobs that want to work again, and memory that is not lent twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpupool.base.units import GIB
from gpupool.model.claim import Shape
from gpupool.model.suspension import IdleSuspensionRules
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.idle_suspension import (
    measure_kept,
    measure_kept_before,
    replace_suspended,
)
from gpupool.scheduling.snapshot.claims import SuspendedJob
from tests.support.scheduling_builders import cards, snapshot, waiting

POOL = cards("2xH200")
ONCE = IdleSuspensionRules()
HALF_AGAIN = IdleSuspensionRules(memory_factor_milli=1500)


def away(job: str, gib: int, wanted_ns: int = 0, rows: tuple[int, ...] = (0,)) -> SuspendedJob:
    return SuspendedJob(job, rows, 400, (gib * GIB,) * len(rows), wanted_ns)


@pytest.mark.parametrize(
    ("rules", "jobs", "milli", "gib"),
    [
        (ONCE, [], 0, 0),
        (ONCE, [away("a", 50), away("b", 30)], 0, 80),
        (HALF_AGAIN, [away("a", 50)], 0, 0),
        (HALF_AGAIN, [away("a", 50), away("b", 30)], 0, 10),
        (HALF_AGAIN, [away("a", 50, wanted_ns=7), away("b", 30)], 400, 50),
        (HALF_AGAIN, [away("a", 50, wanted_ns=7), away("b", 80)], 400, 60),
    ],
)
def test_a_card_keeps_woken_seats_and_what_is_not_lent_twice(
    rules: IdleSuspensionRules, jobs: list[SuspendedJob], milli: int, gib: int
) -> None:
    kept = measure_kept(POOL, jobs, rules)
    assert kept.milli.tolist() == [milli, 0]
    assert kept.size.tolist() == [gib * GIB, 0]


def test_a_job_keeps_its_seats_on_each_of_its_cards() -> None:
    kept = measure_kept(POOL, [away("wide", 20, wanted_ns=1, rows=(0, 1))], ONCE)
    assert (kept.milli.tolist(), kept.size.tolist()) == ([400, 400], [20 * GIB, 20 * GIB])


def test_a_claim_gets_what_is_not_kept_and_the_snapshot_can_be_changed_back() -> None:
    before = snapshot(POOL, waiting("new", want=Shape(600, 100 * GIB, count=2)))
    assert cycle(before, 0).placements
    kept = replace_suspended(before, (away("a", 50, wanted_ns=1),))
    plan = cycle(kept, 0)
    assert not plan.placements
    smaller = replace(kept, waiting=(waiting("new", want=Shape(600, 90 * GIB, count=2)),))
    assert cycle(smaller, 0).placements
    assert cycle(replace_suspended(kept, ()), 0).placements == cycle(before, 0).placements


def test_the_factor_limits_what_grows_and_not_what_comes_back() -> None:
    jobs = (away("a", 50), away("b", 30), away("c", 20, wanted_ns=4))
    pool = replace_suspended(snapshot(POOL), jobs)
    assert measure_kept_before(pool, "grows").size.tolist() == [100 * GIB, 0]
    assert measure_kept_before(pool, "a").size.tolist() == [20 * GIB, 0]
    assert measure_kept_before(pool, "c").size.tolist() == [0, 0]


def test_a_claim_for_a_whole_card_starts_beside_memory_that_is_kept() -> None:
    pool = snapshot(POOL, waiting("new", want=Shape(1000, 90 * GIB, count=2)))
    assert cycle(replace_suspended(pool, (away("a", 50),)), 0).placements
    assert not cycle(replace_suspended(pool, (away("a", 51),)), 0).placements
    assert not cycle(replace_suspended(pool, (away("a", 1, wanted_ns=1),)), 0).placements
