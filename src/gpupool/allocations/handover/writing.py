"""Hands one unit over to another user, in the caller's transaction.

Rows are chosen by their owner of now: what another request handed over or what has ended meanwhile
is left as it is, so a repetition changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.handover.units import OwnedUnit
from gpupool.allocations.schedules.instants import CronRule
from gpupool.allocations.schedules.rows import TOPIC, resume_schedule
from gpupool.allocations.store.hold_tables import reservations
from gpupool.allocations.store.schedule_tables import schedules
from gpupool.allocations.store.tables import HAS_REST, IS_LIVE, arrays, claims, jobs
from gpupool.metering.service import MeteringService
from gpupool.store.acts import AuditEntry
from gpupool.store.database import WriteTransaction
from gpupool.tenancy.users import PEOPLE

#: What the runner of schedules writes where an owner has left.
OWNER_LEFT = "its owner "


@dataclass(frozen=True)
class HandoverAuthor:
    """On whose word a handover is made: an admin's, or a policy's."""

    user: str
    role: str | None
    tenant: str | None
    reason: str


@dataclass(frozen=True)
class HandoverParties:
    """The owner of before, and the heir."""

    user_id: int
    user: str
    heir_id: int
    heir: str


def write_handover(
    write: WriteTransaction,
    metering: MeteringService,
    unit: OwnedUnit,
    parties: HandoverParties,
    author: HandoverAuthor,
) -> bool:
    """Hand a unit over. Return whether any of it still was the earlier owner's."""
    if unit.kind == "schedule":
        subject = _write_schedule(write, unit, parties)
    elif unit.kind == "reservation":
        subject = _write_reservation(write, unit, parties)
    else:
        subject = _write_jobs(write, metering, unit, parties)
    if subject is None:
        return False
    kind = unit.kind if unit.kind in ("schedule", "reservation") else "job"
    data = {
        "what": unit.kind,
        "name": unit.name,
        "from": parties.user,
        "to": parties.heir,
        "by": author.user,
    }
    if unit.jobs > 1:
        data["jobs"] = str(unit.jobs)
    write.event(f"{kind}.handed-over", subject, tenant_id=unit.tenant_id, data=data)
    write.audit(AuditEntry(_describe_act(unit, parties, author), unit.tenant_id))
    # Streams that the earlier owner has open into the jobs end, and budgets hold other jobs.
    write.announce(PEOPLE, "budget-holds", "queue")
    return True


def _write_jobs(
    write: WriteTransaction,
    metering: MeteringService,
    unit: OwnedUnit,
    parties: HandoverParties,
) -> str | None:
    column = {"job": jobs.c.id, "array": jobs.c.array_id, "gang": jobs.c.gang_id}[unit.kind]
    mine = sa.and_(IS_LIVE, column == unit.key, jobs.c.user_id == parties.user_id)
    query = sa.select(jobs.c.id, jobs.c.public_id, jobs.c.claim_id).where(mine)
    rows = write.execute(query.order_by(jobs.c.id)).all()
    claim_ids = {row.claim_id for row in rows}
    # The books first: they read from the jobs' rows whose use it was.
    metering.change_owner(write, [row.id for row in rows], parties.heir_id)
    values: dict[str, Any] = {"user_id": parties.heir_id}
    write.execute(jobs.update().where(mine).values(**values, generation=jobs.c.generation + 1))
    has_rest = False
    if unit.kind == "array":
        theirs = sa.and_(arrays.c.id == unit.key, arrays.c.user_id == parties.user_id)
        claim = sa.select(arrays.c.claim_id).where(theirs, HAS_REST)
        rest = write.execute(claim).scalars().all()
        has_rest = bool(rest)
        claim_ids.update(rest)
        if rows or has_rest:
            write.execute(arrays.update().where(theirs).values(**values))
    if not rows and not has_rest:
        return None
    # The queue is read from the claims.
    write.execute(claims.update().where(claims.c.id.in_(list(claim_ids))).values(**values))
    write.announce(("job", unit.public_id), *(("job", row.public_id) for row in rows))
    return str(rows[0].public_id) if rows else unit.public_id


def _write_schedule(
    write: WriteTransaction, unit: OwnedUnit, parties: HandoverParties
) -> str | None:
    mine = sa.and_(schedules.c.id == unit.key, schedules.c.user_id == parties.user_id)
    row = write.execute(sa.select(schedules).where(mine)).one_or_none()
    if row is None:
        return None
    # Its command stays the earlier owner's, so it does not follow the account of the heir.
    values = {"user_id": parties.heir_id, "run_as": unit.run_as}
    write.execute(schedules.update().where(mine).values(**values))
    if row.state == "paused" and row.reason.startswith(OWNER_LEFT):
        rule = CronRule(row.cron, row.time_zone)
        resume_schedule(write, row, rule.find_next(write.now_ns))
    write.announce(TOPIC)
    return str(row.name)


def _write_reservation(
    write: WriteTransaction, unit: OwnedUnit, parties: HandoverParties
) -> str | None:
    mine = sa.and_(reservations.c.id == unit.key, reservations.c.user_id == parties.user_id)
    changed = write.execute(reservations.update().where(mine).values(user_id=parties.heir_id))
    write.announce("reservations")
    return unit.name if changed.rowcount else None


def _describe_act(
    unit: OwnedUnit, parties: HandoverParties, author: HandoverAuthor
) -> dict[str, Any]:
    """Build the record of one unit: the request's own record names its first one alone."""
    return {
        "kind": "change",
        "action": f"handover: {unit.kind}",
        "user": author.user,
        "tenant": author.tenant,
        "role": author.role,
        "credential": None,
        "source": None,
        "objects": [unit.public_id, unit.name, parties.user, parties.heir],
        "status": None,
        "code": None,
        "request": None,
        "changes": {"from": parties.user, "to": parties.heir, "reason": author.reason},
        "times": 1,
    }
