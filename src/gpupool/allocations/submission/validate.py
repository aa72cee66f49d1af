"""Checks a submission completely before anything is written."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from gpupool.allocations.arrays.references import KIND as ARRAY
from gpupool.allocations.cache.ledger_cache import LedgerCache
from gpupool.allocations.cache.reservations import require_reservation
from gpupool.allocations.store import gangs as gang_rows
from gpupool.allocations.submission.shapes import check_cards, check_level
from gpupool.allocations.submission.sharing_choice import check_sharing, make_part_check
from gpupool.allocations.submission.submission import Submission, SubmissionPart
from gpupool.base.errors import (
    BadInput,
    BadOption,
    BeyondQuota,
    ContainerNotAllowed,
    GangTooLarge,
    GpupoolError,
    GuaranteedToOthers,
    IsolationNotOffered,
    LargerThanAnyCard,
    NoPermission,
    RequestRejection,
    TooManyCards,
    UnknownModel,
    UnknownProfile,
    VmRejection,
)
from gpupool.base.ids import check_name, new_id
from gpupool.model.chains.retry import RetryRule
from gpupool.model.claim import NETWORK_LABEL, PRIORITIES, Rejection, RejectionReason, Shape
from gpupool.model.container import ContainerPolicy
from gpupool.model.gang import Gang, GangGroup
from gpupool.model.isolation.claim_needs import IsolationKind
from gpupool.model.job_limits import JobLimits, Pair
from gpupool.model.tenant import DEFAULT_PROJECT, Permission, Principal
from gpupool.scheduling import (
    ADMIN_HINT,
    Snapshot,
    find_quota_obstacle,
    format_resubmission,
    judge_claim,
    judge_gang,
)
from gpupool.tenancy.tenants import TenantRef
from gpupool.wire.fleet import RunAs
from gpupool.wire.submissions import JobIn, ShapeIn

_REFUSALS: Mapping[RejectionReason, type[BadInput] | type[RequestRejection]] = {
    RejectionReason.MODEL: UnknownModel,
    RejectionReason.VENDOR: UnknownModel,
    RejectionReason.PROFILE: UnknownProfile,
    RejectionReason.ISOLATION: IsolationNotOffered,
    RejectionReason.QUOTA: BeyondQuota,
    RejectionReason.TOO_FEW_CARDS: TooManyCards,
    RejectionReason.CARD_TOO_SMALL: LargerThanAnyCard,
    RejectionReason.GANG: GangTooLarge,
    RejectionReason.TOPOLOGY: GangTooLarge,
}

#: Refusals of what this pool can never place, whatever ends: others are about how it is asked for.
IMPOSSIBLE: tuple[type[GpupoolError], ...] = (*set(_REFUSALS.values()), GuaranteedToOthers)

#: Letters of a job's id in a generated name: few enough to read and to type.
SHORT = 4
#: Letters of a job's id in a generated name that no other job can have. All ten would make an id of
#: the name where the command is one letter.
LONG = 9
#: A priority as a number. One of a thousand digits is refused anyway and takes long to read.
_NUMBER = re.compile(r"[+-]?[0-9]{1,20}")
#: Characters of a command that a job's name may not have.
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]")


def check_submission(
    body: JobIn,
    principal: Principal,
    tenant: TenantRef,
    run_as: RunAs | None,
    cache: LedgerCache,
    now_ns: int,
    *,
    in_network: bool = False,
) -> Submission:
    """Check the request and build the submission. Writes nothing.

    Args:
        body: The request, with limits applied.
        principal: The caller.
        tenant: The tenant that the jobs belong to.
        run_as: The local user that starts the command; None for the agent's own.
        cache: The cache of the ledger.
        now_ns: The ledger's time.
        in_network: Whether its jobs join a network, so that they run where its engine is ready.

    Raises:
        GpupoolError: The rejection with its numbers.
    """
    view = cache.build_snapshot()
    check_part = make_part_check(body, view, tenant.name, run_as)
    if in_network:
        check_part = partial(_require_engine, check_part)
    shape = check_part(body.shape)
    group, parts = _build_parts(body, shape, check_part)
    check_level(shape, view.cards)
    _check_exclusive_options(body)
    _check_fence_option(body, parts)
    check_sharing(body, parts)
    _check_vm(body, shape)
    check_cards(body, parts)
    at_once = 1 if body.array is not None else parts[-1].first + parts[-1].count
    public_ids = tuple(new_id("j") for _ in range(at_once))
    # Judged before anything is written: what this pool can never place is refused at once.
    gang = None if group is None else Gang(new_id("g"), group, public_ids)
    refuse_if_impossible(_judge_claim(body, shape, gang, tenant.name, view))
    if body.reservation is not None:
        require_reservation(cache.list_reservations(), body.reservation, tenant.name, now_ns)
    made = None if body.name else partial(_build_name, parts[0].command[0], public_ids[0])
    name = made(SHORT) if made else check_name(body.name or "", "job name")
    many = body.array is not None or group is not None
    checked = Submission(
        tenant_id=tenant.id,
        tenant=tenant.name,
        project=_choose_project(body.project, principal, tenant.name),
        user_id=principal.user_id,
        parts=parts,
        priority=check_priority(body.priority, principal),
        max_seconds=body.max_seconds,
        seconds=cache.estimate_seconds(tenant.name, name, parts[0].shape, body.max_seconds),
        names=tuple(f"{name}.{n}" for n in range(at_once)) if many else (name,),
        array=name if many else None,
        public_ids=public_ids,
        attached=body.attached,
        launch=_check_launch(body, run_as, parts),
        preemptible=body.preemptible,
        requeue=body.requeue,
        idle_seconds=body.idle_seconds,
        retry=RetryRule(body.retries, body.retry_first_seconds, body.retry_most_seconds),
        reservation=body.reservation,
        gang=gang,
        array_id=None if body.array is None else new_id(ARRAY),
        spare_name=made(LONG) if made else None,
    )
    _check_reach(checked, view, now_ns)
    return checked


def _require_engine(check: Callable[[ShapeIn], Shape], asked: ShapeIn) -> Shape:
    """Check a part of a claim whose jobs run only on nodes with an engine of networks."""
    shape = check(asked)
    return replace(shape, labels=tuple(sorted((*shape.labels, NETWORK_LABEL))))


def _check_reach(submission: Submission, view: Snapshot, now_ns: int) -> None:
    """Raise GuaranteedToOthers for what would wait for an admin and not for jobs to end."""
    found = find_quota_obstacle(view, submission.build_waiting_class(now_ns), now_ns)
    if found is not None:
        ways = [format_resubmission(found.options)] if found.options else []
        raise GuaranteedToOthers(found.sentence, hint="; ".join((*ways, ADMIN_HINT)))


def _judge_claim(
    body: JobIn, shape: Shape, gang: Gang | None, tenant: str, view: Snapshot
) -> Rejection | None:
    """Return why the claim can never be placed; None if it can."""
    mine = view.tenants[tenant]
    cards = view.cards
    if gang is not None:
        return judge_gang(gang, mine, cards, tenant_name=tenant, cohorts=view.cohorts)
    typed = body.shape.memory_typed
    return judge_claim(
        shape, mine, cards, tenant_name=tenant, cohorts=view.cohorts, memory_typed=typed
    )


def _check_exclusive_options(body: JobIn) -> None:
    """Raise BadOption for options that exclude each other."""
    what = "an array" if body.array is not None else "a gang" if body.gang is not None else None
    if body.array is not None and body.gang is not None:
        raise BadOption(
            "an array of gangs cannot be submitted", hint="submit the gang as often as it is wanted"
        )
    if what and body.attached:
        raise BadOption(f"{what} cannot be attached to a terminal", hint="use  gpupool submit")
    if what and not body.wait:
        raise BadOption(f"--no-wait is for one job, not for {what}", hint="leave out --no-wait")
    if body.attached and (body.preemptible or body.requeue or body.retries):
        raise BadOption(
            "a job that is attached to a terminal cannot be started again elsewhere",
            hint="use  gpupool submit --preemptible, and gpupool logs -f",
        )


def _check_fence_option(body: JobIn, parts: Sequence[SubmissionPart]) -> None:
    if body.fence:
        return
    for part in parts:
        profile = part.shape.profile
        if profile:
            raise BadOption(
                f"a partition ({profile}) is never handed out unfenced",
                hint="leave out --no-fence",
            )
        isolation = part.shape.needs.isolation
        if isolation not in (None, IsolationKind.NONE):
            raise BadOption(f"--isolation {isolation} without a fence", hint="leave out --no-fence")


def _check_vm(body: JobIn, shape: Shape) -> None:
    """Raise VmRejection for a part of a card: a guest has its own driver, which knows no share."""
    has_whole_cards = shape.is_whole and shape.memory_bytes is None
    if body.launch.vm is None or has_whole_cards or shape.count == 0:
        return
    asked = f"the partition {shape.profile}" if shape.profile else str(shape)
    raise VmRejection(
        f"a VM takes whole cards; this asks for {asked}: the driver inside the guest has the card "
        "for itself, so no share of it can be enforced",
        hint="gpupool vm run --gpu 1, or a job in a share: gpupool submit --gpu 0.3",
    )


def _choose_project(named: str | None, principal: Principal, tenant: str) -> str:
    """Return the project named, else the caller's own one in its tenant, else the usual one."""
    if named:
        return check_name(named, "project")
    mine = principal.project if tenant == principal.tenant else None
    return mine or DEFAULT_PROJECT


