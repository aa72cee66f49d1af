"""Making jobs of an array's members, in the transaction that places them or evicts for them.

So a kill leaves either the member and what was done for it, or neither; and an array costs a row only where it runs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.arrays.references import Reference, reference_of
from gpupool.allocations.tables import HAS_REST, arrays, jobs
from gpupool.base.ids import new_id
from gpupool.model.job import JobState
from gpupool.scheduling.snapshot import Eviction, Placement
from gpupool.store.database import Write

Row = sa.Row[Any]

STEPS_AHEAD = 1024
"""Members made out of their turn that one transaction steps over; those behind them are stepped over by later ones."""

# Statements are made once: SQLAlchemy takes longer to make one than SQLite to run it.
_ARRAYS = sa.select(arrays).where(arrays.c.public_id.in_(sa.bindparam("arrays", expanding=True)), HAS_REST)
_HAVE = sa.select(jobs.c.array_index).where(
    jobs.c.array_id == sa.bindparam("array"), jobs.c.array_index.in_(sa.bindparam("indices", expanding=True))
)
_FROM = (
    sa.select(jobs.c.array_index)
    .where(jobs.c.array_id == sa.bindparam("array"), jobs.c.array_index >= sa.bindparam("first"))
    .order_by(jobs.c.array_index)
    .limit(STEPS_AHEAD)
)
_MAKE = jobs.insert()
_MADE = (
    arrays.update()
    .where(arrays.c.id == sa.bindparam("array"))
    .values(made=arrays.c.made + sa.bindparam("more"), next_index=sa.bindparam("following"))
)


def make_members(write: Write, wanted: Iterable[str]) -> dict[str, str]:
    """Rows in `jobs` for members that have none; by reference, the ids of the new jobs. They wait.

    A member of an array that was stopped meanwhile, or that has its row already, is left out.
    """
    asked: dict[str, list[Reference]] = defaultdict(list)
    for text in wanted:
        if (reference := reference_of(text)) is not None:
            asked[reference.array].append(reference)
    if not asked:
        return {}
    made = dict[str, str]()
    for row in write.execute(_ARRAYS, {"arrays": list(asked)}).all():
        made |= _make(write, row, asked[row.public_id])
    return made


def _make(write: Write, array: Row, references: Sequence[Reference]) -> dict[str, str]:
    indices = [one.index for one in references]
    there = set(write.execute(_HAVE, {"array": array.id, "indices": indices}).scalars())
    new = {one: new_id("j") for one in references if one.index not in there and one.index < array.size}
    if not new:
        return {}
    write.execute(_MAKE, [member_row(array, one.index, job) for one, job in new.items()])
    write.execute(_MADE, {"array": array.id, "more": len(new), "following": _following(write, array)})
    write.announce(("job", array.public_id))
    return {str(one): job for one, job in new.items()}


def _following(write: Write, array: Row) -> int:
    """The first index behind an unbroken run of members that have rows."""
    following: int = array.next_index
    for index in write.execute(_FROM, {"array": array.id, "first": following}).scalars():
        if index != following:
            break
        following += 1
    return following


def member_row(array: Row | Mapping[str, Any], index: int, public_id: str) -> dict[str, Any]:
    """A member as a row of `jobs`, from its array's row. It waits."""
    of = array if isinstance(array, Mapping) else array._mapping
    return {
        "public_id": public_id,
        "claim_id": of["claim_id"],
        "tenant_id": of["tenant_id"],
        "project_id": of["project_id"],
        "user_id": of["user_id"],
        "name": f"{of['name']}.{index}",
        "array_name": of["name"],
        "array_index": index,
        "array_id": of["id"],
        "state": JobState.PENDING,
        "attached": False,
        "command": of["command"],
        "submitted_ns": of["submitted_ns"],
    }


def with_members(placements: Sequence[Placement], made: Mapping[str, str]) -> list[Placement]:
    """The placements with the jobs that their members have become."""
    return [replace(one, job=made[one.job]) if one.job in made else one for one in placements]


def for_members(evictions: Sequence[Eviction], made: Mapping[str, str]) -> list[Eviction]:
    """The same of evictions; one for a member that cannot be made any more is left out."""
    found = [replace(one, beneficiary=made.get(one.beneficiary, one.beneficiary)) for one in evictions]
    return [one for one in found if reference_of(one.beneficiary) is None]
