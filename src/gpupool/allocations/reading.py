"""Reading jobs: always from the caller's scope, a page at a time, a fixed number of queries each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.gangs import environment, within_out
from gpupool.allocations.tables import IS_LIVE, allocations, claims, gangs, jobs, launches, seats
from gpupool.base.errors import InvalidBody, NotFound
from gpupool.base.ids import is_id
from gpupool.base.units import format_share
from gpupool.fleet.tables import devices, nodes
from gpupool.model.allocation import AllocationState
from gpupool.model.job import ENDED, LIVE
from gpupool.model.numa import format_cpus, numa_of, parts_of
from gpupool.model.tenant import Principal
from gpupool.tenancy.tables import projects, tenants, users
from gpupool.wire.common import Page
from gpupool.wire.fleet import NumaWork, RunAs, WorkOut, WorkSeat
from gpupool.wire.jobs import JobOut, NumaPartOut, SeatOut

Row = Any
"""A row of the joined selects below; their columns are its attributes."""
Why = Callable[[str], str]
"""A waiting job's public id to the sentence why it waits."""

RECENT_NS = 3600 * 10**9

_JOB = (
    sa.select(
        jobs,
        claims.c.gpu_milli,
        claims.c.memory_bytes,
        claims.c.cards,
        claims.c.model,
        claims.c.sharing,
        claims.c.priority,
        claims.c.max_seconds,
        claims.c.cpu_milli,
        claims.c.host_bytes,
        claims.c.within_required,
        claims.c.within_preferred,
        claims.c.preemptible,
        claims.c.requeue,
        claims.c.reservation,
        claims.c.profile,
        gangs.c.public_id.label("gang"),
        tenants.c.name.label("tenant"),
        projects.c.name.label("project"),
        users.c.name.label("user"),
    )
    .join(claims, claims.c.id == jobs.c.claim_id)
    .join(tenants, tenants.c.id == jobs.c.tenant_id)
    .join(projects, projects.c.id == jobs.c.project_id)
    .join(users, users.c.id == jobs.c.user_id)
    .outerjoin(gangs, gangs.c.id == jobs.c.gang_id)
)

