"""Writing a checked submission: its claims, its gang, its jobs and how to launch them, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import sqlalchemy as sa

from gpupool.allocations import gangs as gang_rows
from gpupool.allocations.arrays.members import member_row
from gpupool.allocations.arrays.references import split_name
from gpupool.allocations.intake import Part, Submission
from gpupool.allocations.tables import HAS_REST, arrays, claims, gangs, jobs, launches
from gpupool.base.errors import NameTaken
from gpupool.base.ids import new_id
from gpupool.model.claim import ANY_CARD, Shape
from gpupool.model.gang import Gang
from gpupool.model.job import LIVE, JobState
from gpupool.store.database import Write

SHOWN_CHARACTERS = 4096
"""Of a command, in rows of jobs. How to start a job has all of it."""

_NEW_JOBS = jobs.insert().returning(jobs.c.id, sort_by_parameter_order=True)
_NEW_LAUNCH = launches.insert()
_LIVE_JOB = sa.select(jobs.c.public_id, jobs.c.state).where(
    jobs.c.tenant_id == sa.bindparam("tenant"), jobs.c.state.in_(LIVE)
)
_WAITING_ARRAY = sa.select(arrays.c.public_id, arrays.c.size).where(
    arrays.c.tenant_id == sa.bindparam("tenant"), arrays.c.name == sa.bindparam("wanted"), HAS_REST
)
_TAKEN = sa.union_all(*(_LIVE_JOB.where(name == sa.bindparam("wanted")) for name in (jobs.c.name, jobs.c.array_name)))


@dataclass(frozen=True)
class Begun:
    """A submission by the name that it got, and of a gang its row: whose members may follow in parts."""

    submission: Submission
    owner: Mapping[str, int]
    gang: int
    """0: it is none."""
    claims: dict[int, int] = field(default_factory=dict)
    """By number of a part's first job, the claims that are written."""


def insert(write: Write, submission: Submission, project_id: int) -> int:
    """Write the claims, their jobs and how to launch them; the first job's key. Raises NameTaken and leaves nothing."""
    begun = begin(write, submission, project_id)
    submission = begun.submission
    first = _insert_array(write, begun) if submission.array_id else insert_jobs(write, begun, 0, submission.size)
    if submission.array is None:
        write.execute(_NEW_LAUNCH, {"job_id": first, "spec": _launch(submission)})
    tell(write, submission)
    return first


def begin(write: Write, submission: Submission, project_id: int, missing: int = 0) -> Begun:
    """Write the gang's row, with that many members still `missing`. Raises NameTaken and leaves nothing."""
    submission = _by_a_free_name(write, submission)
    owner = {"tenant_id": submission.tenant_id, "project_id": project_id, "user_id": submission.user_id}
    gang = 0 if submission.gang is None else _insert_gang(write, submission, submission.gang, missing)
    return Begun(submission, owner, gang)


def insert_jobs(write: Write, begun: Begun, first: int, end: int) -> int:
    """Write the jobs from the number `first` on, up to `end`, with their claims; the key of the first."""
    rows = list[dict[str, Any]]()
    for part in begun.submission.parts:
        numbers = range(max(first, part.first), min(end, part.first + part.count))
        if numbers:
            more = {"claim_id": _claim_of(write, begun, part), "gang_id": begun.gang or None, **begun.owner}
            rows += [{**_job(write, begun.submission, part, n), **more} for n in numbers]
    return int(write.execute(_NEW_JOBS, rows).scalars().all()[0])


def _claim_of(write: Write, begun: Begun, part: Part) -> int:
    """The claim of these jobs, written with the first of them."""
    if part.first not in begun.claims:
        columns = _claim(write, begun.submission, part)
        begun.claims[part.first] = write.insert(claims, **columns, **begun.owner)
    return begun.claims[part.first]


def _insert_array(write: Write, begun: Begun) -> int:
    """The array with its first member, whose key it is."""
    part = begun.submission.parts[0]
    owner = {**begun.owner, "claim_id": _claim_of(write, begun, part)}
    row = _first_member(write, begun.submission, part, owner)
    return int(write.execute(_NEW_JOBS, [row]).scalars().all()[0])


def tell(write: Write, submission: Submission) -> None:
    """Add the submission to the event log."""
    name = submission.array or submission.names[0]
    data = {"name": name, "count": submission.size, "share": str(submission.shape), **_for_replay(submission)}
    data |= {"gang": submission.gang.id} if submission.gang else {}
    data |= {"array": submission.array_id} if submission.array_id else {}
    write.event("job.submitted", submission.public_ids[0], tenant_id=submission.tenant_id, data=data)


