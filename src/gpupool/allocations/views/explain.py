"""Answers why a job waits, or why it runs where it runs, as far as the caller may know."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import sqlalchemy as sa

from gpupool.allocations.budgeting.holds import RAISE_HINT
from gpupool.allocations.cache.ledger_cache import LedgerCache
from gpupool.allocations.placement.placer import Placer
from gpupool.allocations.placement.start_view import build_start_fields
from gpupool.allocations.store.gangs import read_shape
from gpupool.allocations.store.tables import allocations, claims, gangs, jobs, seats
from gpupool.allocations.views import list as reading
from gpupool.allocations.views.job import read_job_by_id
from gpupool.allocations.views.mechanism_plan import (
    describe_prepared,
    plan_mechanism,
    read_prepared,
)
from gpupool.base.units import format_duration, format_mib, format_share
from gpupool.fleet.tables import devices, nodes
from gpupool.fleet.views import device_name
from gpupool.model.allocation import AllocationState
from gpupool.model.claim import NO_NETWORK_LABEL, Shape
from gpupool.model.job import ENDED, JobState
from gpupool.model.partition import read_foreign_pieces, read_profiles
from gpupool.model.suspension import IDLE_RULE
from gpupool.model.tenant import Principal
from gpupool.network.planes.node_gate import explain_nodes
from gpupool.scheduling import suggest_stop_holder
from gpupool.wire.jobs import ExplainOut, GangStandOut, JobOut, MemberOut
from gpupool.wire.suspension import SuspensionOut

#: Jobs that an explanation names as holders of cards.
HOLDERS = 5

#: A row for each seat, and one for a member without any.
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
        sa.and_(
            allocations.c.job_id == jobs.c.id,
            allocations.c.state != sa.literal_column("'released'"),
        ),
    )
    .outerjoin(seats, seats.c.allocation_id == allocations.c.id)
    .outerjoin(devices, devices.c.id == seats.c.device_id)
    .outerjoin(nodes, nodes.c.id == devices.c.node_id)
    .where(gangs.c.public_id == sa.bindparam("gang"))
    .order_by(jobs.c.gang_rank, devices.c.idx)
)

#: Awaited ends that an answer has a hint for at most.
_MOST_HINTS = 3
#: Foreign pieces that an answer names at most.
_MOST_FOREIGN = 8
_FOREIGN = (
    sa.select(nodes.c.name.label("node"), devices.c.idx, devices.c.facts)
    .join(nodes, nodes.c.id == devices.c.node_id)
    .where(
        devices.c.state == sa.literal_column("'adopted'"),
        # The facts are JSON: only cards that have the key are read.
        sa.cast(devices.c.facts, sa.Text).contains('"foreign"'),
    )
    .order_by(nodes.c.name, devices.c.idx)
)

_CLAIM = (
    sa.select(claims)
    .join(jobs, jobs.c.claim_id == claims.c.id)
    .where(jobs.c.public_id == sa.bindparam("job"))
)


def explain_job(
    connection: sa.Connection,
    job: JobOut,
    principal: Principal,
    cache: LedgerCache,
    placer: Placer,
    now_ns: int,
) -> ExplainOut:
    """Explain a job in one sentence with the counts behind it, and what would help."""
    answer = _explain_state(connection, job, principal, cache, placer, now_ns)
    shape = _read_shape(connection, job)
    # Mechanisms are ways to divide a card.
    if shape is not None and shape.count and job.state not in ENDED:
        cards = [seat.uuid for seat in job.seats]
        prepared = read_prepared(connection, job.id)
        if prepared is None:
            plan = plan_mechanism(cache.build_snapshot(), shape, job.tenant, cards)
        else:
            snapshot = cache.build_snapshot()
            plan = describe_prepared(prepared, snapshot, shape, job.tenant, cards)
        answer = answer.model_copy(update=dict(plan))
    if not job.gang:
        return answer
    return answer.model_copy(update={"gang": _read_gang(connection, job.gang)})


def _read_shape(connection: sa.Connection, job: JobOut) -> Shape | None:
    """Read the shape of a job's claim; None for a member of an array without a row yet."""
    row = connection.execute(_CLAIM, {"job": job.id}).first()
    return None if row is None else read_shape(row)


