"""Rejections of claims for which there is capacity, but it is held for another claim."""

from __future__ import annotations

from gpupool.base.units import format_duration, format_instant
from gpupool.model.claim import Rejection, RejectionReason
from gpupool.scheduling.quota.promised_use import (
    PromisedUse,
)
from gpupool.scheduling.reasons import messages
from gpupool.scheduling.snapshot.claims import WaitingClass
from gpupool.scheduling.timeline.job_end_times import describe_owner
from gpupool.scheduling.timeline.timeline import Hold

_IN_TIME = "a --max-time that ends before then lets it start now"


def reject_for_hold(waiting: WaitingClass, hold: Hold, now_ns: int) -> Rejection:
    """Reject a claim that would overlap capacity held for another claim."""
    kept = f"what is free is kept for {describe_owner(hold.owner, waiting.tenant)}"
    if hold.collects:
        return Rejection(f"{kept}, whose start is not known", RejectionReason.RESERVED)
    if hold.start_ns <= now_ns:
        return Rejection(kept, RejectionReason.RESERVED)
    return Rejection(
        _describe_overlap(kept, waiting, hold.start_ns), RejectionReason.RESERVED, hint=_IN_TIME
    )


def reject_for_quota(waiting: WaitingClass, later: PromisedUse) -> Rejection:
    """Reject a claim that would use quota which a promised start will need."""
    kept = messages.describe_quota_kept(waiting.tenant)
    if later.collects:
        return Rejection(kept, RejectionReason.QUOTA)
    return Rejection(
        _describe_overlap(kept, waiting, later.start_ns), RejectionReason.QUOTA, hint=_IN_TIME
    )


def _describe_overlap(kept: str, waiting: WaitingClass, at_ns: int) -> str:
    run = (
        f"may run for {format_duration(waiting.seconds)}"
        if waiting.seconds is not None
        else "has no known end"
    )
    return f"{kept} from {format_instant(at_ns)} on, and this claim {run}"
