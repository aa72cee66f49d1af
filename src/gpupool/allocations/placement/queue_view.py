"""The queue in scheduling order, as far as the caller may see it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from gpupool.allocations.arrays.references import MemberReference, parse_reference
from gpupool.allocations.cache.pending_jobs import QueueEntry
from gpupool.allocations.placement.placer import Placer
from gpupool.allocations.placement.start_view import build_start_fields
from gpupool.allocations.store.tables import arrays, jobs
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.model.tenant import Principal
from gpupool.scheduling import Snapshot, WaitingClass
from gpupool.tenancy.tables import users
from gpupool.wire.views.job_pages import QueuedOut

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
#: A waiting class and the index of one of its jobs in `job_ids`; a gang has one turn.
Turn = tuple[WaitingClass, int]


def list_queue(
    connection: sa.Connection,
    snapshot: Snapshot,
    placer: Placer,
    principal: Principal,
    now_ns: int,
    limit: int,
) -> list[QueuedOut]:
    """List at most `limit` rows; the last row of a class counts the jobs behind it."""
    turns = placer.list_turns(snapshot, limit)
    # Names of other tenants' jobs are not even read.
    visible = list[str]()
    for waiting, number in turns:
        if _can_see_class(principal, waiting):
            visible.append(waiting.job_ids[number])
    names = _read_names(connection, visible)
    rows = list(_build_rows(turns, names, placer, principal, now_ns))
    if len(turns) < limit:
        rows += _list_start_waits(connection, placer, principal, now_ns, rows, limit - len(turns))
    return rows


def _list_start_waits(
    connection: sa.Connection,
    placer: Placer,
    principal: Principal,
    now_ns: int,
    rows: Sequence[QueuedOut],
    limit: int,
) -> Iterator[QueuedOut]:
    """Yield the jobs that may not start yet, behind those that may; a gang is one row."""
    place = 1 + sum(row.count for row in rows)
    by_claim: dict[str, list[QueueEntry]] = {}
    hidden = 0
    for entry in placer.planner.list_start_waits():
        if principal.sees_all or entry.key.tenant == principal.tenant:
            by_claim.setdefault(entry.key.gang or entry.job, []).append(entry)
        else:
            hidden += _count_entry(entry)
    shown = list(by_claim.values())[:limit]
    names = _read_names(connection, [_name_entry(entries[0]) for entries in shown])
    for entries in shown:
        first = entries[0]
        name = names.get(_name_entry(first))
        count = sum(_count_entry(entry) for entry in entries)
        yield QueuedOut(
            place=place,
            count=count,
            job=name and (name.array_name if first.gang or first.rest else name.name),
            id=first.job,
            tenant=first.key.tenant,
            user=name and name.user,
            share=str(first.key.shape),
            priority=first.key.priority,
            gang=first.gang is not None,
            waited_seconds=max(0, now_ns - first.submitted_ns) // NANOS_PER_SECOND,
            reason="not yet",
            sentence=first.wait and first.wait.describe(now_ns),
            gpu_milli=first.key.shape.gpu_milli,
            cards=first.key.shape.count,
            seconds=first.key.seconds,
            seconds_estimated=first.key.guessed,
        )
        place += count
    if hidden:
        yield QueuedOut(place=place, count=hidden)


def _count_entry(entry: QueueEntry) -> int:
    return 1 if entry.rest is None else entry.rest.count


def _name_entry(entry: QueueEntry) -> str:
    """Return a name of a job by which the entry's row is read: of a rest its next member."""
    return entry.job if entry.rest is None else next(entry.rest.list_members(), entry.job)


@dataclass(frozen=True)
class _JobName:
    """The name and the user of a queued job; `array_name` is that of its array or gang."""

    name: str
    array_name: str | None
    user: str


def _read_names(connection: sa.Connection, queued: Sequence[str]) -> dict[str, _JobName]:
    """Read the names of queued jobs, by public id or reference."""
    members = dict[str, MemberReference]()
    job_ids = list[str]()
    for job in queued:
        reference = parse_reference(job)
        if reference is None:
            job_ids.append(job)
        else:
            members[job] = reference
    names = dict[str, _JobName]()
    for row in connection.execute(_NAMED, {"jobs": job_ids}):
        names[row.public_id] = _JobName(row.name, row.array_name, row.user)
    if not members:
        return names
    # A member without a row is shown under the name that it will have.
    array_ids = list({reference.array for reference in members.values()})
    rows = {row.public_id: row for row in connection.execute(_ARRAYS, {"arrays": array_ids})}
    for job, reference in members.items():
        array = rows.get(reference.array)
        if array is not None:
            names[job] = _JobName(f"{array.name}.{reference.index}", array.name, array.user)
    return names


def _build_rows(
    turns: list[Turn],
    names: Mapping[str, _JobName],
    placer: Placer,
    principal: Principal,
    now_ns: int,
) -> Iterator[QueuedOut]:
    place = 1
    hidden = 0
    for waiting, number in turns:
        count = _count_jobs(waiting, number)
        if not _can_see_class(principal, waiting):
            hidden += count
            continue
        # Jobs of other tenants are one row with a number, so that places stay true.
        if hidden:
            yield QueuedOut(place=place, count=hidden)
            place = place + hidden
            hidden = 0
        row = _build_row(waiting, number, count, names, placer, now_ns)
        yield row.model_copy(update={"place": place})
        place += count
    if hidden:
        yield QueuedOut(place=place, count=hidden)


def _count_jobs(waiting: WaitingClass, number: int) -> int:
    """Jobs that a row stands for: one, a whole gang, or with the last head all behind it."""
    if waiting.gang is not None:
        return waiting.count
    return 1 if number < len(waiting.job_ids) - 1 else waiting.count - number


def _build_row(
    waiting: WaitingClass,
    number: int,
    count: int,
    names: Mapping[str, _JobName],
    placer: Placer,
    now_ns: int,
) -> QueuedOut:
    job = waiting.job_ids[number]
    # None for a job that has ended since the turns were listed.
    name = names.get(job)
    rejection = placer.planner.find_rejection(waiting.key)
    start = placer.planner.find_start(waiting.key, job)
    since = waiting.submitted_ns[number] if waiting.submitted_ns else waiting.oldest_ns
    return QueuedOut(
        place=0,
        count=count,
        job=name and (name.array_name if waiting.gang else name.name),
        id=job,
        tenant=waiting.tenant,
        user=name and name.user,
        share=str(waiting.shape),
        priority=waiting.priority,
        gang=waiting.gang is not None,
        waited_seconds=max(0, now_ns - since) // NANOS_PER_SECOND,
        reason=rejection and str(rejection.dominant),
        sentence=rejection and rejection.sentence,
        gpu_milli=waiting.shape.gpu_milli,
        cards=waiting.shape.count,
        seconds=waiting.seconds,
        seconds_estimated=waiting.guessed,
        **build_start_fields(*(start or (None, None))),
    )


def _can_see_class(principal: Principal, waiting: WaitingClass) -> bool:
    return principal.sees_all or waiting.tenant == principal.tenant
