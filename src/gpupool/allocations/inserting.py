"""Writing a checked submission: its claims, its gang, its jobs and how to launch them, in the caller's transaction."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import sqlalchemy as sa

from gpupool.allocations import gangs as gang_rows
from gpupool.allocations.intake import Part, Submission
from gpupool.allocations.tables import claims, gangs, jobs, launches
from gpupool.base.errors import NameTaken
from gpupool.base.ids import new_id
from gpupool.model.claim import ANY_CARD, Shape
from gpupool.model.gang import Gang
from gpupool.model.job import LIVE, JobState
from gpupool.store.database import Write

_NEW_JOBS = jobs.insert().returning(jobs.c.id, sort_by_parameter_order=True)
_NEW_LAUNCH = launches.insert()
_LIVE_JOB = sa.select(jobs.c.public_id, jobs.c.state).where(
    jobs.c.tenant_id == sa.bindparam("tenant"), jobs.c.state.in_(LIVE)
)
_TAKEN = sa.union_all(*(_LIVE_JOB.where(name == sa.bindparam("wanted")) for name in (jobs.c.name, jobs.c.array_name)))


def insert(write: Write, submission: Submission, project_id: int) -> int:
    """Write the claims, their jobs and how to launch them; the first job's key. Raises NameTaken and leaves nothing."""
    submission = _by_a_free_name(write, submission)
    owner = {"tenant_id": submission.tenant_id, "project_id": project_id, "user_id": submission.user_id}
    gang_id = None if submission.gang is None else _insert_gang(write, submission, submission.gang)
    rows, specs = list[dict[str, Any]](), list[dict[str, Any]]()
    for part in submission.parts:
        claim = write.insert(claims, **_claim(write, submission, part), **owner)
        for n in range(part.first, part.first + part.count):
            rows.append({**_job(write, submission, part, n), "claim_id": claim, "gang_id": gang_id, **owner})
            specs.append({**submission.launch, "argv": part.command})
    made = write.execute(_NEW_JOBS, rows).scalars().all()
    write.execute(_NEW_LAUNCH, [{"job_id": job, "spec": spec} for job, spec in zip(made, specs, strict=True)])
    name = submission.array or submission.names[0]
    data = {"name": name, "count": len(rows), "share": str(submission.shape), **_for_replay(submission)}
    data |= {"gang": submission.gang.id} if submission.gang else {}
    write.event("job.submitted", submission.public_ids[0], tenant_id=submission.tenant_id, data=data)
    return int(made[0])


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
        "command": part.command,
        "submitted_ns": write.now_ns,
        "gang_rank": None if role is None else number,
        "gang_role": None if role is None else role.name,
        "launcher": role is not None and role.launcher,
    }


def _by_a_free_name(write: Write, submission: Submission) -> Submission:
    """One name is one live job. Nobody is refused for a name that we have made."""
    name = submission.array or submission.names[0]
    taken = write.execute(_TAKEN, {"tenant": submission.tenant_id, "wanted": name}).first()
    if taken is None:
        return submission
    if submission.spare_name is not None:
        return submission.called(submission.spare_name)
    raise NameTaken(
        f"a job named {name} is {taken.state} already ({taken.public_id})",
        hint=f"choose another --name, or end it with  gpupool stop {name}",
    )
