"""Writing a checked submission: its claims, its gang, its jobs and how to launch them, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
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


def insert(write: Write, submission: Submission, project_id: int) -> int:
    """Write the claims, their jobs and how to launch them; the first job's key. Raises NameTaken and leaves nothing."""
    submission = _by_a_free_name(write, submission)
    owner = {"tenant_id": submission.tenant_id, "project_id": project_id, "user_id": submission.user_id}
    gang_id = None if submission.gang is None else _insert_gang(write, submission, submission.gang)
    rows = list[dict[str, Any]]()
    for part in submission.parts:
        claim = write.insert(claims, **_claim(write, submission, part), **owner)
        if submission.array_id is not None:
            rows.append(_first_member(write, submission, part, {**owner, "claim_id": claim}))
            continue
        for n in range(part.first, part.first + part.count):
            rows.append({**_job(write, submission, part, n), "claim_id": claim, "gang_id": gang_id, **owner})
    made = write.execute(_NEW_JOBS, rows).scalars().all()
    if submission.array is None:
        write.execute(_NEW_LAUNCH, {"job_id": made[0], "spec": _launch(submission)})
    name = submission.array or submission.names[0]
    data = {"name": name, "count": submission.size, "share": str(submission.shape), **_for_replay(submission)}
    data |= {"gang": submission.gang.id} if submission.gang else {}
    data |= {"array": submission.array_id} if submission.array_id else {}
    write.event("job.submitted", submission.public_ids[0], tenant_id=submission.tenant_id, data=data)
    return int(made[0])


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


def _insert_gang(write: Write, submission: Submission, gang: Gang) -> int:
    return write.insert(
        gangs,
        public_id=gang.id,
        tenant_id=submission.tenant_id,
        name=submission.array,
        spec=gang_rows.to_json(gang.root),
        launch=_launch(submission),
        submitted_ns=write.now_ns,
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
