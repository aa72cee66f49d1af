"""Give every share of a pool another kind of sharing, waiting and running alike. Pure.

Some claims keep their kind: a whole card and a partition have no neighbour, MPS belongs to the card
that serves it, and a share that names no part of the compute has none that it could be promised.
See ADR 0120.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gpupool.base.units import WHOLE
from gpupool.model.claim import NAMED_KINDS, Shape, SharingKind
from gpupool.model.gang import Gang, GangGroup, GangRole
from gpupool.model.quota import ResourceAmount
from gpupool.scheduling.snapshot.claims import ClassKey, RunningJob, WaitingClass
from gpupool.scheduling.snapshot.plan import PlannedStart
from gpupool.scheduling.snapshot.snapshot import Snapshot, TenantView


@dataclass(frozen=True)
class SharingChange:
    """A pool whose shares have one kind.

    `changed` counts the jobs that have another kind than before, `unchanged` the running ones whose
    card has no compute left for the promise of the new kind.
    """

    snapshot: Snapshot
    changed: int
    unchanged: int


def change_shape(shape: Shape, kind: SharingKind) -> Shape:
    """Return the shape with this kind of sharing, where it can have another one."""
    has_neighbours = 0 < shape.gpu_milli < WHOLE and shape.profile is None
    if not has_neighbours or shape.sharing in NAMED_KINDS or shape.sharing is kind:
        return shape
    return replace(shape, sharing=kind, names_sharing=True)


def change_sharing(snapshot: Snapshot, kind: SharingKind) -> SharingChange:
    """Return the pool in which every share has this kind. `snapshot` stays usable."""
    waiting: list[WaitingClass] = []
    changed = 0
    for entry in snapshot.waiting:
        gang = entry.gang and _change_gang(entry.gang, kind)
        shape = change_shape(entry.shape, kind)
        if shape != entry.shape or gang != entry.gang:
            changed += entry.count
        waiting.append(replace(entry, shape=shape, gang=gang))
    promised: dict[ClassKey, PlannedStart] = {}
    for key, start in snapshot.previous_starts.items():
        shape = change_shape(key.shape, kind)
        # A promise that counted on other amounts is none for the new ones.
        if shape.held_milli == key.shape.held_milli:
            promised[key._replace(shape=shape)] = start
    shapes = tuple(change_shape(shape, kind) for shape in snapshot.expected.shapes)
    begin = replace(
        snapshot,
        waiting=tuple(waiting),
        previous_starts=promised,
        expected=replace(snapshot.expected, shapes=shapes),
    )
    return _change_running(begin, kind, changed)


def _change_running(snapshot: Snapshot, kind: SharingKind, changed: int) -> SharingChange:
    """Change what runs, the oldest first, as far as the cards have the compute."""
    free_milli = snapshot.cards.free_milli.copy()
    more_milli: dict[str, int] = {}
    running: list[RunningJob] = []
    unchanged = 0
    for job in sorted(snapshot.running, key=lambda one: (one.started_ns, one.job)):
        shape = change_shape(job.shape, kind)
        more = shape.held_milli - job.shape.held_milli
        if any(free_milli[row] < more for row in job.rows):
            unchanged += 1
            running.append(job)
            continue
        for row in job.rows:
            free_milli[row] -= more
        changed += shape != job.shape
        more_milli[job.tenant] = more_milli.get(job.tenant, 0) + more * len(job.rows)
        milli = tuple(one + more for one in job.milli)
        running.append(replace(job, shape=shape, milli=milli))
    tenants = _add_held(snapshot, more_milli)
    cards = replace(snapshot.cards, free_milli=free_milli)
    after = replace(snapshot, cards=cards, tenants=tenants, running=tuple(running))
    return SharingChange(after, changed, unchanged)


def _add_held(snapshot: Snapshot, more_milli: Mapping[str, int]) -> dict[str, TenantView]:
    tenants = dict(snapshot.tenants)
    for name, milli in more_milli.items():
        view = tenants[name]
        tenants[name] = replace(view, held=view.held + ResourceAmount(milli, 0))
    return tenants


def _change_gang(gang: Gang, kind: SharingKind) -> Gang:
    return replace(gang, root=_change_group(gang.root, kind))


def _change_group(group: GangGroup, kind: SharingKind) -> GangGroup:
    parts: list[GangRole | GangGroup] = []
    for part in group.parts:
        if isinstance(part, GangRole):
            parts.append(replace(part, shape=change_shape(part.shape, kind)))
        else:
            parts.append(_change_group(part, kind))
    return replace(group, parts=tuple(parts))