_ONE = _JOB.where(jobs.c.id == sa.bindparam("job"))
_GRANTS = (
    sa.select(
        allocations.c.id,
        allocations.c.job_id,
        allocations.c.why,
        allocations.c.fence,
        allocations.c.fence_why,
        allocations.c.attach_socket,
        allocations.c.numa,
        seats.c.gpu_milli,
        seats.c.memory_bytes,
        seats.c.profile,
        seats.c.start,
        devices.c.uuid,
        devices.c.idx,
        devices.c.model,
        devices.c.simulated,
        nodes.c.name.label("node"),
    )
    .join(seats, seats.c.allocation_id == allocations.c.id)
    .join(devices, devices.c.id == seats.c.device_id)
    .join(nodes, nodes.c.id == devices.c.node_id)
    .where(allocations.c.job_id.in_(sa.bindparam("jobs", expanding=True)))
    .order_by(allocations.c.id, devices.c.idx)
)
_SEATS = (
    sa.select(seats, devices.c.uuid, devices.c.idx, devices.c.model)
    .join(devices, devices.c.id == seats.c.device_id)
    .where(seats.c.allocation_id.in_(sa.bindparam("allocations", expanding=True)))
    .order_by(seats.c.allocation_id, devices.c.idx)
)
_WORK = (
    sa.select(
        allocations.c.id,
        allocations.c.public_id.label("allocation"),
        allocations.c.state.label("allocation_state"),
        allocations.c.generation,
        allocations.c.applied_generation,
        allocations.c.work_seq,
        allocations.c.cpu_milli,
        allocations.c.host_bytes,
        allocations.c.numa,
        nodes.c.facts.label("node_facts"),
        jobs.c.gang_id,
        jobs.c.gang_rank,
        jobs.c.gang_role,
        jobs.c.preemptions,
        jobs.c.saved_ns,
        jobs.c.public_id.label("job"),
        jobs.c.name.label("job_name"),
        jobs.c.state,
        jobs.c.attached,
        jobs.c.array_index,
        jobs.c.stop_requested,
        jobs.c.stop_grace_s,
        claims.c.sharing,
        claims.c.priority,
        claims.c.max_seconds,
        tenants.c.name.label("tenant"),
        users.c.name.label("user"),
        launches.c.spec,
    )
    .join(nodes, nodes.c.id == allocations.c.node_id)
    .join(jobs, jobs.c.id == allocations.c.job_id)
    .join(claims, claims.c.id == jobs.c.claim_id)
    .join(tenants, tenants.c.id == jobs.c.tenant_id)
    .join(users, users.c.id == jobs.c.user_id)
    .outerjoin(launches, launches.c.job_id == jobs.c.id)
    .where(
        nodes.c.agent == sa.bindparam("of_agent"),
        allocations.c.state != sa.literal_column("'released'"),
        allocations.c.work_seq > sa.bindparam("after"),
        sa.not_(allocations.c.held_back),
    )
    .order_by(allocations.c.work_seq, allocations.c.id)
)
_GANGS = sa.select(gangs).where(gangs.c.id.in_(sa.bindparam("gangs", expanding=True)))
_PLACED_MEMBERS = (
    sa.select(
        jobs.c.gang_id,
        jobs.c.gang_rank,
        jobs.c.launcher,
        claims.c.cards,
        nodes.c.name.label("node"),
        nodes.c.agent,
        nodes.c.facts,
    )
    .join(allocations, allocations.c.job_id == jobs.c.id)
    .join(claims, claims.c.id == jobs.c.claim_id)
    .join(nodes, nodes.c.id == allocations.c.node_id)
    .where(
        jobs.c.gang_id.in_(sa.bindparam("gangs", expanding=True)),
        allocations.c.state != sa.literal_column("'released'"),
    )
    .order_by(jobs.c.gang_id, jobs.c.gang_rank)
)
"""The states are the partial index's own words; see `tables.IS_LIVE`."""


@dataclass(frozen=True)
class Filter:
    """Which jobs a list shows. `everything` includes those that ended long ago, `live` none that ended."""

    states: frozenset[str] = frozenset()
    name: str | None = None
    tenant: str | None = None
    user: str | None = None
    everything: bool = False
    live: bool = False


def scope(principal: Principal) -> sa.ColumnElement[bool]:
    """What the caller may see of `jobs`."""
    return sa.true() if principal.sees_all else jobs.c.tenant_id == principal.tenant_id


def find(connection: sa.Connection, principal: Principal, named: str) -> Row:
    """A job by id, by name (the live one, else the newest), or `last` (the caller's newest). Raises NotFound.

    The name of an array or a gang is its first job.
    """
    query, newest = sa.select(jobs).limit(1), jobs.c.id.desc()
    if is_id(named):
        query = query.where(scope(principal), jobs.c.public_id == named)
    elif named == "last":
        query = query.where(scope(principal), jobs.c.user_id == principal.user_id).order_by(newest)
    else:
        query = query.where(_in_tenants(principal), jobs.c.name == named)
        query = query.order_by(jobs.c.state.in_(ENDED), newest)
    row = connection.execute(query).one_or_none()
    if row is None and not is_id(named) and named != "last":
        first = sa.select(jobs).where(_in_tenants(principal), jobs.c.array_name == named)
        row = connection.execute(first.order_by(jobs.c.submitted_ns.desc(), jobs.c.array_index).limit(1)).one_or_none()
    if row is None:
        raise _no_job(named)
    return row


def find_all_live(connection: sa.Connection, principal: Principal, named: str) -> Sequence[Row]:
    """The live jobs of that id, name or array. Raises NotFound when nothing was ever called so."""
    query = sa.select(jobs).where(scope(principal))
    match = jobs.c.public_id == named if is_id(named) else _called(principal, named)
    rows = connection.execute(query.where(match, jobs.c.state.in_(LIVE))).all()
    if not rows and connection.execute(query.where(match).limit(1)).one_or_none() is None:
        raise _no_job(named)
    return rows