def _build_parts(
    body: JobIn, shape: Shape, check_part: Callable[[ShapeIn], Shape]
) -> tuple[GangGroup | None, tuple[SubmissionPart, ...]]:
    if body.gang is None:
        return None, (SubmissionPart(shape, body.launch.argv, 0, body.array or 1),)
    group, asked = gang_rows.check_gang(body.gang, check_part, shape)
    parts = list[SubmissionPart]()
    first = 0
    for role, wanted in zip(group.iterate_roles(), asked, strict=True):
        parts.append(
            SubmissionPart(role.shape, wanted.argv or body.launch.argv, first, role.desired, role)
        )
        first += role.desired
    return group, tuple(parts)


def _check_launch(
    body: JobIn, run_as: RunAs | None, parts: Sequence[SubmissionPart]
) -> dict[str, Any]:
    launch = body.launch.model_dump(exclude_none=True)
    words = list[str]()
    for part in parts:
        words += part.command
    for text in (*words, body.launch.cwd, *body.launch.env, *body.launch.env.values()):
        if "\0" in text:
            raise BadInput(
                "a command or its environment holds a NUL character",
                hint="no program could be given it",
            )
    if any("=" in name for name in body.launch.env):
        raise BadInput("an environment variable's name holds '='", hint="rename the variable")
    return {**launch, "fence": body.fence, "run_as": run_as.model_dump() if run_as else None}


