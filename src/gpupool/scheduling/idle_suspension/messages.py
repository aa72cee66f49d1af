"""What `explain` says to a waiting claim of the idle jobs that could give way to it."""

from __future__ import annotations

from gpupool.base.units import format_mib
from gpupool.scheduling.idle_suspension.factor import FactorShortage


def describe_leaving(count: int) -> str:
    """Say that jobs are on their way to the host for the claim."""
    return f"starts after {_count_jobs(count, 'idle ')} {_be(count)} suspended: under way"


def describe_victims(count: int, busy: int) -> str:
    """Say how many jobs would have to be suspended; `busy` of them are not idle for long enough."""
    if not busy:
        return f"starts after {_count_jobs(count, 'idle ')} {_be(count)} suspended"
    return (
        f"would start after {_count_jobs(count)} {_be(count)} suspended that agreed to it; "
        f"{busy} of them {_be(busy)} not idle for long enough"
    )


def describe_shortage(shortage: FactorShortage, card: str) -> str:
    """Say which card would have too much memory lent."""
    together = shortage.running_bytes + shortage.suspended_bytes
    return (
        f"no idle job is suspended for it: {card} would have {format_mib(together)} in running and "
        f"idle-suspended shares, and the pool's factor {shortage.factor_text} allows "
        f"{format_mib(shortage.limit_bytes)} (GPUPOOL_SUSPEND_FACTOR)"
    )


def _count_jobs(count: int, kind: str = "") -> str:
    return f"{count} {kind}job{'' if count == 1 else 's'}"


def _be(count: int) -> str:
    return "is" if count == 1 else "are"