def _in_tenants(principal: Principal) -> sa.ColumnElement[bool]:
    """The caller's scope in the words of the indexes on names, which begin with the tenant."""
    return jobs.c.tenant_id.in_(sa.select(tenants.c.id)) if principal.sees_all else scope(principal)


def _called(principal: Principal, name: str) -> sa.ColumnElement[bool]:
    """Jobs of a name or of an array: two look-ups, where an OR would read all jobs of the tenant."""
    ids = sa.select(jobs.c.id).where(_in_tenants(principal)).correlate(None)
    return jobs.c.id.in_(sa.union_all(ids.where(jobs.c.name == name), ids.where(jobs.c.array_name == name)))


def _no_job(named: str) -> NotFound:
    return NotFound(f"there is no job {named!r}", hint="gpupool ps --all  lists yours")


def page(
    connection: sa.Connection,
    principal: Principal,
    wanted: Filter,
    now_ns: int,
    after: str | None,
    limit: int,
    why: Why,
) -> Page[JobOut]:
    """Live jobs first, newest first, then the ended ones, latest first. Two indexed walks and a fixed few look-ups."""
    part, before = _cursor(after)
    rows: list[Row] = []
    if part == "live":
        rows = _walk(connection, principal, wanted, IS_LIVE, (jobs.c.id,), before, limit + 1)
        before = None
    ended_from = len(rows)
    if len(rows) <= limit and not wanted.live:
        ended = jobs.c.ended_ns.is_not(None) if wanted.everything else jobs.c.ended_ns > now_ns - RECENT_NS
        rows += _walk(connection, principal, wanted, ended, (jobs.c.ended_ns, jobs.c.id), before, limit + 1 - len(rows))
    shown = rows[:limit]
    more = None
    if len(rows) > limit:
        last = shown[-1]
        more = f"live.{last.id}" if limit - 1 < ended_from else f"ended.{last.ended_ns}.{last.id}"
    return Page(items=describe(connection, shown, why), next=more)


def _cursor(after: str | None) -> tuple[str, tuple[int, ...] | None]:
    if after is None:
        return "live", None
    kind, *numbers = after.split(".")
    if kind not in ("live", "ended") or not all(n.isascii() and n.isdigit() and len(n) < 20 for n in numbers):
        raise InvalidBody(f"after={after[:60]!r} is no cursor of this list", hint="use `next` of the page before")
    if len(numbers) != (1 if kind == "live" else 2):
        raise InvalidBody(f"after={after[:60]!r} is no cursor of this list", hint="use `next` of the page before")
    return kind, tuple(int(n) for n in numbers)


def _walk(
    connection: sa.Connection,
    principal: Principal,
    wanted: Filter,
    part: sa.ColumnElement[bool],
    columns: tuple[sa.ColumnElement[int], ...],
    before: tuple[int, ...] | None,
    limit: int,
) -> list[Row]:
    """Keys first, from one table along one index, and only then what is shown of them."""
    keys = sa.select(jobs.c.id).where(scope(principal), part, *_conditions(principal, wanted)).correlate(None)
    if before is not None:
        keys = keys.where(sa.tuple_(*columns) < sa.tuple_(*map(sa.literal, before)))
    order = [column.desc() for column in columns]
    return list(connection.execute(_JOB.where(jobs.c.id.in_(keys.order_by(*order).limit(limit))).order_by(*order)))


def _conditions(principal: Principal, wanted: Filter) -> Iterator[sa.ColumnElement[bool]]:
    if wanted.states:
        yield jobs.c.state.in_(wanted.states)
    if wanted.name:
        yield _called(principal, wanted.name)
    if wanted.tenant:
        yield jobs.c.tenant_id == _key(tenants, wanted.tenant)
    if wanted.user:
        yield jobs.c.user_id == _key(users, wanted.user)


def _key(table: sa.Table, name: str) -> sa.ScalarSelect[int]:
    return sa.select(table.c.id).where(table.c.name == name).correlate(None).scalar_subquery()


def one(connection: sa.Connection, job_id: int, why: Why) -> JobOut:
    rows = connection.execute(_ONE, {"job": job_id}).all()
    return describe(connection, rows, why)[0]


