"""Reads and writes rows of leavers; the callers begin and commit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import sqlalchemy as sa

from gpupool.allocations.handover.tables import IS_OPEN, leavers
from gpupool.model.tenant import Principal
from gpupool.store.database import Store, WriteTransaction
from gpupool.tenancy.access import match_visible
from gpupool.tenancy.ending.owners import find_ended_owners
from gpupool.tenancy.tables import tenants, users
from gpupool.wire.common import Page
from gpupool.wire.leavers.policies import LeaverRowOut

Row = Any
#: Topic of every new leaver.
TOPIC: Final = "leavers"
#: Rows of one answer.
MOST_ROWS: Final = 1000

_heirs = users.alias("heirs")
LEAVER = (
    sa.select(
        leavers,
        users.c.name.label("user"),
        users.c.disabled_ns,
        users.c.retired_ns,
        tenants.c.name.label("tenant"),
        _heirs.c.name.label("heir"),
    )
    .join(users, users.c.id == leavers.c.user_id)
    .join(tenants, tenants.c.id == leavers.c.tenant_id)
    .outerjoin(_heirs, _heirs.c.id == leavers.c.heir_id)
)


def list_leavers(store: Store, caller: Principal, *, everything: bool) -> Page[LeaverRowOut]:
    """List the leavers in the caller's scope that are not settled, or all.

    The latest first, 1,000 at most.
    """
    query = LEAVER.where(match_visible(caller, leavers.c.tenant_id))
    if not everything:
        query = query.where(IS_OPEN)
    with store.read() as connection:
        rows = connection.execute(query.order_by(leavers.c.id.desc()).limit(MOST_ROWS)).all()
    return Page(items=[_describe(row) for row in rows])


def count_stopped(write: WriteTransaction, jobs: int, row: Row) -> None:
    """Count jobs in the transaction that requests their end."""
    mine = leavers.c.id == row.id
    write.execute(leavers.update().where(mine).values(stopped=leavers.c.stopped + jobs))


def count_handed(write: WriteTransaction, row: Row) -> None:
    """Count a unit in the transaction that hands it over."""
    mine = leavers.c.id == row.id
    write.execute(leavers.update().where(mine).values(handed=leavers.c.handed + 1))


def close_leaver(write: WriteTransaction, row: Row, note: str) -> None:
    """Note that nothing is left to do. Idempotent: a closed row stays as it is."""
    values = {"note": note[:400], "state": "done", "ended_ns": write.now_ns}
    closed = _update(write, row, values)
    if closed is None:
        return
    data = {
        "act": row.act,
        "heir": row.heir,
        "note": note,
        "stopped": closed.stopped,
        "handed": closed.handed,
    }
    write.event("leaver.settled", row.user, tenant_id=row.tenant_id, data=data)


def note_leaver(write: WriteTransaction, row: Row, note: str) -> None:
    """Note what is left; the row stays open."""
    if _update(write, row, {"note": note[:400]}) is not None:
        write.event("leaver.waits", row.user, tenant_id=row.tenant_id, data={"note": note})


def forget_former_users(write: WriteTransaction) -> None:
    """Settle open rows of users that this transaction brings back, and forget former heirs.

    Idempotent. Another person may have the name: its jobs are no leaver's, and it gets none.
    """
    ended = find_ended_owners(write)
    if not ended.users:
        return
    revived = ended.select_revived()
    for row in write.execute(LEAVER.where(IS_OPEN, leavers.c.user_id.in_(revived))).all():
        close_leaver(write, row, f"{row.user} was deleted")
    former = sa.and_(IS_OPEN, leavers.c.heir_id.in_(revived))
    write.execute(leavers.update().where(former).values(heir_id=None))


def _update(write: WriteTransaction, row: Row, values: Mapping[str, Any]) -> Row | None:
    """Change an open row; return its counts, None where it was closed meanwhile."""
    mine = sa.and_(leavers.c.id == row.id, IS_OPEN)
    change = leavers.update().where(mine).values(**values)
    return write.execute(change.returning(leavers.c.stopped, leavers.c.handed)).one_or_none()


def _describe(row: Row) -> LeaverRowOut:
    return LeaverRowOut(
        user=row.user,
        tenant=row.tenant,
        provider=row.provider,
        reason=row.reason,
        act=row.act,
        until_ns=row.until_ns,
        heir=row.heir,
        state=row.state,
        note=row.note,
        stopped=row.stopped,
        handed=row.handed,
        made_by=row.made_by,
        made_ns=row.made_ns,
        ended_ns=row.ended_ns,
        due_ns=row.due_ns,
    )
