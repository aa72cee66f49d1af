"""What the agent of a node has to do: the allocations of its nodes, with all that it takes to run their jobs.

Read by the agent's cursor, so that an agent which knows the rest is told what changed. What it answers is `progress`'s.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.gangs import Meeting
from gpupool.allocations.tables import allocations, arrays, claims, gangs, jobs, launches, seats
from gpupool.fleet.tables import devices, nodes
from gpupool.model.allocation import AllocationState
from gpupool.model.numa import format_cpus, numa_of, parts_of
from gpupool.tenancy.tables import tenants, users
from gpupool.wire.fleet import NumaWork, RunAs, WorkOut, WorkSeat

Row = Any
"""A row of the joined selects below; their columns are its attributes."""

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
        gangs.c.launch.label("gang_launch"),
        arrays.c.launch.label("array_launch"),
    )
    .join(nodes, nodes.c.id == allocations.c.node_id)
    .join(jobs, jobs.c.id == allocations.c.job_id)
    .join(claims, claims.c.id == jobs.c.claim_id)
    .join(tenants, tenants.c.id == jobs.c.tenant_id)
    .join(users, users.c.id == jobs.c.user_id)
    .outerjoin(launches, launches.c.job_id == jobs.c.id)
    .outerjoin(gangs, gangs.c.id == jobs.c.gang_id)
    .outerjoin(arrays, arrays.c.id == jobs.c.array_id)
    .where(
        nodes.c.agent == sa.bindparam("of_agent"),
        allocations.c.state != sa.literal_column("'released'"),
        allocations.c.work_seq > sa.bindparam("after"),
        sa.not_(allocations.c.held_back),
    )
    .order_by(allocations.c.work_seq, allocations.c.id)
)
_GANGS = sa.select(gangs).where(gangs.c.id.in_(sa.bindparam("gangs", expanding=True)))
_FACTS = sa.select(nodes.c.name, nodes.c.facts).where(nodes.c.name.in_(sa.bindparam("nodes", expanding=True)))
_PLACED_MEMBERS = (
    sa.select(
        jobs.c.gang_id,
        jobs.c.gang_rank,
        jobs.c.launcher,
        claims.c.cards,
        nodes.c.name.label("node"),
        nodes.c.agent,
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


_FORGOTTEN: dict[str, Any] = {
    "argv": [],
    "cwd": "/",
    "env": {},
    "umask": 0o022,
    "limits": {},
    "run_as": None,
    "fence": True,
}
"""Of a job that has ended: what its node still does for it needs none of this."""


def work_for(connection: sa.Connection, agent: str, after: int) -> tuple[int, list[WorkOut]]:
    """What changed for the nodes of an agent since the cursor: the new cursor, and the allocations."""
    rows = connection.execute(_WORK, {"of_agent": agent, "after": after}).all()
    taken = _seats(connection, [row.id for row in rows])
    together = _gang_variables(connection, rows)
    return (rows[-1].work_seq if rows else after), [_work_out(row, taken[row.id], together(row)) for row in rows]


def _seats(connection: sa.Connection, allocation_ids: Sequence[int]) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = defaultdict(list)
    for row in connection.execute(_SEATS, {"allocations": list(allocation_ids)}) if allocation_ids else ():
        found[row.allocation_id].append(row)
    return found


def _gang_variables(connection: sa.Connection, rows: Sequence[Row]) -> Callable[[Row], dict[str, str]]:
    """What the members among these rows that are to run are told of their gangs; nothing for the others."""
    wanted = {row.gang_id for row in rows if row.gang_id is not None and _is_to_run(row)}
    if not wanted:
        return lambda _row: {}
    ids = {"gangs": list(wanted)}
    placed: dict[int, list[Row]] = defaultdict(list)
    for member in connection.execute(_PLACED_MEMBERS, ids):
        placed[member.gang_id].append(member)
    names = {member.node for members in placed.values() for member in members}
    facts = connection.execute(_FACTS, {"nodes": list(names)}).all()  # once for each node, not for each member
    hostnames = {row.name: row.facts["hostname"] for row in facts if row.facts.get("hostname")}
    meetings = {gang.id: Meeting(gang, placed[gang.id], hostnames) for gang in connection.execute(_GANGS, ids)}

    def variables(row: Row) -> dict[str, str]:
        return meetings[row.gang_id].environment(row) if row.gang_id in wanted and _is_to_run(row) else {}

    return variables


def _is_to_run(row: Row) -> bool:
    return bool(row.allocation_state != AllocationState.RELEASING)


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
    spec = row.spec or row.gang_launch or row.array_launch or _FORGOTTEN
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
        argv=spec.get("argv_of", {}).get(row.gang_role, spec["argv"]),
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