def find_public(connection: sa.Connection, public_id: str, why: Why) -> JobOut:
    """The job of that id, whoever asks."""
    return describe(connection, connection.execute(_JOB.where(jobs.c.public_id == public_id)).all(), why)[0]


def is_applied(connection: sa.Connection, public_id: str) -> bool:
    """Whether a job's node has said that the limits of the present generation are in force, or nothing is held."""
    held = sa.and_(jobs.c.public_id == public_id, allocations.c.state != AllocationState.RELEASED)
    query = sa.select(allocations.c.generation, allocations.c.applied_generation)
    row = connection.execute(query.join(jobs, jobs.c.id == allocations.c.job_id).where(held)).one_or_none()
    return row is None or row.applied_generation == row.generation


def describe(connection: sa.Connection, rows: Sequence[Row], why: Why) -> list[JobOut]:
    """Job rows as they are shown: one more query, however many rows."""
    granted = _grants(connection, [row.id for row in rows])
    return [_job_out(row, granted.get(row.id, ()), why) for row in rows]


def _grants(connection: sa.Connection, job_ids: Sequence[int]) -> dict[int, list[Row]]:
    """The seats of each job's latest allocation, a row each."""
    found: dict[int, list[Row]] = {}
    for row in connection.execute(_GRANTS, {"jobs": list(job_ids)}) if job_ids else ():
        if row.job_id in found and found[row.job_id][0].id == row.id:
            found[row.job_id].append(row)
        else:
            found[row.job_id] = [row]
    return found


def _seats(connection: sa.Connection, allocation_ids: Sequence[int]) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = defaultdict(list)
    for row in connection.execute(_SEATS, {"allocations": list(allocation_ids)}) if allocation_ids else ():
        found[row.allocation_id].append(row)
    return found


def _job_out(row: Row, grant: Sequence[Row], why: Why) -> JobOut:
    mine = grant if row.state != "pending" else ()
    best_effort = row.sharing == "best-effort"
    memory = mine[0].memory_bytes if mine else row.memory_bytes
    milli = mine[0].gpu_milli if mine and not best_effort else row.gpu_milli
    placed = mine[0] if mine else None
    return JobOut(
        id=row.public_id,
        name=row.name,
        state=row.state,
        reason=row.reason or (why(row.public_id) if row.state == "pending" else ""),
        tenant=row.tenant,
        project=row.project,
        user=row.user,
        gpu_milli=milli,
        memory_bytes=memory,
        count=row.cards,
        model=row.model,
        sharing=row.sharing,
        share=format_share(milli, memory, row.cards, best_effort=best_effort, profile=row.profile),
        priority=row.priority,
        max_seconds=row.max_seconds,
        node=placed.node if placed else None,
        device=f"{mine[0].node}:{mine[0].idx}" if mine else None,
        seats=[
            SeatOut(
                device=f"{seat.node}:{seat.idx}",
                uuid=seat.uuid,
                model=seat.model,
                gpu_milli=seat.gpu_milli,
                memory_bytes=seat.memory_bytes,
                profile=seat.profile,
                start=seat.start,
            )
            for seat in mine
        ],
        why=placed.why if placed else "",
        fence=placed.fence if placed else "none",
        fence_why=placed.fence_why if placed else "",
        simulated=mine[0].simulated if mine else None,
        attached=row.attached,
        attach_socket=placed.attach_socket if placed and row.state in LIVE else None,
        command=row.command,
        array=row.array_name,
        array_index=row.array_index,
        cpu_milli=row.cpu_milli,
        host_bytes=row.host_bytes,
        numa=[NumaPartOut(**part._asdict()) for part in parts_of(placed.numa)] if placed else [],
        within=within_out(row.within_required, row.within_preferred),
        preemptible=row.preemptible,
        requeue=row.requeue,
        reservation=row.reservation,
        profile=row.profile,
        gang=row.gang,
        gang_rank=row.gang_rank,
        gang_role=row.gang_role,
        preemptions=row.preemptions,
        saved_ns=row.saved_ns,
        generation=row.generation,
        submitted_ns=row.submitted_ns,
        placed_ns=row.placed_ns,
        started_ns=row.started_ns,
        ended_ns=row.ended_ns,
        exit_code=row.exit_code,
        signal=row.signal,
        cpu_milliseconds=row.cpu_milliseconds,
        max_rss_bytes=row.max_rss_bytes,
    )


