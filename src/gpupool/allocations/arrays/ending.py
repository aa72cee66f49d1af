"""Ends of arrays: counts ended members, drops the rest, deletes how to start them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.store.tables import HAS_REST, arrays
from gpupool.model.job import ENDED, JobState
from gpupool.store.database import WriteTransaction

# The columns are named as the states.
_COLUMNS = tuple(sorted(str(state) for state in ENDED))
_ENDED_MEMBERS = arrays.c.done + arrays.c.failed + arrays.c.stopped + arrays.c.lost
_COUNT = (
    arrays.update()
    .where(arrays.c.id == sa.bindparam("array"))
    .values({name: arrays.c[name] + sa.bindparam(f"more_{name}") for name in _COLUMNS})
)
# The launch is needed until no member can start: the array has no rest, and all its members that
# became jobs have ended.
_FORGET_LAUNCH = arrays.update().where(
    arrays.c.id == sa.bindparam("array"),
    arrays.c.launch.is_not(None),
    sa.not_(HAS_REST),
    arrays.c.made == _ENDED_MEMBERS,
)
_STOP = (
    arrays.update()
    .where(arrays.c.id == sa.bindparam("array"), HAS_REST)
    .values(stopped_ns=sa.bindparam("at_ns"), stop_reason=sa.bindparam("reason"))
    .returning(*arrays.c)
)


def count_ended(write: WriteTransaction, array_id: int, ended: Mapping[str, int]) -> None:
    """Count members that came to these states; the last one deletes the launch and its secrets."""
    counts = {"array": array_id}
    for name in _COLUMNS:
        counts[f"more_{name}"] = 0
    for state, count in ended.items():
        counts[f"more_{state}"] = count
    write.execute(_COUNT, counts)
    _forget_launch(write, array_id)


def _forget_launch(write: WriteTransaction, array_id: int) -> None:
    write.execute(_FORGET_LAUNCH.values(launch=sa.null()), {"array": array_id})


def stop_rest(write: WriteTransaction, array_id: int, reason: str) -> sa.Row[Any] | None:
    """Create no further member of the array. Writes one row, whatever the size.

    Returns:
        The array's row; None if it had no rest.
    """
    row = write.execute(
        _STOP, {"array": array_id, "at_ns": write.now_ns, "reason": reason}
    ).one_or_none()
    if row is None:
        return None
    data = {
        "name": row.name,
        "state": str(JobState.STOPPED),
        "reason": reason,
        "count": row.size - row.made,
    }
    write.event("array.stopped", row.public_id, tenant_id=row.tenant_id, data=data)
    write.announce("queue", ("job", row.public_id))
    _forget_launch(write, array_id)
    return row
