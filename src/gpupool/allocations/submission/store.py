"""Writes a checked submission: claims, gang, jobs and how to start them.

The caller begins and commits the transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.arrays.members import build_member_row
from gpupool.allocations.arrays.references import split_name
from gpupool.allocations.dependencies.rows import insert_dependencies
from gpupool.allocations.store import gangs as gang_rows
from gpupool.allocations.store.advice_rows import insert_advised_share, write_advised_event
from gpupool.allocations.store.tables import HAS_REST, arrays, claims, gangs, jobs, launches
from gpupool.allocations.submission.network_join import find_network_columns
from gpupool.allocations.submission.submission import Submission, SubmissionPart
from gpupool.base.errors import NameTaken
from gpupool.base.ids import new_id
from gpupool.model.claim import ANY_CARD, NETWORK_LABEL, Shape
from gpupool.model.gang import Gang
from gpupool.model.job import LIVE, JobState
from gpupool.store.database import WriteTransaction

#: Characters of a command in a row of `jobs`, for lists. The launch has the whole command.
SHOWN_CHARACTERS = 4096
#: Characters of an image's name in a row of `claims`: the width of its column.
_IMAGE_CHARACTERS = 512

_NEW_JOBS = jobs.insert().returning(jobs.c.id, sort_by_parameter_order=True)
_NEW_LAUNCH = launches.insert()
_LIVE_JOB = sa.select(jobs.c.public_id, jobs.c.state).where(
    jobs.c.tenant_id == sa.bindparam("tenant"), jobs.c.state.in_(LIVE)
)
_WAITING_ARRAY = sa.select(arrays.c.public_id, arrays.c.size).where(
    arrays.c.tenant_id == sa.bindparam("tenant"), arrays.c.name == sa.bindparam("wanted"), HAS_REST
)
_TAKEN = sa.union_all(
    *(_LIVE_JOB.where(name == sa.bindparam("wanted")) for name in (jobs.c.name, jobs.c.array_name)),
    _WAITING_ARRAY.with_only_columns(
        arrays.c.public_id, sa.literal(str(JobState.PENDING)).label("state")
    ),
)


@dataclass(frozen=True)
class BegunSubmission:
    """A submission under its final name, and the row of its gang, whose members may follow."""

    submission: Submission
    owner: Mapping[str, int]
    #: Row id of the gang; 0 for a job or an array.
    gang: int
    #: Columns of its claims that name the network that its jobs join.
    network: Mapping[str, Any] = field(default_factory=dict)
    #: Row ids of the claims that are written, by the number of their part's first job.
    claims: dict[int, int] = field(default_factory=dict)


def insert_submission(write: WriteTransaction, submission: Submission, project_id: int) -> int:
    """Write the claims, jobs and launches.

    Returns:
        The row id of the first job.

    Raises:
        NameTaken: A live job has the name; nothing is written.
        GpupoolError: The network that it names does not take its jobs; nothing is written.
    """
    begun = begin_submission(write, submission, project_id)
    submission = begun.submission
    first = (
        _insert_array(write, begun)
        if submission.array_id
        else insert_jobs(write, begun, 0, submission.size)
    )
    if submission.array is None:
        write.execute(_NEW_LAUNCH, {"job_id": first, "spec": _build_launch(submission)})
    write_submitted_event(write, submission)
    return first


def begin_submission(
    write: WriteTransaction, submission: Submission, project_id: int, missing: int = 0
) -> BegunSubmission:
    """Choose the name and write the gang's row, with `missing` members to follow.

    Raises:
        NameTaken: A live job has the name; nothing is written.
    """
    submission = _choose_free_name(write, submission)
    owner = {
        "tenant_id": submission.tenant_id,
        "project_id": project_id,
        "user_id": submission.user_id,
    }
    gang = (
        0 if submission.gang is None else _insert_gang(write, submission, submission.gang, missing)
    )
    network = find_network_columns(write.connection, submission)
    return BegunSubmission(submission, owner, gang, network)


def insert_jobs(write: WriteTransaction, begun: BegunSubmission, first: int, end: int) -> int:
    """Write the jobs from `first` up to `end`, with their claims.

    Returns:
        The row id of the first.
    """
    rows = list[dict[str, Any]]()
    for part in begun.submission.parts:
        numbers = range(max(first, part.first), min(end, part.first + part.count))
        if numbers:
            more = {
                "claim_id": _insert_claim_once(write, begun, part),
                "gang_id": begun.gang or None,
                **begun.owner,
            }
            for number in numbers:
                rows.append({**_build_job_row(write, begun.submission, part, number), **more})
    return int(write.execute(_NEW_JOBS, rows).scalars().all()[0])


def _insert_claim_once(
    write: WriteTransaction, begun: BegunSubmission, part: SubmissionPart
) -> int:
    """Write the claim of a part with its first jobs; return its row id."""
    if part.first not in begun.claims:
        columns = _build_claim_row(write, begun.submission, part)
        claim = write.insert(claims, **columns, **begun.owner, **begun.network)
        begun.claims[part.first] = claim
        insert_dependencies(write, claim, begun.submission.after)
        insert_advised_share(write, claim, begun.submission.advice)
    return begun.claims[part.first]


def _insert_array(write: WriteTransaction, begun: BegunSubmission) -> int:
    """Write the array with its first member; return the member's row id."""
    part = begun.submission.parts[0]
    owner = {**begun.owner, "claim_id": _insert_claim_once(write, begun, part)}
    row = _insert_array_row(write, begun.submission, part, owner)
    return int(write.execute(_NEW_JOBS, [row]).scalars().all()[0])


