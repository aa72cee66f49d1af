"""Taking in a submission: everything that can be wrong with it is said before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from gpupool.allocations import gangs as gang_rows
from gpupool.allocations.arrays.references import KIND as ARRAY
from gpupool.allocations.arrays.rest import Rest
from gpupool.allocations.mirror import Mirror
from gpupool.allocations.shapes import check_level, check_shape
from gpupool.allocations.waiting import Queued
from gpupool.base.errors import (
    BadInput,
    BadOption,
    GangTooLarge,
    GuaranteedToOthers,
    LargerThanAnyCard,
    NotAllowed,
    QuotaExceeded,
    Refused,
    TooManyCards,
    UnknownModel,
    UnknownProfile,
)
from gpupool.base.ids import check_name, new_id
from gpupool.model.claim import PRIORITIES, Reason, Rejection, Shape
from gpupool.model.gang import Gang, Group, Role
from gpupool.model.job_limits import JobLimits, Pair
from gpupool.model.tenant import DEFAULT_PROJECT, Permission, Principal
from gpupool.scheduling import wording_reach
from gpupool.scheduling.admit import judge
from gpupool.scheduling.admit_gang import judge_gang
from gpupool.scheduling.reach import refused_by_quotas
from gpupool.scheduling.snapshot import Cards, ClassKey, Snapshot, Waiting
from gpupool.tenancy.tenants import TenantRef
from gpupool.wire.fleet import RunAs
from gpupool.wire.jobs import JobIn

_REFUSALS: Mapping[Reason, type[BadInput] | type[Refused]] = {
    Reason.MODEL: UnknownModel,
    Reason.VENDOR: UnknownModel,
    Reason.PROFILE: UnknownProfile,
    Reason.QUOTA: QuotaExceeded,
    Reason.TOO_FEW_CARDS: TooManyCards,
    Reason.CARD_TOO_SMALL: LargerThanAnyCard,
    Reason.GANG: GangTooLarge,
    Reason.TOPOLOGY: GangTooLarge,
}

SHORT, LONG = 4, 9
"""Letters of a job's id in a name that we make: enough to read, and so many that no two jobs have the same. All ten
would make an id of it where the command is one letter."""


@dataclass(frozen=True)
class Part:
    """The jobs of a submission that are alike: one claim, one command. `first` is the number of the first of them."""

    shape: Shape
    command: list[str]
    first: int
    count: int
    role: Role | None = None


@dataclass(frozen=True)
class Submission:
    """A checked submission: rows ready to be written, and how it waits."""

    tenant_id: int
    tenant: str
    project: str
    user_id: int
    parts: tuple[Part, ...]
    priority: int
    max_seconds: int | None
    seconds: int | None
    """The limit, else what the past says of such jobs."""
    names: tuple[str, ...]
    array: str | None
    public_ids: tuple[str, ...]
    """Of the jobs that are written at once: of an array only its first member."""
    attached: bool
    launch: dict[str, Any]
    preemptible: bool = False
    requeue: bool = False
    reservation: str | None = None
    gang: Gang | None = None
    array_id: str | None = None
    spare_name: str | None = None
    """Instead of the name, which was made here, where a live job has it already."""

    def called(self, name: str) -> Submission:
        """The same by that name."""
        if self.array is None:
            return replace(self, names=(name,))
        return replace(self, array=name, names=tuple(f"{name}.{n}" for n in range(len(self.names))))

    @property
    def shape(self) -> Shape:
        return self.parts[0].shape

    @property
    def size(self) -> int:
        """Jobs that it asks for."""
        return sum(part.count for part in self.parts)

    @property
    def key(self) -> ClassKey:
        gang, may_leave = self.gang.id if self.gang else "", self.preemptible
        shape, seconds = self.shape, self.seconds
        return ClassKey(self.tenant, self.priority, shape, seconds, gang, self.reservation, may_leave, self.guessed)

    @property
    def guessed(self) -> bool:
        """Whether it has no limit, and only the past says how long it runs."""
        return self.max_seconds is None and self.seconds is not None

    def waiting(self, now_ns: int) -> Waiting:
        return Waiting(
            self.tenant,
            self.priority,
            self.shape,
            self.public_ids,
            self.size,
            now_ns,
            seconds=self.seconds,
            gang=self.gang,
            reservation=self.reservation,
            preemptible=self.preemptible,
            guessed=self.guessed,
        )

    def queued(self, now_ns: int) -> list[Queued]:
        """What enters the queue: the jobs, and the rest of an array as one entry."""
        key = self.key
        found = [Queued(job, key, now_ns, self.gang, self.user_id) for job in self.public_ids]
        if self.array_id is not None and (left := self.size - len(self.public_ids)):
            rest = Rest(self.array_id, self.size, self.size - left)
            found.append(Queued(self.array_id, key, now_ns, None, self.user_id, rest))
        return found


def check(
    body: JobIn, principal: Principal, tenant: TenantRef, run_as: RunAs | None, mirror: Mirror, now_ns: int
) -> Submission:
    """The submission, or the refusal with its numbers. Writes nothing."""
    view = mirror.snapshot()
    shape = check_shape(body.shape, view.cards)
    group, parts = _parts(body, shape, view.cards)
    check_level(shape, view.cards)
    _check_together(body)
    _check_fenced(body, parts)
    at_once = 1 if body.array is not None else parts[-1].first + parts[-1].count
    public_ids = tuple(new_id("j") for _ in range(at_once))
    gang = None if group is None else Gang(new_id("g"), group, public_ids)
    refuse(_judge(body, shape, gang, tenant.name, view))
    if body.reservation is not None:
        mirror.check_reservation(body.reservation, tenant.name)
    made = None if body.name else partial(_name_from, parts[0].command[0], public_ids[0])
    name = made(SHORT) if made else check_name(body.name or "", "job name")
    many = body.array is not None or group is not None
    checked = Submission(
        tenant_id=tenant.id,
        tenant=tenant.name,
        project=check_name(body.project, "project") if body.project else DEFAULT_PROJECT,
        user_id=principal.user_id,
        parts=parts,
        priority=check_priority(body.priority, principal),
        max_seconds=body.max_seconds,
        seconds=mirror.seconds(tenant.name, name, parts[0].shape, body.max_seconds),
        names=tuple(f"{name}.{n}" for n in range(at_once)) if many else (name,),
        array=name if many else None,
        public_ids=public_ids,
        attached=body.attached,
        launch=_launch(body, run_as, parts),
        preemptible=body.preemptible,
        requeue=body.requeue,
        reservation=body.reservation,
        gang=gang,
        array_id=None if body.array is None else new_id(ARRAY),
        spare_name=made(LONG) if made else None,
    )
    _check_reach(checked, view, now_ns)
    return checked


def _check_reach(submission: Submission, view: Snapshot, now_ns: int) -> None:
    """Refuse what would wait for an admin and not for jobs to end. Raises GuaranteedToOthers."""
    found = refused_by_quotas(view, submission.waiting(now_ns), now_ns)
    if found is not None:
        ways = [wording_reach.resubmit(found.options)] if found.options else []
        raise GuaranteedToOthers(found.sentence, hint="; ".join((*ways, wording_reach.ADMIN)))


def _judge(body: JobIn, shape: Shape, gang: Gang | None, tenant: str, view: Snapshot) -> Rejection | None:
    """Why it can never be placed, or None."""
    mine, cards = view.tenants[tenant], view.cards
    if gang is not None:
        return judge_gang(gang, mine, cards, tenant_name=tenant, cohorts=view.cohorts)
    typed = body.shape.memory_typed
    return judge(shape, mine, cards, tenant_name=tenant, cohorts=view.cohorts, memory_typed=typed)


def _check_together(body: JobIn) -> None:
    """Options that exclude each other."""
    what = "an array" if body.array is not None else "a gang" if body.gang is not None else None
    if body.array is not None and body.gang is not None:
        raise BadOption("an array of gangs cannot be submitted", hint="submit the gang as often as it is wanted")
    if what and body.attached:
        raise BadOption(f"{what} cannot be attached to a terminal", hint="use  gpupool submit")
    if what and not body.wait:
        raise BadOption(f"--no-wait is for one job, not for {what}", hint="leave out --no-wait")
    if body.attached and (body.preemptible or body.requeue):
        raise BadOption(
            "a job that is attached to a terminal cannot be started again elsewhere",
            hint="use  gpupool submit --preemptible, and gpupool logs -f",
        )


def _check_fenced(body: JobIn, parts: Sequence[Part]) -> None:
    if not body.fence and (cut := next((part.shape.profile for part in parts if part.shape.profile), None)):
        raise BadOption(f"a partition ({cut}) is never handed out unfenced", hint="leave out --no-fence")


def _parts(body: JobIn, shape: Shape, cards: Cards) -> tuple[Group | None, tuple[Part, ...]]:
    if body.gang is None:
        return None, (Part(shape, body.launch.argv, 0, body.array or 1),)
    group, asked = gang_rows.check_gang(body.gang, partial(check_shape, cards=cards), shape)
    parts, first = list[Part](), 0
    for role, wanted in zip(group.roles(), asked, strict=True):
        parts.append(Part(role.shape, wanted.argv or body.launch.argv, first, role.desired, role))
        first += role.desired
    return group, tuple(parts)


def _launch(body: JobIn, run_as: RunAs | None, parts: Sequence[Part]) -> dict[str, Any]:
    launch = body.launch.model_dump()
    words = [word for part in parts for word in part.command]
    for text in (*words, body.launch.cwd, *body.launch.env, *body.launch.env.values()):
        if "\0" in text:
            raise BadInput("a command or its environment holds a NUL character", hint="no program could be given it")
    if any("=" in name for name in body.launch.env):
        raise BadInput("an environment variable's name holds '='", hint="rename the variable")
    return {**launch, "fence": body.fence, "run_as": run_as.model_dump() if run_as else None}


def with_limits(body: JobIn, most: JobLimits, own: Mapping[str, Pair] | None) -> JobIn:
    """The submission with limits that neither its sender nor the administrator forbids. `own`: the sender's, by the
    kernel.
    """
    granted = most.granted(body.launch.limits, own)
    return body.model_copy(update={"launch": body.launch.model_copy(update={"limits": granted})})


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
    if rejection is not None and not rejection.fits_ever:
        refuse_any(rejection)


def refuse_any(rejection: Rejection | None) -> None:
    """Raise the public error of any refusal; None passes."""
    if rejection is None:
        return
    numbers = {str(reason): count for reason, count in rejection.cards.items()}
    hint = rejection.hint
    if rejection.nearest is not None:
        hint = (hint + "; " if hint else "") + f"fits now: {rejection.nearest}"
    error = _REFUSALS.get(rejection.dominant, Refused)
    raise error(rejection.sentence, hint=hint, cards=numbers)


def _name_from(command: str, public_id: str, letters: int) -> str:
    """A name from the command's file name and the end of the id: `python-x7q2`."""
    base = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in command.rsplit("/", 1)[-1])
    return check_name(f"{base.strip('._-')[:50] or 'job'}-{public_id[-letters:]}")
