"""How arrays end: members are counted as they do, what is left is given up, and how to start them is forgotten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.tables import HAS_REST, arrays
from gpupool.model.job import ENDED, JobState
from gpupool.store.database import Write

_COLUMNS = tuple(sorted(str(state) for state in ENDED))
_ENDED_MEMBERS = arrays.c.done + arrays.c.failed + arrays.c.stopped + arrays.c.lost
_COUNT = (
    arrays.update()
    .where(arrays.c.id == sa.bindparam("array"))
    .values({name: arrays.c[name] + sa.bindparam(f"more_{name}") for name in _COLUMNS})
)
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


def count_ended(write: Write, array_id: int, ended: Mapping[str, int]) -> None:
    """Members came to these states. The launch, which may hold secrets, goes with the last of them."""
    more = Counter({str(state): count for state, count in ended.items()})
    write.execute(_COUNT, {"array": array_id, **{f"more_{name}": more[name] for name in _COLUMNS}})
    _forget_launch(write, array_id)


def _forget_launch(write: Write, array_id: int) -> None:
    write.execute(_FORGET_LAUNCH.values(launch=sa.null()), {"array": array_id})


def stop_rest(write: Write, array_id: int, reason: str) -> sa.Row[Any] | None:
    """Make no further member of the array; its row, None where nothing was left. Writes one row, whatever its size."""
    row = write.execute(_STOP, {"array": array_id, "at_ns": write.now_ns, "reason": reason}).one_or_none()
    if row is None:
        return None
    data = {"name": row.name, "state": str(JobState.STOPPED), "reason": reason, "count": row.size - row.made}
    write.event("array.stopped", row.public_id, tenant_id=row.tenant_id, data=data)
    write.announce("queue", ("job", row.public_id))
    _forget_launch(write, array_id)
    return row
