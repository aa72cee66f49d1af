"""Large gangs in transactions of a bounded size: written, removed and stopped part by part.

The gang's row says first what becomes of it; its members follow (decision 0025). A gang with
`missing` members is not placed, and a restart removes it, because its submission has no answer yet.
All members of a gang that is `ending` are stopped, by the next server if need be.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.ledger.gang_lifecycle import MEMBERS_AT_ONCE, REST
from gpupool.allocations.ledger.stop_reasons import REQUEUE_REASONS
from gpupool.allocations.store.tables import IS_LIVE, IS_UNSETTLED, claims, gangs, jobs
from gpupool.allocations.submission.store import (
    BegunSubmission,
    begin_submission,
    insert_jobs,
    write_submitted_event,
)
from gpupool.allocations.submission.submission import Submission
from gpupool.base.errors import WrongState
from gpupool.model.job import JobState
from gpupool.store.database import WriteTransaction

Row = sa.Row[Any]

# Statements are made once: SQLAlchemy takes longer to make one than SQLite to run it.
# The condition fails once the gang was stopped, which sets `missing` to 0: no member is then added.
_ARRIVED = (
    gangs.update()
    .where(gangs.c.id == sa.bindparam("gang"), gangs.c.missing >= sa.bindparam("more"))
    .values(missing=gangs.c.missing - sa.bindparam("more"))
)
_UNSETTLED = sa.select(gangs.c.id, gangs.c.missing, gangs.c.ending, gangs.c.ending_grace_s).where(
    IS_UNSETTLED
)
_ONE = sa.select(gangs.c.ending, gangs.c.ending_grace_s).where(gangs.c.id == sa.bindparam("gang"))
_LARGE = (
    sa.select(gangs.c.id)
    .join(jobs, jobs.c.gang_id == gangs.c.id)
    .where(gangs.c.id.in_(sa.bindparam("gangs", expanding=True)), IS_LIVE)
    .group_by(gangs.c.id, gangs.c.missing)
    .having(sa.or_(sa.func.count() > sa.bindparam("most"), gangs.c.missing > 0))
)
_MISSING = sa.select(gangs.c.missing).where(gangs.c.id == sa.bindparam("gang"), gangs.c.missing > 0)
_SOME = (
    sa.select(jobs.c.id, jobs.c.claim_id)
    .where(jobs.c.gang_id == sa.bindparam("gang"))
    .limit(sa.bindparam("most"))
)
_FORGET_JOBS = jobs.delete().where(jobs.c.id.in_(sa.bindparam("ids", expanding=True)))
# A claim goes with the last of its jobs: a part of a role may be in the next transaction.
_FORGET_CLAIMS = claims.delete().where(
    claims.c.id.in_(sa.bindparam("ids", expanding=True)),
    sa.not_(sa.exists().where(jobs.c.claim_id == claims.c.id)),
)
_FORGET_GANG = gangs.delete().where(gangs.c.id == sa.bindparam("gang"))
_LIVE_MEMBERS = (
    sa.select(jobs.c.id)
    .where(jobs.c.gang_id == sa.bindparam("gang"), jobs.c.id > sa.bindparam("after"), IS_LIVE)
    .order_by(jobs.c.id)
    .limit(sa.bindparam("most"))
)
_TO_STOP = _LIVE_MEMBERS.join(gangs, gangs.c.id == jobs.c.gang_id).where(
    gangs.c.ending.is_not(None),
    sa.or_(
        jobs.c.state == JobState.PENDING,
        sa.and_(
            gangs.c.ending != REST,
            sa.or_(
                jobs.c.stop_requested.is_(None), jobs.c.stop_requested.in_(sorted(REQUEUE_REASONS))
            ),
        ),
    ),
)


# Writing -----------------------------------------------------------------------------------------


def is_large_gang(submission: Submission) -> bool:
    """Return whether the members of the gang are written in several transactions."""
    return submission.gang is not None and submission.size > MEMBERS_AT_ONCE


def begin_gang(
    write: WriteTransaction, submission: Submission, project_id: int
) -> tuple[BegunSubmission, int]:
    """Write the gang's row and its first members.

    Returns:
        The begun submission, and the row id of the first member.

    Raises:
        NameTaken: A live job has the name; nothing is written.
    """
    begun = begin_submission(write, submission, project_id, submission.size - MEMBERS_AT_ONCE)
    return begun, insert_jobs(write, begun, 0, MEMBERS_AT_ONCE)


def list_later_parts(submission: Submission) -> Iterator[tuple[int, int]]:
    """List the members that `begin_gang` leaves, as ranges from and up to."""
    for first in range(MEMBERS_AT_ONCE, submission.size, MEMBERS_AT_ONCE):
        yield first, min(first + MEMBERS_AT_ONCE, submission.size)


def add_members(write: WriteTransaction, begun: BegunSubmission, first: int, end: int) -> None:
    """Write these members. With the last of them the gang can be placed.

    Raises:
        WrongState: The gang was stopped meanwhile.
    """
    if not write.execute(_ARRIVED, {"gang": begun.gang, "more": end - first}).rowcount:
        name = begun.submission.array
        raise WrongState(
            f"gang {name} was stopped while it was being submitted", hint="submit it again"
        )
    insert_jobs(write, begun, first, end)
    if end == begun.submission.size:
        write_submitted_event(write, begun.submission)


# Removing ----------------------------------------------------------------------------------------


def remove_members(write: WriteTransaction, gang: int) -> bool:
    """Remove a part of a gang that was not written to its end; last, the gang itself.

    Returns:
        Whether members are left.
    """
    if write.execute(_MISSING, {"gang": gang}).first() is None:  # whole, stopped or removed
        return False
    rows = write.execute(_SOME, {"gang": gang, "most": MEMBERS_AT_ONCE}).all()
    if not rows:
        write.execute(_FORGET_GANG, {"gang": gang})
        return False
    write.execute(_FORGET_JOBS, {"ids": [row.id for row in rows]})
    write.execute(_FORGET_CLAIMS, {"ids": list({row.claim_id for row in rows})})
    return True


# Stopping ----------------------------------------------------------------------------------------


def read_members_to_stop(
    connection: sa.Connection, gang: int, after: int, *, asked: bool
) -> list[int]:
    """Read the next members to stop, as many as one transaction stops.

    Args:
        connection: A read transaction.
        gang: Row id.
        after: The row id of the last member before.
        asked: Whether to include members whose end was requested, to change their grace.
    """
    query = _LIVE_MEMBERS if asked else _TO_STOP
    return list(
        connection.execute(query, {"gang": gang, "after": after, "most": MEMBERS_AT_ONCE}).scalars()
    )


def read_end_reason(connection: sa.Connection, gang: int) -> tuple[str, int | None]:
    """Read the reason and the grace with which members of the gang are stopped."""
    row = connection.execute(_ONE, {"gang": gang}).one()
    return "gang" if row.ending == REST else row.ending, row.ending_grace_s


def find_large_gangs(connection: sa.Connection, ids: Collection[int]) -> set[int]:
    """Return those gangs that do not end in one transaction."""
    if not ids:
        return set()
    return set(connection.execute(_LARGE, {"gangs": list(ids), "most": MEMBERS_AT_ONCE}).scalars())


def read_unsettled(connection: sa.Connection) -> list[Row]:
    """Read the gangs with missing members, or with members still to stop."""
    return list(connection.execute(_UNSETTLED))