def check_container(body: JobIn, policy: ContainerPolicy) -> JobIn:
    """Return the request if the pool allows its image. Raises ContainerNotAllowed."""
    container = body.launch.container
    if container is None:
        return body
    refusal = policy.explain_image_refusal(container.image, container.pull)
    if refusal:
        raise ContainerNotAllowed(
            refusal, hint="an admin allows it: gpupool up --allow-image local --allow-image NAME"
        )
    return body


def apply_job_limits(body: JobIn, most: JobLimits, own: Mapping[str, Pair] | None) -> JobIn:
    """Return the request with limits that neither its sender nor the administrator forbids.

    Args:
        body: The request.
        most: The administrator's limits.
        own: The sender's own limits, as the kernel reports them; None if unknown.
    """
    granted = most.grant_limits(body.launch.limits, own)
    return body.model_copy(update={"launch": body.launch.model_copy(update={"limits": granted})})


def check_priority(asked: str | int, principal: Principal) -> int:
    """Return a priority from -1000 to 1000.

    Raises:
        BadOption: It is no priority.
        NoPermission: It is above normal, and the caller does not manage the tenant.
    """
    value = PRIORITIES.get(asked) if isinstance(asked, str) else asked
    if value is None and isinstance(asked, str) and _NUMBER.fullmatch(asked):
        value = int(asked)
    if value is None or not -1000 <= value <= 1000:
        raise BadOption(
            f"priority {asked!r} is unknown",
            hint="low, normal, high, or a number from -1000 to 1000",
        )
    if value > 0 and not principal.has_permission(Permission.MANAGE_TENANT):
        raise NoPermission(
            f"priority {asked} is above normal, which a {principal.role} may not ask for",
            hint="leave out --priority, or ask a tenant-admin",
        )
    return value


def refuse_if_impossible(rejection: Rejection | None) -> None:
    """Raise the error of a rejection that will never fit; other rejections and None pass."""
    if rejection is not None and not rejection.fits_ever:
        refuse_rejection(rejection)


def refuse_rejection(rejection: Rejection | None) -> None:
    """Raise the error of a rejection; None passes."""
    if rejection is None:
        return
    details: dict[str, Any] = {
        "cards": {str(reason): count for reason, count in rejection.cards.items()}
    }
    hint = rejection.hint
    if rejection.nearest is not None:
        details["nearest"] = str(rejection.nearest)
        hint = (hint + "; " if hint else "") + f"fits now: {rejection.nearest}"
    if rejection.gang is not None:
        details["gang"] = {"members": rejection.gang.members, "count": rejection.gang.count}
    error = _REFUSALS.get(rejection.dominant, RequestRejection)
    raise error("\n".join(rejection.lines) or rejection.sentence, hint=hint, **details)


def _build_name(command: str, public_id: str, letters: int) -> str:
    """Build a name from the command's file name and the end of the id: `python-x7q2`."""
    base = _NOT_IN_NAMES.sub("-", command.rsplit("/", 1)[-1])
    return check_name(f"{base.strip('._-')[:50] or 'job'}-{public_id[-letters:]}")
