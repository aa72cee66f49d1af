"""What is said to a claim for which there is room that it may not have: it is kept, now or from some instant on."""

from __future__ import annotations

from gpupool.base.units import format_duration, format_instant
from gpupool.model.claim import Reason, Rejection
from gpupool.scheduling import wording
from gpupool.scheduling.ends import whom
from gpupool.scheduling.quotas import Later
from gpupool.scheduling.snapshot import Waiting
from gpupool.scheduling.timeline import Hold

_IN_TIME = "a --max-time that ends before then lets it start now"


def kept_back(waiting: Waiting, hold: Hold, now_ns: int) -> Rejection:
    """Its run would meet what is held for somebody else."""
    kept = f"what is free is kept for {whom(hold.owner, waiting.tenant)}"
    if hold.start_ns <= now_ns:
        return Rejection(kept, Reason.RESERVED)
    return Rejection(_later(kept, waiting, hold.start_ns), Reason.RESERVED, hint=_IN_TIME)


def quota_kept_back(waiting: Waiting, later: Later) -> Rejection:
    """Its run would take of a quota what a promised start will need."""
    kept = wording.quota_kept(waiting.tenant)
    if later.collects:
        return Rejection(kept, Reason.QUOTA)
    return Rejection(_later(kept, waiting, later.start_ns), Reason.QUOTA, hint=_IN_TIME)


def _later(kept: str, waiting: Waiting, at_ns: int) -> str:
    run = f"may run for {format_duration(waiting.seconds)}" if waiting.seconds is not None else "has no known end"
    return f"{kept} from {format_instant(at_ns)} on, and this claim {run}"
