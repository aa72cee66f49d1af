"""Taking in a submission: everything that can be wrong with it is said before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.mirror import Mirror, Queued
from gpupool.allocations.tables import claims, jobs, launches
from gpupool.base.errors import (
    BadFraction,
    BadInput,
    BadOption,
    BadQuantity,
    LargerThanAnyCard,
    NameTaken,
    NotAllowed,
    QuotaExceeded,
    Refused,
    TooManyCards,
    UnknownModel,
)
from gpupool.base.ids import check_name, new_id
from gpupool.base.units import MIB, WHOLE
from gpupool.model.claim import PRIORITIES, Reason, Rejection, Shape, Sharing
from gpupool.model.job import LIVE, JobState
from gpupool.model.tenant import DEFAULT_PROJECT, Permission, Principal
from gpupool.scheduling.admit import judge
from gpupool.scheduling.snapshot import ClassKey, Waiting
from gpupool.store.database import Write
from gpupool.tenancy.tenants import TenantRef
from gpupool.wire.fleet import RunAs
from gpupool.wire.jobs import JobIn, ShapeIn

_REFUSALS: Mapping[Reason, type[BadInput] | type[Refused]] = {
    Reason.MODEL: UnknownModel,
    Reason.QUOTA: QuotaExceeded,
    Reason.TOO_FEW_CARDS: TooManyCards,
    Reason.CARD_TOO_SMALL: LargerThanAnyCard,
}

_NEW_JOBS = jobs.insert().returning(jobs.c.id, sort_by_parameter_order=True)
_NEW_LAUNCH = launches.insert()
_LIVE_JOB = sa.select(jobs.c.public_id, jobs.c.state).where(
    jobs.c.tenant_id == sa.bindparam("tenant"), jobs.c.state.in_(LIVE)
)
_TAKEN = sa.union_all(*(_LIVE_JOB.where(name == sa.bindparam("wanted")) for name in (jobs.c.name, jobs.c.array_name)))


@dataclass(frozen=True)
class Submission:
    """A checked submission: rows ready to be written, and how it waits."""

    tenant_id: int
    tenant: str
    project: str
    user_id: int
    shape: Shape
    priority: int
    max_seconds: int | None
    names: tuple[str, ...]
    array: str | None
    public_ids: tuple[str, ...]
    attached: bool
    command: list[str]
    launch: dict[str, Any]

    def waiting(self, now_ns: int) -> Waiting:
        return Waiting(self.tenant, self.priority, self.shape, self.public_ids, len(self.public_ids), now_ns)

    def queued(self, now_ns: int) -> list[Queued]:
        key = ClassKey(self.tenant, self.priority, self.shape)
        return [Queued(job, key, now_ns) for job in self.public_ids]


def check(body: JobIn, principal: Principal, tenant: TenantRef, run_as: RunAs | None, mirror: Mirror) -> Submission:
    """The submission, or the refusal with its numbers. Writes nothing."""
    shape = check_shape(body.shape)
    view = mirror.snapshot()
    view_of = view.tenants[tenant.name]
    typed = body.shape.memory_typed
    refuse(judge(shape, view_of, view.cards, tenant_name=tenant.name, memory_typed=typed))
    array = body.array
    if array is not None and body.attached:
        raise BadOption("an array cannot be attached to a terminal", hint="use  gpupool submit --array")
    if array is not None and not body.wait:
        raise BadOption("--no-wait is for one job, not for an array", hint="leave out --no-wait")
    public_ids = tuple(new_id("j") for _ in range(array or 1))
    name = check_name(body.name, "job name") if body.name else _name_from(body.launch.argv[0], public_ids[0])
    return Submission(
        tenant_id=tenant.id,
        tenant=tenant.name,
        project=check_name(body.project, "project") if body.project else DEFAULT_PROJECT,
        user_id=principal.user_id,
        shape=shape,
        priority=check_priority(body.priority, principal),
        max_seconds=body.max_seconds,
        names=(name,) if array is None else tuple(f"{name}.{n}" for n in range(array)),
        array=name if array is not None else None,
        public_ids=public_ids,
        attached=body.attached,
        command=body.launch.argv,
        launch=_launch(body, run_as),
    )


def _launch(body: JobIn, run_as: RunAs | None) -> dict[str, Any]:
    launch = body.launch.model_dump()
    for text in (*body.launch.argv, body.launch.cwd, *body.launch.env, *body.launch.env.values()):
        if "\0" in text:
            raise BadInput("a command or its environment holds a NUL character", hint="no program could be given it")
    if any("=" in name for name in body.launch.env):
        raise BadInput("an environment variable's name holds '='", hint="rename the variable")
    return {**launch, "fence": body.fence, "run_as": run_as.model_dump() if run_as else None}


def check_shape(asked: ShapeIn) -> Shape:
    """The shape, if it makes sense for some card somewhere. Raises BadFraction, BadQuantity, BadOption."""
    if not 1 <= asked.gpu_milli <= WHOLE:
        raise BadFraction(
            f"{asked.gpu_milli / WHOLE:g} of a card per card cannot be given",
            hint="per card ask for 0.001 to 1; for several cards add --count N",
        )
    if not 1 <= asked.count <= 100_000:
        raise BadOption(f"--count {asked.count}: a claim needs at least one card", hint="write --count 1")
    size = asked.memory_bytes
    if size is not None and size < 1:
        raise BadQuantity(f"{size} bytes of memory is nothing", hint="ask for at least 1MiB")
    return Shape(
        gpu_milli=asked.gpu_milli,
        memory_bytes=None if size is None else -(-size // MIB) * MIB,
        count=asked.count,
        model=asked.model,
        labels=tuple(sorted(asked.labels.items())),
        sharing=Sharing(asked.sharing),
    )


def check_priority(asked: str | int, principal: Principal) -> int:
    """A word or a number from -1000 to 1000; above normal needs the right to manage the tenant."""
    value = PRIORITIES.get(asked) if isinstance(asked, str) else asked
    if value is None and isinstance(asked, str) and asked.lstrip("+-").isascii() and asked.lstrip("+-").isdigit():
        value = int(asked[:8])
    if value is None or not -1000 <= value <= 1000:
        raise BadOption(f"priority {asked!r} is unknown", hint="low, normal, high, or a number from -1000 to 1000")
    if value > 0 and not principal.may(Permission.MANAGE_TENANT):
        raise NotAllowed(
            f"priority {asked} is above normal, which a {principal.role} may not ask for",
            hint="leave out --priority, or ask a tenant-admin",
        )
    return value


def refuse(rejection: Rejection | None) -> None:
    """Raise the public error of a refusal for good; None and 'not now' pass."""
    if rejection is None or rejection.fits_ever:
        return
    numbers = {str(reason): count for reason, count in rejection.cards.items()}
    hint = rejection.hint
    if rejection.nearest is not None:
        hint = (hint + "; " if hint else "") + f"fits now: {rejection.nearest}"
    error = _REFUSALS.get(rejection.dominant, Refused)
    raise error(rejection.sentence, hint=hint, cards=numbers)


def _name_from(command: str, public_id: str) -> str:
    """A name from the command's file name and the end of the id: `python-x7q2`."""
    base = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in command.rsplit("/", 1)[-1])
    return check_name(f"{base.strip('._-')[:50] or 'job'}-{public_id[-4:]}")


