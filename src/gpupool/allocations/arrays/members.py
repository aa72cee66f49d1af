"""Creates jobs of an array's members, in the transaction that places them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.arrays.references import MemberReference, parse_reference
from gpupool.allocations.store.tables import HAS_REST, arrays, claims, jobs
from gpupool.base.ids import new_id
from gpupool.model.job import JobState
from gpupool.scheduling import Eviction, JobPlacement
from gpupool.store.database import WriteTransaction

Row = sa.Row[Any]

#: Members created out of their turn that one transaction steps over at most. Later transactions
#: step over the rest, so that none reads an index of a million members.
STEPS_AHEAD = 1024

# Statements are made once: SQLAlchemy takes longer to make one than SQLite to run it.
_ARRAYS = (
    sa.select(arrays, (claims.c.gpu_milli * claims.c.cards).label("total_milli"))
    .join(claims, claims.c.id == arrays.c.claim_id)
    .where(arrays.c.public_id.in_(sa.bindparam("arrays", expanding=True)), HAS_REST)
)
_HAVE = sa.select(jobs.c.array_index).where(
    jobs.c.array_id == sa.bindparam("array"),
    jobs.c.array_index.in_(sa.bindparam("indices", expanding=True)),
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


def create_members(write: WriteTransaction, wanted: Iterable[str]) -> dict[str, str]:
    """Create rows in `jobs` for members that have none. They wait.

    Members of stopped arrays, and members with a row, are left out.

    Args:
        write: The transaction; the caller commits it.
        wanted: References of members; other names are ignored.

    Returns:
        The public id of each new job, by reference.
    """
    by_array: dict[str, list[MemberReference]] = defaultdict(list)
    for text in wanted:
        reference = parse_reference(text)
        if reference is not None:
            by_array[reference.array].append(reference)
    # Most plans place no member: they cost no query.
    if not by_array:
        return {}
    created = dict[str, str]()
    for row in write.execute(_ARRAYS, {"arrays": list(by_array)}).all():
        created |= _create_array_members(write, row, by_array[row.public_id])
    return created


def _create_array_members(
    write: WriteTransaction, array: Row, references: Sequence[MemberReference]
) -> dict[str, str]:
    indices = [reference.index for reference in references]
    existing = set(write.execute(_HAVE, {"array": array.id, "indices": indices}).scalars())
    created = dict[str, str]()
    rows = list[dict[str, Any]]()
    for reference in references:
        index = reference.index
        # A stale plan may name a member that another transaction has created meanwhile, and several
        # victims may name one member as their beneficiary.
        if index in existing or index >= array.size:
            continue
        existing.add(index)
        job = new_id("j")
        created[str(reference)] = job
        rows.append(build_member_row(array, index, job))
    if not rows:
        return {}
    write.execute(_MAKE, rows)
    following = _find_next_index(write, array)
    write.execute(_MADE, {"array": array.id, "more": len(rows), "following": following})
    write.announce(("job", array.public_id))
    return created


def _find_next_index(write: WriteTransaction, array: Row) -> int:
    """Return the first index behind an unbroken run of members that have rows."""
    following: int = array.next_index
    for index in write.execute(_FROM, {"array": array.id, "first": following}).scalars():
        if index != following:
            break
        following += 1
    return following


def build_member_row(array: Row | Mapping[str, Any], index: int, public_id: str) -> dict[str, Any]:
    """Build the row in `jobs` of a waiting member from its array's row."""
    # A mapping where the array is being written and has no row yet.
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
        "total_milli": of["total_milli"],
    }


def replace_members_in_placements(
    placements: Sequence[JobPlacement], made: Mapping[str, str]
) -> list[JobPlacement]:
    """Replace references in placements by the jobs that were created."""
    return [replace(one, job=made[one.job]) if one.job in made else one for one in placements]


def replace_members_in_evictions(
    evictions: Sequence[Eviction], made: Mapping[str, str]
) -> list[Eviction]:
    """Replace references in evictions; those for members that have no row are left out."""
    found = list[Eviction]()
    for eviction in evictions:
        beneficiary = made.get(eviction.beneficiary, eviction.beneficiary)
        # A reference that was not replaced is of an array that was stopped: no job would start.
        if parse_reference(beneficiary) is None:
            found.append(replace(eviction, beneficiary=beneficiary))
    return found
