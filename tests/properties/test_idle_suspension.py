"""What holds of suspended idle jobs, whatever runs, waits, sleeps and wants to work again.

No plan goes over a card, its factor, or the seats of a job that wants to work. What idle jobs leave
for a claim goes to that claim, also where they leave one after another.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from gpupool.base.units import GIB, WHOLE
from gpupool.model.claim import Shape
from gpupool.model.suspension import UNIT_FACTOR, IdleSuspensionRules
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.idle_suspension import (
    IdleJob,
    empty_seats,
    find_idle_victims,
    replace_suspended,
    sum_seats,
)
from gpupool.scheduling.preemption.victims import PreemptionRules
from gpupool.scheduling.snapshot.claims import RunningJob, SuspendedJob, WaitingClass
from gpupool.scheduling.snapshot.snapshot import Snapshot
from tests.support.gang_builders import running
from tests.support.preemption_builders import NOW, asked, busy
from tests.support.scheduling_builders import apply, cards, waiting

often = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])

POOL = cards("3xH200")
TOTAL = 140 * GIB
RULES = PreemptionRules()

milli = st.sampled_from([0, 300, 500, 1000])
size = st.sampled_from([10, 40, 70, 100, 140])
factors = st.sampled_from([1000, 1250, 1500, 2000])
holders = st.tuples(st.integers(0, 2), milli, size)
sleepers = st.tuples(st.integers(0, 2), milli, size, st.integers(0, 3))
claims = st.tuples(st.sampled_from([300, 500, 1000]), size, st.integers(1, 2))
#: The compute of the jobs that fill one card, and the memory of each.
fills = st.tuples(st.sampled_from([(1000,), (500, 500), (300, 700)]), st.sampled_from([10, 20, 40]))
#: A claim of which most fit where these jobs were.
beneficiaries = st.tuples(
    st.sampled_from([300, 500, 1000]), st.sampled_from([10, 20, 40, 60]), st.integers(1, 2)
)


def build_running(choices: list[tuple[int, int, int]]) -> list[RunningJob]:
    """As many of these jobs as their cards have room for."""
    used = dict.fromkeys(range(3), (0, 0))
    jobs = list[RunningJob]()
    for number, (row, compute, gib) in enumerate(choices):
        taken = used[row][0] + compute, used[row][1] + gib * GIB
        if compute and taken[0] <= WHOLE and taken[1] <= TOTAL:
            used[row] = taken
            want = Shape(compute, gib * GIB)
            jobs.append(running(POOL, f"r{number}", POOL.uuids[row], want=want, preemptible=False))
    return jobs


def build_pool(
    jobs: list[RunningJob], factor: int, away: list[SuspendedJob], *classes: WaitingClass
) -> Snapshot:
    rules = IdleSuspensionRules(memory_factor_milli=factor)
    before = replace(asked(busy(POOL, *jobs), *classes), idle_rules=rules)
    return replace_suspended(before, tuple(away))


def build_claims(choices: list[tuple[int, int, int]], name: str = "c") -> list[WaitingClass]:
    made = list[WaitingClass]()
    for number, (compute, gib, count) in enumerate(choices):
        want = Shape(compute, gib * GIB, count)
        made.append(waiting(f"{name}{number}", want=want, tenant=f"t{number % 2}", at=number))
    return made


@often
@given(
    st.lists(holders, max_size=5),
    factors,
    st.lists(sleepers, max_size=4),
    st.lists(claims, min_size=1, max_size=4),
)
def test_no_plan_goes_over_a_card_its_factor_or_the_seats_of_a_woken_job(
    held: list[tuple[int, int, int]],
    factor: int,
    asleep: list[tuple[int, int, int, int]],
    asking: list[tuple[int, int, int]],
) -> None:
    jobs = build_running(held)
    away = list[SuspendedJob]()
    for number, (row, compute, gib, wanted_ns) in enumerate(asleep):
        away.append(SuspendedJob(f"s{number}", (row,), compute, (gib * GIB,), wanted_ns))
    before = build_pool(jobs, factor, away, *build_claims(asking))
    plan = cycle(before, NOW, rules=RULES)
    woken = sum_seats(POOL, [one for one in away if one.wanted_ns])
    every = sum_seats(POOL, away).size
    for row, uuid in enumerate(POOL.uuids):
        seats = [seat for one in plan.placements for seat in one.seats if seat.device == uuid]
        if not seats:
            continue
        mine = [job for job in jobs if job.rows == (row,)]
        compute = sum(job.milli[0] for job in mine) + sum(seat.gpu_milli for seat in seats)
        memory = sum(job.sizes[0] for job in mine) + sum(seat.memory_bytes for seat in seats)
        assert compute + woken.milli[row] <= WHOLE
        assert memory + woken.size[row] <= TOTAL
        assert not every[row] or memory + every[row] <= TOTAL * factor // UNIT_FACTOR


@often
@given(
    st.lists(fills, min_size=3, max_size=3),
    factors,
    beneficiaries,
    st.lists(claims, min_size=1, max_size=3),
    st.randoms(use_true_random=False),
)
def test_no_third_claim_takes_what_idle_jobs_leave_one_after_another(
    full: list[tuple[tuple[int, ...], int]],
    factor: int,
    asking: tuple[int, int, int],
    third: list[tuple[int, int, int]],
    chance: object,
) -> None:
    held = list[tuple[int, int, int]]()
    for row, (shares, gib) in enumerate(full):
        held += [(row, compute, gib) for compute in shares]
    jobs = build_running(held)
    new = build_claims([asking], "new")
    before = build_pool(jobs, factor, [], *new)
    idle = [IdleJob(job.job, (n + 60) * 10**9, GIB) for n, job in enumerate(jobs)]
    found = find_idle_victims(before, NOW, idle, RULES)
    assume(found is not None)
    assert found is not None
    # As the host notes them: on their way, for the claim; then others come.
    leaving = list[RunningJob]()
    for job in jobs:
        gives_way = job.job in found.jobs
        leaving.append(replace(job, beneficiary=found.beneficiary) if gives_way else job)
    order = list(found.jobs)
    chance.shuffle(order)  # type: ignore[attr-defined]
    now = build_pool(leaving, factor, [], *new, *build_claims(third, "third"))
    now = replace(now, beneficiaries=(found.beneficiary,))
    placed = set[str]()
    for victim in ["", *order]:
        now = empty_seats(now, {victim})
        plan = cycle(now, NOW, rules=RULES)
        placed.update(one.job for one in plan.placements)
        now = apply(now, plan)
    assert found.beneficiary in placed
