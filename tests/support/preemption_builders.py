"""Pools full of jobs, and the evictions of one plan, for tests of preemption."""

from __future__ import annotations

from dataclasses import replace

from gpupool.model.quota import ResourceAmount
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.preemption.victims import PreemptionRules
from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.scheduling.snapshot.claims import RunningJob, WaitingClass
from gpupool.scheduling.snapshot.plan import Plan
from gpupool.scheduling.snapshot.snapshot import Snapshot
from tests.support.gang_builders import occupied, running
from tests.support.scheduling_builders import cards, snapshot, tenant, waiting, whole

HOUR = 3600 * 10**9


NOW = 100 * HOUR


def busy(pool: CardTable, *jobs: RunningJob) -> tuple[CardTable, tuple[RunningJob, ...]]:
    return occupied(pool, *jobs), jobs


def asked(pool: tuple[CardTable, tuple[RunningJob, ...]], *classes: WaitingClass) -> Snapshot:
    columns, jobs = pool
    return replace(snapshot(columns, *classes, tenants={"other": tenant()}), running=jobs)


def evicted(before: Snapshot, **rules: object) -> list[str]:
    return [eviction.job for eviction in plan(before, **rules).evictions]


def plan(before: Snapshot, **rules: object) -> Plan:
    return cycle(before, NOW, rules=PreemptionRules(**rules))  # type: ignore[arg-type]


def one_each(
    pool: CardTable, *ages: int, **more: object
) -> tuple[CardTable, tuple[RunningJob, ...]]:
    """One whole-card job per card, so many hours old each."""
    jobs = [
        running(pool, f"old-{n}", pool.uuids[n], want=whole(), since=NOW - age * HOUR, **more)  # type: ignore[arg-type]
        for n, age in enumerate(ages)
    ]
    return busy(pool, *jobs)


URGENT = waiting("urgent", want=whole(), priority=100)


def borrowers(count: int, **more: object) -> Snapshot:
    """Four cards, all held by a tenant that is guaranteed two; another one, guaranteed two, asks
    for `count`."""
    pool = one_each(cards("4xH200"), 9, 8, 7, 6, **more)
    asks = waiting("mine", want=whole(count), tenant="nlp")
    held = replace(tenant(2000, None), held=ResourceAmount(4000, 0))
    return replace(asked(pool, asks), tenants={"nlp": tenant(2000, None), "other": held})
