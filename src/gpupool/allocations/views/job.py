"""Describes jobs for answers: a row of the ledger with its claim and its latest seats.

The caller of these functions has found the job in a principal's scope (`views.list`); they check no
permission.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.dependencies.rows import read_dependencies
from gpupool.allocations.store.advice_tables import advice_claims, advice_runs
from gpupool.allocations.store.dependency_table import dependencies
from gpupool.allocations.store.gangs import describe_within
from gpupool.allocations.store.suspension_tables import suspensions
from gpupool.allocations.store.tables import allocations, claims, gangs, jobs, seats
from gpupool.allocations.views.advised_share import ADVICE_COLUMNS, describe_advised_share
from gpupool.base.units import format_share
from gpupool.fleet.tables import devices, nodes
from gpupool.model.claim import SharingKind
from gpupool.model.job import LIVE, JobState
from gpupool.model.numa import read_numa_parts
from gpupool.model.suspension import SuspensionState
from gpupool.network.floating.reading import select_job_floating
from gpupool.network.tables import network_ports, networks
from gpupool.tenancy.tables import projects, tenants, users
from gpupool.wire.jobs import JobOut, NumaPartOut, SeatOut
from gpupool.wire.suspension import SuspensionOut

#: A row of the joined selects below; their columns are its attributes.
Row = Any
#: A waiting job's public id to the sentence why it waits.
WaitReason = Callable[[str], str]

#: All columns that `describe_jobs` reads; a query adds the condition.
JOB = (
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
        claims.c.retries,
        claims.c.idle_seconds,
        claims.c.reservation,
        claims.c.profile,
        sa.exists().where(dependencies.c.claim_id == claims.c.id).label("has_dependencies"),
        *ADVICE_COLUMNS,
        gangs.c.public_id.label("gang"),
        networks.c.name.label("network"),
        tenants.c.name.label("tenant"),
        projects.c.name.label("project"),
        users.c.name.label("user"),
    )
    .join(claims, claims.c.id == jobs.c.claim_id)
    .join(tenants, tenants.c.id == jobs.c.tenant_id)
    .join(projects, projects.c.id == jobs.c.project_id)
    .join(users, users.c.id == jobs.c.user_id)
    .outerjoin(gangs, gangs.c.id == jobs.c.gang_id)
    .outerjoin(networks, networks.c.id == claims.c.network_id)
    .outerjoin(advice_claims, advice_claims.c.claim_id == jobs.c.claim_id)
    .outerjoin(advice_runs, advice_runs.c.job_id == jobs.c.id)
)
_ONE = JOB.where(jobs.c.id == sa.bindparam("job"))
_GRANTS = (
    sa.select(
        allocations.c.id,
        allocations.c.job_id,
        allocations.c.why,
        allocations.c.fence,
        allocations.c.fence_why,
        allocations.c.mechanism,
        allocations.c.holds,
        allocations.c.attach_socket,
        allocations.c.numa,
        allocations.c.sharing,
        network_ports.c.address,
        network_ports.c.address6,
        select_job_floating().label("floating_ip"),
        suspensions.c.state.label("suspension"),
        suspensions.c.gpu_milli.label("suspended_milli"),
        suspensions.c.memory_bytes.label("suspended_bytes"),
        suspensions.c.host_bytes,
        suspensions.c.since_ns,
        suspensions.c.note,
        suspensions.c.beneficiary,
        suspensions.c.wanted_ns,
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
    # A claim without a card has no seat.
    .outerjoin(seats, seats.c.allocation_id == allocations.c.id)
    .outerjoin(devices, devices.c.id == seats.c.device_id)
    .join(nodes, nodes.c.id == sa.func.coalesce(devices.c.node_id, allocations.c.node_id))
    .outerjoin(network_ports, network_ports.c.allocation_id == allocations.c.id)
    .outerjoin(suspensions, suspensions.c.allocation_id == allocations.c.id)
    .where(allocations.c.job_id.in_(sa.bindparam("jobs", expanding=True)))
    .order_by(allocations.c.id, devices.c.idx)
)


def read_job(connection: sa.Connection, job_id: int, why: WaitReason) -> JobOut:
    """Read a job by its row id."""
    rows = connection.execute(_ONE, {"job": job_id}).all()
    return describe_jobs(connection, rows, why)[0]


def read_job_by_id(connection: sa.Connection, public_id: str, why: WaitReason) -> JobOut:
    """Read a job by its public id, for any caller."""
    return describe_jobs(
        connection, connection.execute(JOB.where(jobs.c.public_id == public_id)).all(), why
    )[0]


def describe_jobs(connection: sa.Connection, rows: Sequence[Row], why: WaitReason) -> list[JobOut]:
    """Describe rows of jobs, with one or two more queries for any number of rows."""
    granted = _read_seats(connection, [row.id for row in rows])
    claims_with_ends = {row.claim_id for row in rows if row.has_dependencies}
    awaited = read_dependencies(connection, claims_with_ends) if claims_with_ends else {}
    described = list[JobOut]()
    for row in rows:
        job = _describe_job(row, granted.get(row.id, ()), why)
        if row.claim_id in awaited:
            job = job.model_copy(update={"after": awaited[row.claim_id]})
        described.append(job)
    return described


def _read_seats(connection: sa.Connection, job_ids: Sequence[int]) -> dict[int, list[Row]]:
    """Read the seats of each job's latest allocation, by the job's row id.

    An allocation without a card is one row without a device.
    """
    if not job_ids:
        return {}
    found: dict[int, list[Row]] = {}
    # Ordered by allocation: a later one of a job replaces the seats of the one before.
    for row in connection.execute(_GRANTS, {"jobs": list(job_ids)}):
        if row.job_id in found and found[row.job_id][0].id == row.id:
            found[row.job_id].append(row)
        else:
            found[row.job_id] = [row]
    return found


def _describe_seat(seat: Row) -> SeatOut:
    return SeatOut(
        device=f"{seat.node}:{seat.idx}",
        uuid=seat.uuid,
        model=seat.model,
        gpu_milli=seat.gpu_milli,
        memory_bytes=seat.memory_bytes,
        profile=seat.profile,
        start=seat.start,
    )


def _describe_suspension(seat: Row) -> SuspensionOut | None:
    if seat.suspension is None:
        return None
    return SuspensionOut(
        state=seat.suspension,
        since_ns=seat.since_ns,
        host_bytes=seat.host_bytes,
        note=seat.note,
        beneficiary=seat.beneficiary,
        wanted_ns=seat.wanted_ns,
    )


def _describe_job(row: Row, grant: Sequence[Row], why: WaitReason) -> JobOut:
    # A job that waits again still has the released seats of its last run: they are not shown.
    mine = grant if row.state != "pending" else ()
    sharing = SharingKind(mine[0].sharing or row.sharing if mine else row.sharing)
    placed = mine[0] if mine else None
    on_cards = [seat for seat in mine if seat.uuid is not None]
    memory = on_cards[0].memory_bytes if on_cards else row.memory_bytes
    milli = on_cards[0].gpu_milli if on_cards and sharing.promises_compute else row.gpu_milli
    if placed and placed.suspension == SuspensionState.SUSPENDED:
        # Its seats are empty: its share is what it had, and needs again.
        memory = placed.suspended_bytes
        milli = placed.suspended_milli if sharing.promises_compute else row.gpu_milli
    numa_parts = read_numa_parts(placed.numa) if placed else ()
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
        sharing=sharing.value,
        share=format_share(
            milli,
            memory,
            row.cards,
            unpromised=sharing.unpromised_text,
            profile=row.profile,
        ),
        priority=row.priority,
        max_seconds=row.max_seconds,
        node=placed.node if placed else None,
        device=f"{on_cards[0].node}:{on_cards[0].idx}" if on_cards else None,
        seats=list(map(_describe_seat, on_cards)),
        why=placed.why if placed else "",
        fence=placed.fence if placed else "none",
        fence_why=placed.fence_why if placed else "",
        mechanism=placed.mechanism if placed else None,
        network=row.network,
        address=placed.address if placed else None,
        address6=placed.address6 if placed else None,
        floating_ip=placed.floating_ip if placed else None,
        holds=placed.holds if placed else None,
        simulated=mine[0].simulated if mine else None,
        attached=row.attached,
        attach_socket=placed.attach_socket if placed and row.state in LIVE else None,
        command=row.command,
        array=row.array_name,
        array_index=row.array_index,
        cpu_milli=row.cpu_milli,
        host_bytes=row.host_bytes,
        numa=[NumaPartOut(**part._asdict()) for part in numa_parts],
        within=describe_within(row.within_required, row.within_preferred),
        preemptible=row.preemptible,
        requeue=row.requeue,
        reservation=row.reservation,
        profile=row.profile,
        gang=row.gang,
        gang_rank=row.gang_rank,
        gang_role=row.gang_role,
        preemptions=row.preemptions,
        saved_ns=row.saved_ns,
        attempt=row.attempt,
        retries=row.retries,
        retry_ns=row.not_before_ns if row.state == JobState.PENDING else None,
        idle_seconds=row.idle_seconds,
        advice=describe_advised_share(row),
        suspension=_describe_suspension(placed) if placed and row.state in LIVE else None,
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
