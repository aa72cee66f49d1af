"""Messages for a claim that waits for a decision of a person and not for jobs to end."""

from __future__ import annotations

from collections.abc import Sequence

from gpupool.model.quota import Resource
from gpupool.scheduling.reasons.phrases import format_amount, format_amounts

WHOLE_NODES = "cannot start while the nodes that fit are kept whole for other tenants"
RESERVED = "cannot start while what is reserved leaves no time long enough for it"

ADMIN_HINT = "an admin can guarantee its tenant a part, or others less: gpupool quota"
NO_QUOTA = "it waits for an admin, not for jobs to end"


def describe_kept_by_others(
    title: str, resource: Resource, most: int, kept: int, more: int, *, preemptible: bool
) -> str:
    """Say that no end of a job would help, because others are guaranteed or do not lend the amount."""
    given, needs = format_amounts(resource, kept, more)
    if not kept:
        return f"cannot start while {title} may hold {format_amount(resource, most)} at most; this claim needs {needs}"
    how = "kept for others, which do not lend it" if preemptible else "guaranteed to others"
    claim = "this claim" if preemptible else "this claim, not preemptible,"
    return f"cannot start while {given} of {title}'s {format_amount(resource, most)} are {how}; {claim} needs {needs}"


def format_resubmission(options: Sequence[str]) -> str:
    """Suggest options with which the claim could start, and what they mean."""
    words = [f"{one} 1h" if one == "--max-time" else one for one in options]
    means = {
        "--preemptible": "then it may use what others are guaranteed, until they need it",
        "--max-time": "then it may run until what is reserved begins",
    }
    return f"submit it with {' '.join(words)}: " + " and ".join(means[one] for one in options)
