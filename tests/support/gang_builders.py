"""Gangs, racks and running jobs for tests of the scheduler, in one line each.

snapshot(racked("4x8xH200", rack=(0, 0, 1, 1)), gang("g", role("worker", whole(), 16),
within=Within("rack")))
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpupool.model.claim import ANYWHERE, Shape, TopologyConstraint
from gpupool.model.gang import Gang, GangGroup, GangRole
from gpupool.scheduling.snapshot.cards import CardTable, TopologyLevel
from gpupool.scheduling.snapshot.claims import RunningJob, WaitingClass
from gpupool.scheduling.snapshot.plan import JobPlacement
from gpupool.scheduling.snapshot.snapshot import Snapshot
from tests.support.scheduling_builders import Used, cards


def role(
    name: str, want: Shape, minimum: int, desired: int | None = None, *, launcher: bool = False
) -> GangRole:
    return GangRole(name, want, minimum, minimum if desired is None else desired, launcher)


def group(
    name: str, *parts: GangRole | GangGroup, within: TopologyConstraint = ANYWHERE
) -> GangGroup:
    return GangGroup(name, parts, within)


def gang(
    name: str,
    *parts: GangRole | GangGroup,
    within: TopologyConstraint = ANYWHERE,
    tenant: str = "nlp",
    priority: int = 0,
    at: int = 0,
    gone: int = 0,
    seconds: int | None = None,
) -> WaitingClass:
    """A gang that waits; of its members `name-0`, `name-1`, … the first `gone` wait no longer."""
    root = GangGroup("all", parts, within)
    members = tuple(f"{name}-{n}" for n in range(sum(one.desired for one in root.iterate_roles())))
    heads, first = members[gone:], next(root.iterate_roles())
    whole = Gang(name, root, members)
    return WaitingClass(
        tenant,
        priority,
        first.shape,
        heads,
        len(heads),
        at,
        (at,) * len(heads),
        seconds=seconds,
        gang=whole,
    )


def racked(pool: str, *, used: Used | None = None, **levels: tuple[int, ...]) -> CardTable:
    """A pool whose nodes are in these domains, by level from the widest to the narrowest: `rack=(0,
    0, 1, 1)`."""
    found = tuple(
        TopologyLevel(
            name,
            tuple(f"{name}-{n}" for n in range(max(numbers) + 1)),
            np.array(numbers, dtype=np.int64),
        )
        for name, numbers in levels.items()
    )
    return replace(cards(pool, used=used), levels=found)


def running(
    before: Snapshot | CardTable,
    job: str,
    *names: str,
    want: Shape,
    tenant: str = "other",
    priority: int = 0,
    since: int = 0,
    preemptible: bool = True,
    gang: str = "",
    saved: int | None = None,
    leaving_for: str = "",
    role: str = "",
    least: int | None = None,
) -> RunningJob:
    """A job that holds these cards since then (nanoseconds); that they are in use is for the caller
    to say."""
    columns = before.cards if isinstance(before, Snapshot) else before
    rows = tuple(columns.uuids.index(name) for name in names)
    sizes = tuple(want.memory_on(int(columns.memory_bytes[row])) for row in rows)
    milli = (want.held_milli,) * len(rows)
    return RunningJob(
        job,
        tenant,
        priority,
        rows,
        milli,
        sizes,
        want,
        since,
        preemptible=preemptible,
        gang=gang,
        saved_ns=saved,
        beneficiary=leaving_for,
        role=role,
        role_minimum=least,
    )


def occupied(pool: CardTable, *jobs: RunningJob) -> CardTable:
    """The pool with these jobs' seats taken."""
    milli, sizes = pool.free_milli.copy(), pool.free_bytes.copy()
    for job in jobs:
        milli[list(job.rows)] -= job.milli
        sizes[list(job.rows)] -= job.sizes
    return replace(pool, free_milli=milli, free_bytes=sizes)


def nodes_of(placements: tuple[JobPlacement, ...]) -> dict[str, str]:
    """Job -> node."""
    return {one.job: one.node for one in placements}
