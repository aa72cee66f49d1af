"""What waits, in the order of its turn, with what the caller may know of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from gpupool.allocations.arrays.references import reference_of
from gpupool.allocations.placing import Placer
from gpupool.allocations.start_view import start_fields
from gpupool.allocations.tables import arrays, jobs
from gpupool.model.tenant import Principal
from gpupool.scheduling.snapshot import Snapshot, Waiting
from gpupool.tenancy.tables import users
from gpupool.wire.jobs import QueuedOut

_NAMED = (
    sa.select(jobs.c.public_id, jobs.c.name, jobs.c.array_name, users.c.name.label("user"))
    .join(users, users.c.id == jobs.c.user_id)
    .where(jobs.c.public_id.in_(sa.bindparam("jobs", expanding=True)))
)
_ARRAYS = (
    sa.select(arrays.c.public_id, arrays.c.name, users.c.name.label("user"))
    .join(users, users.c.id == arrays.c.user_id)
    .where(arrays.c.public_id.in_(sa.bindparam("arrays", expanding=True)))
)
Turn = tuple[Waiting, int]
"""A class and the number of one of its heads; a gang has one turn."""


def queue_of(
    connection: sa.Connection, snapshot: Snapshot, placer: Placer, principal: Principal, now_ns: int, limit: int
) -> list[QueuedOut]:
    """At most `limit` rows; what stands behind the heads of a class is in its last row's count."""
    turns = placer.turns(snapshot, limit)
    seen = [turn for turn in turns if _may_see(principal, turn[0])]
    names = _names(connection, [waiting.heads[n] for waiting, n in seen])
    return list(_rows(turns, names, placer, principal, now_ns))


@dataclass(frozen=True)
class _Named:
    """What a head is called, and whose it is."""

    name: str
    array_name: str | None
    user: str


def _names(connection: sa.Connection, heads: Sequence[str]) -> dict[str, _Named]:
    """By head; members of arrays that are no jobs yet are called as they will be."""
    members = {head: reference for head in heads if (reference := reference_of(head)) is not None}
    rows = connection.execute(_NAMED, {"jobs": [head for head in heads if head not in members]})
    found = {row.public_id: _Named(row.name, row.array_name, row.user) for row in rows}
    ids = {"arrays": list({one.array for one in members.values()})}
    known = {row.public_id: row for row in connection.execute(_ARRAYS, ids)} if members else {}
    for head, one in members.items():
        if (row := known.get(one.array)) is not None:
            found[head] = _Named(f"{row.name}.{one.index}", row.name, row.user)
    return found


def _rows(
    turns: list[Turn], names: Mapping[str, _Named], placer: Placer, principal: Principal, now_ns: int
) -> Iterator[QueuedOut]:
    place, others = 1, 0
    for waiting, n in turns:
        count = _count(waiting, n)
        if not _may_see(principal, waiting):
            others += count
            continue
        if others:
            yield QueuedOut(place=place, count=others)
            place, others = place + others, 0
        yield _row(waiting, n, count, names, placer, now_ns).model_copy(update={"place": place})
        place += count
    if others:
        yield QueuedOut(place=place, count=others)


def _count(waiting: Waiting, n: int) -> int:
    """Jobs that a row stands for: one, a whole gang, or with the last head all behind it."""
    if waiting.gang is not None:
        return waiting.count
    return 1 if n < len(waiting.heads) - 1 else waiting.count - n


def _row(waiting: Waiting, n: int, count: int, names: Mapping[str, _Named], placer: Placer, now_ns: int) -> QueuedOut:
    named = names.get(waiting.heads[n])
    said = placer.planner.rejection_of(waiting.key)
    told = placer.planner.start_of(waiting.key, waiting.heads[n])
    since = waiting.heads_ns[n] if waiting.heads_ns else waiting.oldest_ns
    return QueuedOut(
        place=0,
        count=count,
        job=named and (named.array_name if waiting.gang else named.name),
        id=waiting.heads[n],
        tenant=waiting.tenant,
        user=named and named.user,
        share=str(waiting.shape),
        priority=waiting.priority,
        gang=waiting.gang is not None,
        waited_seconds=max(0, now_ns - since) // 10**9,
        reason=said and str(said.dominant),
        **start_fields(*(told or (None, None))),
    )


def _may_see(principal: Principal, waiting: Waiting) -> bool:
    return principal.sees_all or waiting.tenant == principal.tenant