def _explain_state(
    connection: sa.Connection,
    job: JobOut,
    principal: Principal,
    cache: LedgerCache,
    placer: Placer,
    now_ns: int,
) -> ExplainOut:
    if job.state != "pending":
        return ExplainOut(job=job.name, state=job.state, sentence=_describe_standing(job, now_ns))
    wait = cache.waits.find_wait(job.id)
    if wait is not None:
        return ExplainOut(
            job=job.name,
            state=job.state,
            sentence=wait.describe(now_ns),
            hints=_list_wait_hints(job),
        )
    spent = cache.budgets.find_sentence(job.id)
    if spent is not None:
        return ExplainOut(job=job.name, state=job.state, sentence=spent, hints=[RAISE_HINT])
    explained = placer.explain_wait(job.id)
    if explained is None:
        # It was placed between the reading of the job and now.
        return ExplainOut(job=job.name, state=job.state, sentence="it is being placed right now")
    waiting, answer = explained
    shape = waiting.shape
    return ExplainOut(
        job=job.name,
        state=job.state,
        sentence=answer.sentence,
        hints=[
            *_list_holders_to_stop(connection, answer.kept_for, principal),
            *answer.helps,
            *explain_nodes(connection, job.tenant, is_outside=NO_NETWORK_LABEL in shape.labels),
            *_list_foreign_pieces(connection, shape),
            *_describe_policy_fault(placer),
        ],
        cards={str(reason): count for reason, count in answer.cards.items()},
        nodes={str(reason): count for reason, count in answer.nodes.items()},
        nearest=str(answer.nearest) if answer.nearest and answer.nearest != shape else None,
        holders=_read_holders(connection, principal, shape.model) if shape.count else [],
        # Members of one gang start together: none of them is before another.
        ahead=answer.ahead + (0 if job.gang else cache.count_jobs_ahead(job.id)),
        **build_start_fields(answer.start, answer.chance_pct),
    )


def _list_holders_to_stop(
    connection: sa.Connection, kept_for: Sequence[str], principal: Principal
) -> list[str]:
    """Name the waiting job or gang that cards are kept for, where the caller may stop it."""
    if not kept_for:
        return []
    job = read_job_by_id(connection, kept_for[0], lambda _job: "")
    if not reading.can_see_content(principal, job.user):
        return []
    # The name of a member is that of its gang, and its rank.
    return [suggest_stop_holder(job.name.rpartition(".")[0] if job.gang else job.name)]


def _list_wait_hints(job: JobOut) -> list[str]:
    """List where to look for what a job waits for."""
    hints = list[str]()
    for end in job.after:
        if end.outcome is None:
            hints.append(f"gpupool explain {end.job}  tells how {end.kind} {end.job} stands")
    return hints[:_MOST_HINTS]


def _list_foreign_pieces(connection: sa.Connection, shape: Shape) -> list[str]:
    """List what other tools have cut of cards that have the profile a job waits for."""
    if shape.profile is None:
        return []
    found = []
    for row in connection.execute(_FOREIGN):
        names = [one.name for one in read_profiles(row.facts.get("profiles", ()))]
        if shape.profile not in names:
            continue
        for piece in read_foreign_pieces(row.facts):
            found.append(f"{device_name(row.node, row.idx)}: {piece.describe()}")
    return found[:_MOST_FOREIGN]


def _describe_policy_fault(placer: Placer) -> list[str]:
    # A built-in policy places in place of the one that failed: seats may be worse than they were.
    fault = placer.planner.fault
    return [f"{fault.sentence} (an admin sees why: gpupool doctor)"] if fault else []


