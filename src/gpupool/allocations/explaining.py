"""The answer to "why is it waiting?" and "why is it there?", with what the caller may know of the holders."""

from __future__ import annotations

from itertools import groupby

import sqlalchemy as sa

from gpupool.allocations import reading
from gpupool.allocations.mirror import Mirror
from gpupool.allocations.placing import Placer
from gpupool.allocations.start_view import start_fields
from gpupool.allocations.tables import allocations, gangs, jobs, seats
from gpupool.base.units import format_duration, format_share
from gpupool.fleet.tables import devices, nodes
from gpupool.fleet.views import device_name
from gpupool.model.allocation import AllocationState
from gpupool.model.job import JobState
from gpupool.model.tenant import Principal
from gpupool.wire.jobs import ExplainOut, GangStandOut, JobOut, MemberOut

HOLDERS = 5

_MEMBERS = (
    sa.select(
        jobs.c.name,
        jobs.c.state,
        jobs.c.gang_rank,
        jobs.c.gang_role,
        gangs.c.name.label("gang_name"),
        nodes.c.name.label("node"),
        devices.c.idx,
    )
    .join(gangs, gangs.c.id == jobs.c.gang_id)
    .outerjoin(
        allocations,
        sa.and_(allocations.c.job_id == jobs.c.id, allocations.c.state != sa.literal_column("'released'")),
    )
    .outerjoin(seats, seats.c.allocation_id == allocations.c.id)
    .outerjoin(devices, devices.c.id == seats.c.device_id)
    .outerjoin(nodes, nodes.c.id == devices.c.node_id)
    .where(gangs.c.public_id == sa.bindparam("gang"))
    .order_by(jobs.c.gang_rank, devices.c.idx)
)
"""A row for each seat, and one for a member without any."""


def explain_job(
    connection: sa.Connection, job: JobOut, principal: Principal, mirror: Mirror, placer: Placer, now_ns: int
) -> ExplainOut:
    """One sentence about where the job stands, the counts behind it, and what would help."""
    told = _explained(connection, job, principal, mirror, placer, now_ns)
    return told.model_copy(update={"gang": _gang(connection, job.gang)}) if job.gang else told


def _explained(
    connection: sa.Connection, job: JobOut, principal: Principal, mirror: Mirror, placer: Placer, now_ns: int
) -> ExplainOut:
    if job.state != "pending":
        return ExplainOut(job=job.name, state=job.state, sentence=_standing(job, now_ns))
    told = placer.explain(job.id)
    if told is None:
        return ExplainOut(job=job.name, state=job.state, sentence="it is being placed right now")
    waiting, answer = told
    shape = waiting.shape
    return ExplainOut(
        job=job.name,
        state=job.state,
        sentence=answer.sentence,
        hints=[*answer.helps, *_faults(placer)],
        cards={str(reason): count for reason, count in answer.cards.items()},
        nodes={str(reason): count for reason, count in answer.nodes.items()},
        nearest=str(answer.nearest) if answer.nearest and answer.nearest != shape else None,
        holders=_holders(connection, principal, shape.model),
        ahead=answer.ahead + mirror.position(job.id),
        **start_fields(answer.start, answer.chance_pct),
    )


def _faults(placer: Placer) -> list[str]:
    """That another policy places than the pool's own: seats may be worse than they were, and an admin should know."""
    fault = placer.planner.fault
    return [f"{fault.sentence} (an admin sees why: gpupool doctor)"] if fault else []


def _standing(job: JobOut, now_ns: int) -> str:
    where = f"on {', '.join(seat.device for seat in job.seats)}" if job.seats else ""
    if job.state == "starting":
        waits = "for its client to attach" if job.attach_socket else "for its node to start it"
        return f"placed {where} ({job.why}); waits {waits}"
    if job.state == "running":
        lasted = format_duration((now_ns - (job.started_ns or now_ns)) / 1e9)
        fence = f"; fence: {job.fence}" + (f", {job.fence_why}" if job.fence_why else "")
        return f"runs {where} since {lasted}; placed there because: {job.why}{fence}"
    return f"{job.state}" + (f": {job.reason}" if job.reason else "")


def _gang(connection: sa.Connection, gang: str) -> GangStandOut | None:
    """All members by rank with what each holds; None where none holds anything."""
    rows = connection.execute(_MEMBERS, {"gang": gang}).all()
    if all(row.node is None for row in rows):
        return None
    seated = [list(seats_) for _, seats_ in groupby(rows, key=lambda row: row.gang_rank)]
    members = [
        MemberOut(
            job=each[0].name,
            role=each[0].gang_role,
            rank=each[0].gang_rank,
            state=each[0].state,
            node=each[0].node,
            devices=[device_name(row.node, row.idx) for row in each if row.node is not None],
        )
        for each in seated
    ]
    running = sum(member.state == JobState.RUNNING for member in members)
    return GangStandOut(id=gang, name=rows[0].gang_name, running=running, members=members)


def _holders(connection: sa.Connection, principal: Principal, model: str | None) -> list[str]:
    """The caller's visible jobs that hold the most of such cards now: whose end would help."""
    query = (
        sa.select(
            jobs.c.name,
            sa.func.sum(seats.c.gpu_milli).label("milli"),
            sa.func.sum(seats.c.memory_bytes).label("bytes"),
        )
        .join(allocations, allocations.c.job_id == jobs.c.id)
        .join(seats, seats.c.allocation_id == allocations.c.id)
        .join(devices, devices.c.id == seats.c.device_id)
        .where(reading.scope(principal), allocations.c.state != AllocationState.RELEASED)
        .group_by(jobs.c.id, jobs.c.name)
        .order_by(sa.desc("milli"), jobs.c.id)
        .limit(HOLDERS)
    )
    if model is not None:
        query = query.where(
            sa.or_(
                sa.func.lower(devices.c.model) == model.lower(),
                sa.func.lower(devices.c.model).startswith(model.lower() + "-", autoescape=True),
            )
        )
    return [f"{row.name} holds {format_share(row.milli, row.bytes)}" for row in connection.execute(query)]