def write_submitted_event(write: WriteTransaction, submission: Submission) -> None:
    """Write the event `job.submitted`."""
    name = submission.array or submission.names[0]
    data = {
        "name": name,
        "count": submission.size,
        "share": str(submission.shape),
        **_describe_for_traces(submission),
    }
    data |= {"gang": submission.gang.id} if submission.gang else {}
    data |= {"array": submission.array_id} if submission.array_id else {}
    data |= _describe_image(submission)
    first = submission.public_ids[0]
    write.event("job.submitted", first, tenant_id=submission.tenant_id, data=data)
    write_advised_event(write, submission.advice, first, name, submission.tenant_id)


def _describe_image(submission: Submission) -> dict[str, str]:
    """Which image runs: the launch is deleted with the job's end, the event stays."""
    container = submission.launch.get("container") or {}
    names = ("image", "image_id", "digest")
    return {name: container[name] for name in names if container.get(name)}


def _build_launch(submission: Submission) -> dict[str, Any]:
    launch = {**submission.launch, "argv": submission.parts[0].command}
    commands = dict[str, list[str]]()
    for part in submission.parts:
        if part.role is not None:
            commands[part.role.name] = part.command
    if len(commands) > 1:
        launch["argv_of"] = commands
    return launch


def _insert_array_row(
    write: WriteTransaction, submission: Submission, part: SubmissionPart, owner: dict[str, Any]
) -> dict[str, Any]:
    """Write the array; return the row of its first member, which the answer names."""
    row = {
        **owner,
        "public_id": submission.array_id,
        "name": submission.array,
        "size": submission.size,
        "made": 1,
        "next_index": 1,
        "command": shorten_command(part.command),
        "launch": _build_launch(submission),
        "submitted_ns": write.now_ns,
    }
    key = write.insert(arrays, **row)
    total_milli = part.shape.gpu_milli * part.shape.count
    known = {**row, "id": key, "total_milli": total_milli}
    return build_member_row(known, 0, submission.public_ids[0])


def shorten_command(argv: Sequence[str]) -> list[str]:
    """Shorten a command to `SHOWN_CHARACTERS` for lists, so that pages stay small."""
    left = SHOWN_CHARACTERS
    shown = list[str]()
    for word in argv:
        if len(word) > left:
            return [*shown, word[:left] + "…"]
        shown.append(word)
        left -= len(word) + 1
    return shown


def _describe_for_traces(submission: Submission) -> dict[str, Any]:
    """Describe what a replay of the event log needs to submit the same again."""
    fields: dict[str, Any] = {
        "shape": _describe_shape(submission.shape),
        "priority": submission.priority,
    }
    # Defaults are left out: the log keeps an event of each submission for years.
    if submission.max_seconds is not None:
        fields["max_seconds"] = submission.max_seconds
    if submission.preemptible:
        fields["preemptible"] = True
    if len(submission.parts) > 1:
        roles = list[dict[str, Any]]()
        for part in submission.parts:
            roles.append({"count": part.count, "shape": _describe_shape(part.shape)})
        fields["roles"] = roles
    return fields