def _describe_suspension(job: JobOut, suspension: SuspensionOut, where: str, now_ns: int) -> str:
    lasted = format_duration((now_ns - (suspension.since_ns or now_ns)) / 1e9)
    moved = "" if suspension.host_bytes is None else f" with {format_mib(suspension.host_bytes)}"
    failed = f"; the last resume failed: {suspension.note}" if suspension.note else ""
    if suspension.beneficiary is not None:
        wanted = ""
        if suspension.wanted_ns is not None:
            wanted = (
                f", wants to work since {format_duration((now_ns - suspension.wanted_ns) / 1e9)}"
            )
        reason = f"so that {suspension.beneficiary} runs"
        if suspension.beneficiary == IDLE_RULE:
            reason = "by its idle policy"
        return (
            f"was idle and is suspended since {lasted}{moved} in main memory, "
            f"{reason}{wanted}; it goes on as soon as {job.share} are free "
            f"{where}{failed}"
        )
    return (
        f"is suspended since {lasted}{moved} in main memory and holds no card; "
        f"to go on it needs {job.share} {where} (gpupool resume {job.name}){failed}"
    )


def _describe_standing(job: JobOut, now_ns: int) -> str:
    where = f"on {', '.join(seat.device for seat in job.seats)}" if job.seats else ""
    if job.count == 0 and job.node is not None:
        where = f"on {job.node}"
    if job.state == "starting":
        waits = "for its client to attach" if job.attach_socket else "for its node to start it"
        return f"placed {where} ({job.why}); waits {waits}"
    if job.suspension is not None and job.suspension.state == "suspended":
        return _describe_suspension(job, job.suspension, where, now_ns)
    if job.state == "running":
        lasted = format_duration((now_ns - (job.started_ns or now_ns)) / 1e9)
        fence = f"; fence: {job.fence}" + (f", {job.fence_why}" if job.fence_why else "")
        if job.count == 0:
            fence = ""
        return f"runs {where} since {lasted}; placed there because: {job.why}{fence}"
    return f"{job.state}" + (f": {job.reason}" if job.reason else "")


def _read_gang(connection: sa.Connection, gang: str) -> GangStandOut | None:
    """Read all members by rank with what each holds; None where none holds anything."""
    rows = connection.execute(_MEMBERS, {"gang": gang}).all()
    if all(row.node is None for row in rows):
        return None
    members = list[MemberOut]()
    running = 0
    # The query orders by rank, so the rows of a member's seats are neighbours.
    for rank, seat_rows in groupby(rows, key=lambda row: row.gang_rank):
        seats_of_member = list(seat_rows)
        first = seats_of_member[0]
        cards = list[str]()
        for row in seats_of_member:
            if row.node is not None:
                cards.append(device_name(row.node, row.idx))
        running += first.state == JobState.RUNNING
        member = MemberOut(
            job=first.name,
            role=first.gang_role,
            rank=rank,
            state=first.state,
            node=first.node,
            devices=cards,
        )
        members.append(member)
    return GangStandOut(id=gang, name=rows[0].gang_name, running=running, members=members)


def _read_holders(connection: sa.Connection, principal: Principal, model: str | None) -> list[str]:
    """Name the visible jobs that hold the most of such cards now: their end would help."""
    query = (
        sa.select(
            jobs.c.name,
            sa.func.sum(seats.c.gpu_milli).label("milli"),
            sa.func.sum(seats.c.memory_bytes).label("bytes"),
        )
        .join(allocations, allocations.c.job_id == jobs.c.id)
        .join(seats, seats.c.allocation_id == allocations.c.id)
        .join(devices, devices.c.id == seats.c.device_id)
        .where(reading.jobs_in_scope(principal), allocations.c.state != AllocationState.RELEASED)
        .group_by(jobs.c.id, jobs.c.name)
        .order_by(sa.desc("milli"), jobs.c.id)
        .limit(HOLDERS)
    )
    if model is not None:
        # `--model H100` means every variant of it, and `A|B` either, as the scheduler matches
        # models.
        kinds = list[sa.ColumnElement[bool]]()
        for name in model.lower().split("|"):
            kinds.append(sa.func.lower(devices.c.model) == name)
            kinds.append(sa.func.lower(devices.c.model).startswith(f"{name}-", autoescape=True))
        query = query.where(sa.or_(*kinds))
    rows = connection.execute(query)
    return [f"{row.name} holds {format_share(row.milli, row.bytes)}" for row in rows]