def insert(write: Write, submission: Submission, project_id: int) -> int:
    """Write the claim, its jobs and how to launch them; the first job's key. Raises NameTaken and leaves nothing."""
    _check_names_free(write, submission)
    owner = {"tenant_id": submission.tenant_id, "project_id": project_id, "user_id": submission.user_id}
    shape = submission.shape
    claim_id = write.insert(
        claims,
        public_id=new_id("c"),
        gpu_milli=shape.gpu_milli,
        memory_bytes=shape.memory_bytes,
        cards=shape.count,
        model=shape.model,
        labels=dict(shape.labels),
        sharing=shape.sharing,
        priority=submission.priority,
        max_seconds=submission.max_seconds,
        submitted_ns=write.now_ns,
        **owner,
    )
    rows = [
        {
            "public_id": public_id,
            "claim_id": claim_id,
            "name": name,
            "array_name": submission.array,
            "array_index": None if submission.array is None else n,
            "state": JobState.PENDING,
            "attached": submission.attached,
            "command": submission.command,
            "submitted_ns": write.now_ns,
            **owner,
        }
        for n, (public_id, name) in enumerate(zip(submission.public_ids, submission.names, strict=True))
    ]
    made = write.execute(_NEW_JOBS, rows).scalars().all()
    write.execute(_NEW_LAUNCH, [{"job_id": job, "spec": submission.launch} for job in made])
    name = submission.array or submission.names[0]
    data = {"name": name, "count": len(rows), "share": str(shape), **_for_replay(submission)}
    write.event("job.submitted", submission.public_ids[0], tenant_id=submission.tenant_id, data=data)
    return int(made[0])


def _for_replay(submission: Submission) -> dict[str, Any]:
    """What a replay of the event log needs to ask the same again; what says nothing is left out."""
    shape = {name: value for name, value in asdict(submission.shape).items() if value}
    limit = {} if submission.max_seconds is None else {"max_seconds": submission.max_seconds}
    return {"shape": shape, "priority": submission.priority, **limit}


def _check_names_free(write: Write, submission: Submission) -> None:
    name = submission.array or submission.names[0]
    taken = write.execute(_TAKEN, {"tenant": submission.tenant_id, "wanted": name}).first()
    if taken is not None:
        raise NameTaken(
            f"a job named {name} is {taken.state} already ({taken.public_id})",
            hint=f"choose another --name, or end it with  gpupool stop {name}",
        )
