"""Large gangs in transactions of a bounded size: their members written, removed and stopped part by part.

The gang's own row says first what is to become of it, in one transaction; its members follow (decision 0025). A gang
of which members are `missing` is not placed. Its submission has no answer yet: a server that ends meanwhile leaves a
gang that is removed. A gang that is `ending` is not placed either, and all of its members are stopped, also by the
server that comes after one which was killed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.inserting import Begun, begin, insert_jobs, tell
from gpupool.allocations.intake import Submission
from gpupool.allocations.tables import IS_LIVE, IS_UNSETTLED, claims, gangs, jobs
from gpupool.allocations.together import MEMBERS_AT_ONCE, REST, SENT_BACK
from gpupool.base.errors import WrongState
from gpupool.model.job import JobState
from gpupool.store.database import Write

Row = sa.Row[Any]

# Statements are made once: SQLAlchemy takes longer to make one than SQLite to run it.
_ARRIVED = (
    gangs.update()
    .where(gangs.c.id == sa.bindparam("gang"), gangs.c.missing >= sa.bindparam("more"))
    .values(missing=gangs.c.missing - sa.bindparam("more"))
)
_UNSETTLED = sa.select(gangs.c.id, gangs.c.missing, gangs.c.ending, gangs.c.ending_grace_s).where(IS_UNSETTLED)
_ONE = sa.select(gangs.c.ending, gangs.c.ending_grace_s).where(gangs.c.id == sa.bindparam("gang"))
_LARGE = (
    sa.select(gangs.c.id)
    .join(jobs, jobs.c.gang_id == gangs.c.id)
    .where(gangs.c.id.in_(sa.bindparam("gangs", expanding=True)), IS_LIVE)
    .group_by(gangs.c.id, gangs.c.missing)
    .having(sa.or_(sa.func.count() > sa.bindparam("most"), gangs.c.missing > 0))
)
_MISSING = sa.select(gangs.c.missing).where(gangs.c.id == sa.bindparam("gang"), gangs.c.missing > 0)
_SOME = sa.select(jobs.c.id, jobs.c.claim_id).where(jobs.c.gang_id == sa.bindparam("gang")).limit(sa.bindparam("most"))
_FORGET_JOBS = jobs.delete().where(jobs.c.id.in_(sa.bindparam("ids", expanding=True)))
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
            sa.or_(jobs.c.stop_requested.is_(None), jobs.c.stop_requested.in_(sorted(SENT_BACK))),
        ),
    ),
)


# Written ------------------------------------------------------------------------------------------------


def is_large(submission: Submission) -> bool:
    """Whether it is a gang whose members are written in several transactions."""
    return submission.gang is not None and submission.size > MEMBERS_AT_ONCE


def begin_gang(write: Write, submission: Submission, project_id: int) -> tuple[Begun, int]:
    """Write the gang's row and its first members; with the first one's key. Raises NameTaken and leaves nothing."""
    begun = begin(write, submission, project_id, submission.size - MEMBERS_AT_ONCE)
    return begun, insert_jobs(write, begun, 0, MEMBERS_AT_ONCE)


def parts_after_the_first(submission: Submission) -> Iterator[tuple[int, int]]:
    """The members that `begin_gang` leaves, as numbers from and up to."""
    for first in range(MEMBERS_AT_ONCE, submission.size, MEMBERS_AT_ONCE):
        yield first, min(first + MEMBERS_AT_ONCE, submission.size)


def add_members(write: Write, begun: Begun, first: int, end: int) -> None:
    """Write these members. With the last of them the gang is whole and can be placed.

    Raises WrongState where it was stopped meanwhile.
    """
    if not write.execute(_ARRIVED, {"gang": begun.gang, "more": end - first}).rowcount:
        name = begun.submission.array
        raise WrongState(f"gang {name} was stopped while it was being submitted", hint="submit it again")
    insert_jobs(write, begun, first, end)
    if end == begun.submission.size:
        tell(write, begun.submission)


# Removed ------------------------------------------------------------------------------------------------


def remove_some(write: Write, gang: int) -> bool:
    """Remove members of a gang that was not written to its end, and last the gang; whether some are left."""
    if write.execute(_MISSING, {"gang": gang}).first() is None:  # whole, stopped or removed
        return False
    rows = write.execute(_SOME, {"gang": gang, "most": MEMBERS_AT_ONCE}).all()
    if not rows:
        write.execute(_FORGET_GANG, {"gang": gang})
        return False
    write.execute(_FORGET_JOBS, {"ids": [row.id for row in rows]})
    write.execute(_FORGET_CLAIMS, {"ids": list({row.claim_id for row in rows})})
    return True


# Stopped ------------------------------------------------------------------------------------------------


def members_to_stop(connection: sa.Connection, gang: int, after: int, *, asked: bool) -> list[int]:
    """The next members that the gang's row says are to end: as many as one transaction stops.

    With those that were `asked` already, for whom the grace may change, or without them.
    """
    query = _LIVE_MEMBERS if asked else _TO_STOP
    return list(connection.execute(query, {"gang": gang, "after": after, "most": MEMBERS_AT_ONCE}).scalars())


def why_it_ends(connection: sa.Connection, gang: int) -> tuple[str, int | None]:
    """The reason and the grace with which members of such a gang are stopped."""
    row = connection.execute(_ONE, {"gang": gang}).one()
    return "gang" if row.ending == REST else row.ending, row.ending_grace_s


def large_gangs(connection: sa.Connection, ids: Collection[int]) -> set[int]:
    """Those of these gangs that do not end in one transaction: of many live members, or still being written."""
    if not ids:
        return set()
    return set(connection.execute(_LARGE, {"gangs": list(ids), "most": MEMBERS_AT_ONCE}).scalars())


def read_unsettled(connection: sa.Connection) -> list[Row]:
    """Gangs of which members are missing or may still have to be stopped."""
    return list(connection.execute(_UNSETTLED))
