"""Reads how far a job, an array or a gang has come to its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from gpupool.allocations.store.tables import arrays, gangs, jobs
from gpupool.model.chains.dependency import Standing
from gpupool.model.job import ENDED, JobState

JOB: Final = "job"
ARRAY: Final = "array"
GANG: Final = "gang"

#: Reasons with which members of a gang end because it is over, and not because it failed.
_ENDS_OF_GANG: Final = frozenset({"gang", "launcher"})


@dataclass(frozen=True)
class DependencyTarget:
    """What a dependency awaits, by its row; `index` is a member of an array."""

    kind: str
    key: int
    index: int | None = None


# Statements are made once: SQLAlchemy takes longer to make one than SQLite to run it.
_JOB = sa.select(jobs.c.state, jobs.c.reason).where(jobs.c.id == sa.bindparam("key"))
_MEMBER = sa.select(jobs.c.state, jobs.c.reason).where(
    jobs.c.array_id == sa.bindparam("key"), jobs.c.array_index == sa.bindparam("index")
)
_ARRAY = sa.select(
    arrays.c.size,
    arrays.c.made,
    arrays.c.stopped_ns,
    arrays.c.stop_reason,
    arrays.c.done,
    arrays.c.failed,
    arrays.c.stopped,
    arrays.c.lost,
).where(arrays.c.id == sa.bindparam("key"))
_GANG = (
    sa.select(jobs.c.state, jobs.c.stop_requested, sa.func.count().label("members"))
    .where(jobs.c.gang_id == sa.bindparam("key"))
    .group_by(jobs.c.state, jobs.c.stop_requested)
)
_MISSING = sa.select(gangs.c.missing).where(gangs.c.id == sa.bindparam("key"))


def read_standing(connection: sa.Connection, target: DependencyTarget) -> Standing:
    """Read the standing of a job, a member of an array, an array or a gang."""
    if target.kind == JOB:
        return _describe_job(connection.execute(_JOB, {"key": target.key}).one())
    if target.kind == GANG:
        return _read_gang(connection, target.key)
    array = connection.execute(_ARRAY, {"key": target.key}).one()
    if target.index is None:
        return _describe_array(array)
    member = {"key": target.key, "index": target.index}
    row = connection.execute(_MEMBER, member).one_or_none()
    if row is not None:
        return _describe_job(row)
    if array.stopped_ns is not None:
        return Standing(is_ended=True, is_ok=False, text=f"stopped ({array.stop_reason})")
    return Standing(is_ended=False, is_ok=None)


def _describe_job(row: Any) -> Standing:
    if row.state not in ENDED:
        return Standing(is_ended=False, is_ok=None)
    text = f"{row.state} ({row.reason})" if row.reason else row.state
    return Standing(is_ended=True, is_ok=row.state == JobState.DONE, text=text)


def _describe_array(row: Any) -> Standing:
    counts = {state: getattr(row, state) for state in sorted(map(str, ENDED))}
    if row.stopped_ns is not None:
        counts["stopped"] += row.size - row.made
    is_ended = sum(counts.values()) == row.size
    if counts["done"] == row.size:
        return Standing(is_ended=True, is_ok=True, text="done")
    others = [f"{count} {state}" for state, count in counts.items() if count and state != "done"]
    is_ok = False if others else None
    return Standing(is_ended, is_ok, f"with {', '.join(others)} of {row.size}" if others else "")


def _read_gang(connection: sa.Connection, key: int) -> Standing:
    rows = connection.execute(_GANG, {"key": key}).all()
    is_whole = not connection.execute(_MISSING, {"key": key}).scalar_one()
    if not is_whole or any(row.state not in ENDED for row in rows):
        return Standing(is_ended=False, is_ok=None)
    done = sum(row.members for row in rows if row.state == JobState.DONE)
    # Members that a gang leaves behind when it is done are stopped: that is no failure of it.
    others = [
        row
        for row in rows
        if row.state != JobState.DONE
        and not (row.state == JobState.STOPPED and row.stop_requested in _ENDS_OF_GANG)
    ]
    if done and not others:
        return Standing(is_ended=True, is_ok=True, text="done")
    counts = [f"{row.members} {row.state}" for row in others or rows]
    return Standing(is_ended=True, is_ok=False, text=f"with {', '.join(counts)}")