def work_for(connection: sa.Connection, agent: str, after: int) -> tuple[int, list[WorkOut]]:
    """What changed for the nodes of an agent since the cursor: the new cursor, and the allocations."""
    rows = connection.execute(_WORK, {"of_agent": agent, "after": after}).all()
    taken = _seats(connection, [row.id for row in rows])
    together = _gang_variables(connection, rows)
    return (rows[-1].work_seq if rows else after), [_work_out(row, taken[row.id], together(row)) for row in rows]


def _gang_variables(connection: sa.Connection, rows: Sequence[Row]) -> Callable[[Row], dict[str, str]]:
    """What the members among these rows are told of their gangs; nothing for the others."""
    ids = {"gangs": list({row.gang_id for row in rows if row.gang_id is not None})}
    known = {gang.id: gang for gang in connection.execute(_GANGS, ids)} if ids["gangs"] else {}
    placed: dict[int, list[Row]] = defaultdict(list)
    for member in connection.execute(_PLACED_MEMBERS, ids) if known else ():
        placed[member.gang_id].append(member)

    def variables(row: Row) -> dict[str, str]:
        return environment(known[row.gang_id], row, placed[row.gang_id]) if row.gang_id is not None else {}

    return variables


def _environment(row: Row, env: dict[str, str], together: dict[str, str]) -> dict[str, str]:
    """What the caller had, and which of an array's or of a gang's jobs this is."""
    if row.array_index is None:
        return env
    return {**env, **(together or {"GPUPOOL_ARRAY_INDEX": str(row.array_index)})}


def _numa_work(row: Row) -> list[NumaWork]:
    """A NUMA node that the node does not show any more is left out."""
    parts = parts_of(row.numa)
    cpus = {node.number: format_cpus(node.cpus) for node in numa_of(row.node_facts)} if parts else {}
    return [NumaWork(cpus=cpus[part.numa], **part._asdict()) for part in parts if part.numa in cpus]


def _is_resized(row: Row) -> bool:
    """Its node has said that it runs, but not that the limits of this generation are in force."""
    return row.applied_generation is not None and row.applied_generation < row.generation


def _work_out(row: Row, taken: Sequence[Row], together: dict[str, str]) -> WorkOut:
    spec = row.spec or {"argv": [], "cwd": "/", "env": {}, "umask": 0o022, "limits": {}, "run_as": None, "fence": True}
    stopping = row.allocation_state == AllocationState.RELEASING
    return WorkOut(
        allocation=row.allocation,
        generation=row.generation,
        job=row.job,
        job_name=row.job_name,
        want="stop" if stopping else "resize" if _is_resized(row) else "run",
        stop_reason=row.stop_requested or "",
        grace_seconds=10 if row.stop_grace_s is None else row.stop_grace_s,
        tenant=row.tenant,
        user=row.user,
        sharing=row.sharing,
        priority=row.priority,
        fence=spec["fence"],
        seats=[
            WorkSeat(
                uuid=seat.uuid,
                index=seat.idx,
                model=seat.model,
                gpu_milli=seat.gpu_milli,
                memory_bytes=seat.memory_bytes,
                profile=seat.profile,
            )
            for seat in taken
        ],
        argv=spec["argv"],
        cwd=spec["cwd"],
        env=_environment(row, spec["env"], together),
        umask=spec["umask"],
        limits=spec["limits"],
        run_as=RunAs(**spec["run_as"]) if spec["run_as"] else None,
        attached=row.attached,
        max_seconds=row.max_seconds,
        cpu_milli=row.cpu_milli,
        host_bytes=row.host_bytes,
        numa=_numa_work(row),
        earlier_runs=row.preemptions,
        started=row.state == "running",
    )