def _describe_shape(shape: Shape) -> dict[str, Any]:
    fields = asdict(shape)
    if shape.selector == ANY_CARD:
        del fields["selector"]
    fields["needs"] = shape.needs.write()
    # Replayed pools have no networks.
    fields["labels"] = [label for label in shape.labels if label != NETWORK_LABEL]
    del fields["names_sharing"]  # the log says what was asked for, not how
    # A claim without a card has 0 for these.
    always = ("gpu_milli", "count")
    return {name: value for name, value in fields.items() if value or name in always}


def _insert_gang(write: WriteTransaction, submission: Submission, gang: Gang, missing: int) -> int:
    return write.insert(
        gangs,
        public_id=gang.id,
        tenant_id=submission.tenant_id,
        name=submission.array,
        spec=gang_rows.encode_gang(gang.root),
        launch=_build_launch(submission),
        submitted_ns=write.now_ns,
        missing=missing,
    )


def _build_claim_row(
    write: WriteTransaction, submission: Submission, part: SubmissionPart
) -> dict[str, Any]:
    return {
        "public_id": new_id("c"),
        **gang_rows.build_shape_columns(part.shape),
        "priority": submission.priority,
        "max_seconds": submission.max_seconds,
        "submitted_ns": write.now_ns,
        "preemptible": submission.preemptible,
        "requeue": submission.requeue,
        "idle_seconds": submission.idle_seconds,
        "retries": submission.retry.retries,
        "retry_first_s": submission.retry.first_seconds,
        "retry_most_s": submission.retry.most_seconds,
        "reservation": submission.reservation,
        # The launch, which names it too, is deleted with the end of the job.
        "image": _describe_image(submission).get("image", "")[:_IMAGE_CHARACTERS] or None,
    }


def _build_job_row(
    write: WriteTransaction, submission: Submission, part: SubmissionPart, number: int
) -> dict[str, Any]:
    role = part.role
    return {
        "public_id": submission.public_ids[number],
        "name": submission.names[number],
        "array_name": submission.array,
        "array_index": None if submission.array is None else number,
        "state": JobState.PENDING,
        "attached": submission.attached,
        "command": shorten_command(part.command),
        "submitted_ns": write.now_ns,
        "gang_rank": None if role is None else number,
        "gang_role": None if role is None else role.name,
        "launcher": role is not None and role.launcher,
        "total_milli": part.shape.gpu_milli * part.shape.count,
    }


def _choose_free_name(write: WriteTransaction, submission: Submission) -> Submission:
    """Return the submission under a name that no live job of the tenant has."""
    if submission.spare_name is None:
        refuse_taken_name(write.connection, submission)
        return submission
    name = submission.array or submission.names[0]
    # A generated name is replaced by a longer one, which no other job can have: a user is never
    # refused for a name that the pool has chosen.
    if _find_name_holder(write.connection, submission.tenant_id, name) is not None:
        return submission.rename(submission.spare_name)
    return submission


def refuse_taken_name(connection: sa.Connection, submission: Submission) -> None:
    """Raise NameTaken if a live job of the tenant has the name that the user has chosen."""
    if submission.spare_name is not None:
        return
    name = submission.array or submission.names[0]
    taken = _find_name_holder(connection, submission.tenant_id, name)
    if taken is None:
        return
    raise NameTaken(
        f"a job named {name} is {taken[1]} already ({taken[0]})",
        hint=f"choose another --name, or end it with  gpupool stop {name}",
    )


def _find_name_holder(
    connection: sa.Connection, tenant_id: int, name: str
) -> tuple[str, str] | None:
    """Find the id and state of the live job, array or member without a row that has the name."""
    taken = connection.execute(_TAKEN, {"tenant": tenant_id, "wanted": name}).first()
    if taken is not None:
        return taken.public_id, taken.state
    member = split_name(name)
    if member is None:
        return None
    array = connection.execute(_WAITING_ARRAY, {"tenant": tenant_id, "wanted": member[0]}).first()
    if array is None or member[1] >= array.size:
        return None
    return array.public_id, JobState.PENDING
