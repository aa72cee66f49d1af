"""One small node and a queue, for tests of promised starts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpupool.base.units import NANOS_PER_SECOND as SECOND
from gpupool.model.gang import Gang, GangGroup, GangRole
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.scheduling.snapshot.claims import RunningJob, WaitingClass
from gpupool.scheduling.snapshot.plan import Plan
from gpupool.scheduling.snapshot.snapshot import Snapshot
from tests.support.scheduling_builders import cards, waiting, whole
from tests.support.time_builders import running, used_by

HEAD = waiting("head", want=whole(2), at=0)


def pool(*ends: int | None) -> tuple[CardTable, list[RunningJob]]:
    """One node of two cards, the first of them taken by jobs that end so (in seconds)."""
    names = [f"node-1/{i}" for i in range(len(ends))]
    full = cards("1x2xT4", used=used_by(*names))
    return full, [
        running(f"r{i}", full, name, ends=end)
        for i, (name, end) in enumerate(zip(names, ends, strict=True))
    ]


def small(name: str, seconds: int | None, **how: Any) -> WaitingClass:
    preemptible = how.pop("preemptible", False)
    claim = waiting(name, want=how.pop("want", whole()), at=5, **how)
    return replace(claim, seconds=seconds, preemptible=preemptible)


def plan(before: Snapshot, jobs: list[RunningJob], now: int = 0, **more: Any) -> Plan:
    return cycle(replace(before, running=tuple(jobs), **more), now * SECOND)


def placed(found: Plan) -> list[str]:
    return sorted(placement.job for placement in found.placements)


def full(layout: str, *taken: int) -> CardTable:
    columns = cards(layout)
    return cards(layout, used=used_by(*(columns.uuids[row] for row in taken)))


def workers(name: str, count: int, at: int = 0, **how: Any) -> WaitingClass:
    """A gang of whole cards, before all others in the queue."""
    members = tuple(f"{name}.{n}" for n in range(count))
    role = GangRole("worker", whole(), count, count)
    first = replace(waiting(*members, want=whole(), at=at, **how), priority=1, preemptible=True)
    return replace(first, gang=Gang(name, GangGroup(name, (role,)), members))


def held_by(tenant: str, columns: CardTable, *ends: int | None, first: int = 0) -> list[RunningJob]:
    """A job on each of these cards."""
    names = columns.uuids[first : first + len(ends)]
    return [
        replace(running(f"{tenant}-{name}", columns, name, ends=end), tenant=tenant)
        for name, end in zip(names, ends, strict=True)
    ]