def _launch(submission: Submission) -> dict[str, Any]:
    """How to start the jobs; of a gang also the commands of its roles."""
    commands = {part.role.name: part.command for part in submission.parts if part.role is not None}
    of_roles = {"argv_of": commands} if len(commands) > 1 else {}
    return {**submission.launch, "argv": submission.parts[0].command, **of_roles}


def _first_member(write: Write, submission: Submission, part: Part, owner: dict[str, Any]) -> dict[str, Any]:
    """Write the array; its first member, which the answer names."""
    row = {
        **owner,
        "public_id": submission.array_id,
        "name": submission.array,
        "size": submission.size,
        "made": 1,
        "next_index": 1,
        "command": shown_command(part.command),
        "launch": _launch(submission),
        "submitted_ns": write.now_ns,
    }
    key = write.insert(arrays, **row)
    return member_row({**row, "id": key}, 0, submission.public_ids[0])


def shown_command(argv: Sequence[str]) -> list[str]:
    """The command as lists show it: what is longer than 4096 characters is cut, so that a page stays small."""
    left, shown = SHOWN_CHARACTERS, list[str]()
    for word in argv:
        if len(word) > left:
            return [*shown, word[:left] + "…"]
        shown.append(word)
        left -= len(word) + 1
    return shown


def _for_replay(submission: Submission) -> dict[str, Any]:
    """What a replay of the event log needs to ask the same again; what says nothing is left out."""
    limit = {} if submission.max_seconds is None else {"max_seconds": submission.max_seconds}
    kept = {"shape": _said(submission.shape), "priority": submission.priority, **limit}
    if submission.preemptible:
        kept["preemptible"] = True
    if len(submission.parts) > 1:
        kept["roles"] = [{"count": part.count, "shape": _said(part.shape)} for part in submission.parts]
    return kept


def _said(shape: Shape) -> dict[str, Any]:
    told = asdict(shape)
    if shape.selector == ANY_CARD:
        del told["selector"]
    return {name: value for name, value in told.items() if value}


def _insert_gang(write: Write, submission: Submission, gang: Gang, missing: int) -> int:
    return write.insert(
        gangs,
        public_id=gang.id,
        tenant_id=submission.tenant_id,
        name=submission.array,
        spec=gang_rows.to_json(gang.root),
        launch=_launch(submission),
        submitted_ns=write.now_ns,
        missing=missing,
    )


def _claim(write: Write, submission: Submission, part: Part) -> dict[str, Any]:
    return {
        "public_id": new_id("c"),
        **gang_rows.shape_columns(part.shape),
        "priority": submission.priority,
        "max_seconds": submission.max_seconds,
        "submitted_ns": write.now_ns,
        "preemptible": submission.preemptible,
        "requeue": submission.requeue,
        "reservation": submission.reservation,
    }


def _job(write: Write, submission: Submission, part: Part, number: int) -> dict[str, Any]:
    role = part.role
    return {
        "public_id": submission.public_ids[number],
        "name": submission.names[number],
        "array_name": submission.array,
        "array_index": None if submission.array is None else number,
        "state": JobState.PENDING,
        "attached": submission.attached,
        "command": shown_command(part.command),
        "submitted_ns": write.now_ns,
        "gang_rank": None if role is None else number,
        "gang_role": None if role is None else role.name,
        "launcher": role is not None and role.launcher,
    }


def _by_a_free_name(write: Write, submission: Submission) -> Submission:
    """One name is one live job. Nobody is refused for a name that we have made."""
    name = submission.array or submission.names[0]
    taken = _holder(write, submission.tenant_id, name)
    if taken is None:
        return submission
    if submission.spare_name is not None:
        return submission.called(submission.spare_name)
    raise NameTaken(
        f"a job named {name} is {taken[1]} already ({taken[0]})",
        hint=f"choose another --name, or end it with  gpupool stop {name}",
    )


def _holder(write: Write, tenant_id: int, name: str) -> tuple[str, str] | None:
    """Id and state of what is called so: a live job or array, or a member of an array that is no job yet."""
    taken = write.execute(_TAKEN, {"tenant": tenant_id, "wanted": name}).first()
    if taken is not None:
        return taken.public_id, taken.state
    found = write.execute(_WAITING_ARRAY, {"tenant": tenant_id, "wanted": name}).first()
    if found is None and (member := split_name(name)) is not None:
        array = write.execute(_WAITING_ARRAY, {"tenant": tenant_id, "wanted": member[0]}).first()
        found = array if array is not None and member[1] < array.size else None
    return None if found is None else (found.public_id, JobState.PENDING)
