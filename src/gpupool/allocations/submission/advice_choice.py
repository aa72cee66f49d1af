"""Lets an advice policy choose a smaller share for a submission. What it may not change is left.

The package that knows policies sets the choice; here it is only asked for.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from gpupool.allocations.store.advice_rows import APPLIED, EXACT, AdvisedShare
from gpupool.allocations.submission.submission import Submission
from gpupool.base.errors import GpupoolError
from gpupool.model.claim import SharingKind
from gpupool.model.tenant import Principal
from gpupool.wire.submissions import JobIn

#: Chooses a share for a checked submission; None: what it asks for.
AdviceChoice = Callable[[Submission, Principal], AdvisedShare | None]

#: Kinds of shares whose limits a fence sets for each job alone.
_KINDS = frozenset({SharingKind.FIXED, SharingKind.BURST})

log = logging.getLogger(__name__)


def choose_nothing(_submission: Submission, _principal: Principal) -> None:
    """Choose what is asked for: no package with policies is there."""


def check_with_advice(
    body: JobIn,
    principal: Principal,
    choose: AdviceChoice,
    check: Callable[[JobIn], Submission],
) -> Submission:
    """Check a request with the share that a policy gives it; else as it was asked.

    Args:
        body: The request.
        principal: The caller.
        choose: Chooses the share.
        check: Checks a request and builds its submission.

    Raises:
        GpupoolError: The request as it was asked cannot be accepted.
    """
    submission = check(body)
    if not can_change(body, submission):
        return submission
    if body.exact:
        shape = submission.shape
        size = (shape.gpu_milli, shape.memory_bytes)
        return replace(submission, advice=AdvisedShare("", EXACT, *size, *size))
    advised = choose(submission, principal)
    if advised is None or advised.state != APPLIED:
        return replace(submission, advice=advised)
    given = {"gpu_milli": advised.gpu_milli, "memory_bytes": advised.memory_bytes}
    smaller = body.shape.model_copy(update={**given, "memory_typed": None})
    try:
        changed = check(body.model_copy(update={"shape": smaller}))
    except GpupoolError as error:
        # A whole card may be what makes a request possible at all, as with an isolation.
        log.info("advice of %s is not applied: %s", advised.policy, error)
        return submission
    return replace(changed, advice=advised)


def can_change(body: JobIn, submission: Submission) -> bool:
    """Whether a policy may change a request: shares with a fence, and no member of a gang."""
    shape = submission.shape
    return (
        shape.count > 0
        and shape.profile is None
        and shape.memory_milli is None
        and shape.sharing in _KINDS
        and body.fence
        and submission.gang is None
        and body.launch.vm is None
        # Main memory is reserved for the requested card memory, so it could not grow again.
        and body.idle_seconds is None
    )
