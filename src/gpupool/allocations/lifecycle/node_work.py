"""Reads the work of an agent: the allocations of its nodes, with all that it takes to run the jobs.

An agent reads from its cursor on, so an answer has only what changed. `job_reports` takes in what
the agent reports.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.ledger.stop_reasons import USUAL_GRACE_SECONDS
from gpupool.allocations.lifecycle.mechanism_plans import read_mechanism_plans
from gpupool.allocations.store.gangs import GangRendezvous
from gpupool.allocations.store.suspension_tables import suspensions
from gpupool.allocations.store.tables import (
    allocations,
    arrays,
    claims,
    gangs,
    jobs,
    launches,
    seats,
)
from gpupool.fleet.tables import devices, nodes
from gpupool.model.allocation import AllocationState
from gpupool.model.numa import format_cpus, read_numa_nodes, read_numa_parts
from gpupool.model.suspension import AWAY, SuspensionState
from gpupool.network.ports import read_port_work
from gpupool.network.tables import network_ports
from gpupool.tenancy.tables import tenants, users
from gpupool.wire.fleet import NumaWork, RunAs, WorkOut, WorkSeat
from gpupool.wire.mechanisms import PlannedMechanism
from gpupool.wire.suspension import JobWish

#: A row of the joined selects below; their columns are its attributes.
Row = Any

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
        suspensions.c.state.label("suspension"),
        suspensions.c.beneficiary,
        allocations.c.work_seq,
        allocations.c.cpu_milli,
        allocations.c.host_bytes,
        allocations.c.numa,
        nodes.c.name.label("node"),
        nodes.c.facts.label("node_facts"),
        jobs.c.gang_id,
        jobs.c.gang_rank,
        jobs.c.gang_role,
        jobs.c.preemptions,
        jobs.c.attempt,
        claims.c.retries,
        jobs.c.saved_ns,
        jobs.c.public_id.label("job"),
        jobs.c.name.label("job_name"),
        jobs.c.state,
        jobs.c.attached,
        jobs.c.array_index,
        jobs.c.stop_requested,
        jobs.c.stop_grace_s,
        sa.func.coalesce(allocations.c.sharing, claims.c.sharing).label("sharing"),
        claims.c.priority,
        claims.c.max_seconds,
        claims.c.needs,
        claims.c.network_id,
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
    .outerjoin(suspensions, suspensions.c.allocation_id == allocations.c.id)
    .where(
        nodes.c.agent == sa.bindparam("of_agent"),
        allocations.c.state != sa.literal_column("'released'"),
        allocations.c.work_seq > sa.bindparam("after"),
        sa.not_(allocations.c.held_back),
    )
    .order_by(allocations.c.work_seq, allocations.c.id)
)
_GANGS = sa.select(gangs).where(gangs.c.id.in_(sa.bindparam("gangs", expanding=True)))
_FACTS = sa.select(nodes.c.name, nodes.c.facts).where(
    nodes.c.name.in_(sa.bindparam("nodes", expanding=True))
)
#: The states are the partial index's own words; see `tables.IS_LIVE`.
_PLACED_MEMBERS = (
    sa.select(
        jobs.c.gang_id,
        jobs.c.gang_rank,
        jobs.c.launcher,
        claims.c.cards,
        nodes.c.name.label("node"),
        nodes.c.agent,
        network_ports.c.name.label("dns_name"),
    )
    .join(allocations, allocations.c.job_id == jobs.c.id)
    .outerjoin(network_ports, network_ports.c.allocation_id == allocations.c.id)
    .join(claims, claims.c.id == jobs.c.claim_id)
    .join(nodes, nodes.c.id == allocations.c.node_id)
    .where(
        jobs.c.gang_id.in_(sa.bindparam("gangs", expanding=True)),
        allocations.c.state != sa.literal_column("'released'"),
    )
    .order_by(jobs.c.gang_id, jobs.c.gang_rank)
)


#: Of a job that has ended: what its node still does for it needs none of this.
_DELETED_LAUNCH: dict[str, Any] = {
    "argv": [],
    "cwd": "/",
    "env": {},
    "umask": 0o022,
    "limits": {},
    "run_as": None,
    "fence": True,
}


def read_work(connection: sa.Connection, agent: str, after: int) -> tuple[int, list[WorkOut]]:
    """Read what changed for the nodes of an agent since the cursor.

    Returns:
        The new cursor, and the allocations.
    """
    rows = connection.execute(_WORK, {"of_agent": agent, "after": after}).all()
    if not rows:
        # Most reads find no change: an agent asks again and again.
        return after, []
    seats_of = _read_seats(connection, [row.id for row in rows])
    gangs_of = _read_rendezvous(connection, rows)
    joining = [row.id for row in rows if row.network_id is not None]
    ports = read_port_work(connection, joining) if joining else {}
    plan_of = read_mechanism_plans(connection, [row for row in rows if _is_to_run(row)])
    work = list[WorkOut]()
    for row in rows:
        meeting = gangs_of.get(row.gang_id) if _is_to_run(row) else None
        variables = {} if meeting is None else meeting.build_environment(row)
        made = _build_work(row, seats_of[row.id], variables, plan_of.get(row.id, []))
        work.append(made.model_copy(update={"network": ports.get(row.id)}))
    return rows[-1].work_seq, work


def _read_seats(connection: sa.Connection, allocation_ids: Sequence[int]) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = defaultdict(list)
    for row in connection.execute(_SEATS, {"allocations": list(allocation_ids)}):
        found[row.allocation_id].append(row)
    return found


def _read_rendezvous(connection: sa.Connection, rows: Sequence[Row]) -> dict[int, GangRendezvous]:
    """Read how the members meet, of the gangs with a member among these rows that is to run."""
    wanted = {row.gang_id for row in rows if row.gang_id is not None and _is_to_run(row)}
    if not wanted:
        return {}
    ids = {"gangs": list(wanted)}
    placed: dict[int, list[Row]] = defaultdict(list)
    names = set[str]()
    for member in connection.execute(_PLACED_MEMBERS, ids):
        placed[member.gang_id].append(member)
        names.add(member.node)
    # Facts of a node are large, so they are read once for each node and not for each member.
    hostnames = dict[str, str]()
    for row in connection.execute(_FACTS, {"nodes": list(names)}):
        if row.facts.get("hostname"):
            hostnames[row.name] = row.facts["hostname"]
    found = dict[int, GangRendezvous]()
    for gang in connection.execute(_GANGS, ids):
        found[gang.id] = GangRendezvous(gang, placed[gang.id], hostnames)
    return found


def _is_to_run(row: Row) -> bool:
    return bool(row.allocation_state != AllocationState.RELEASING)


def _build_environment(row: Row, env: dict[str, str], variables: dict[str, str]) -> dict[str, str]:
    """Return the submitter's environment, with the variables of the job's gang or array."""
    if row.retries:
        env = {**env, "GPUPOOL_ATTEMPT": str(row.attempt)}
    if row.array_index is None:
        return env
    return {**env, **(variables or {"GPUPOOL_ARRAY_INDEX": str(row.array_index)})}


def _build_numa_work(row: Row) -> list[NumaWork]:
    parts = read_numa_parts(row.numa)
    if not parts:
        return []
    cpus = {node.number: format_cpus(node.cpus) for node in read_numa_nodes(row.node_facts)}
    # A NUMA node that the node no longer shows is left out: the job runs without that binding.
    known = [part for part in parts if part.numa in cpus]
    return [NumaWork(cpus=cpus[part.numa], **part._asdict()) for part in known]


def _is_resized(row: Row) -> bool:
    """Whether the job runs, and its node has not applied the limits of this generation yet."""
    return row.applied_generation is not None and row.applied_generation < row.generation


def _find_wish(row: Row) -> JobWish:
    if row.suspension in AWAY:
        return "resume" if row.suspension == SuspensionState.RESUMING else "suspend"
    return "resize" if _is_resized(row) else "run"


def _build_work(
    row: Row, taken: Sequence[Row], variables: dict[str, str], plan: list[PlannedMechanism]
) -> WorkOut:
    spec = row.spec or row.gang_launch or row.array_launch or _DELETED_LAUNCH
    stopping = row.allocation_state == AllocationState.RELEASING
    return WorkOut(
        allocation=row.allocation,
        generation=row.generation,
        job=row.job,
        job_name=row.job_name,
        want="stop" if stopping else _find_wish(row),
        stop_reason=row.stop_requested or "",
        grace_seconds=USUAL_GRACE_SECONDS if row.stop_grace_s is None else row.stop_grace_s,
        tenant=row.tenant,
        user=row.user,
        sharing=row.sharing,
        priority=row.priority,
        fence=spec["fence"],
        needs=row.needs or {},
        plan=plan,
        seats=[
            WorkSeat(
                uuid=seat.uuid,
                index=seat.idx,
                model=seat.model,
                gpu_milli=seat.gpu_milli,
                memory_bytes=seat.memory_bytes,
                profile=seat.profile,
                start=seat.start,
            )
            for seat in taken
        ],
        node="" if taken else row.node,
        # A gang whose roles have commands of their own stores them by role.
        argv=spec.get("argv_of", {}).get(row.gang_role, spec["argv"]),
        cwd=spec["cwd"],
        env=_build_environment(row, spec["env"], variables),
        umask=spec["umask"],
        limits=spec["limits"],
        run_as=RunAs(**spec["run_as"]) if spec["run_as"] else None,
        attached=row.attached,
        container=spec.get("container"),
        max_seconds=row.max_seconds,
        cpu_milli=row.cpu_milli,
        host_bytes=row.host_bytes,
        numa=_build_numa_work(row),
        earlier_runs=row.preemptions + row.attempt - 1,
        started=row.state == "running",
        vm=spec.get("vm"),
        only_idle=row.beneficiary is not None,
    )
