"""What `explain` says to a waiting claim of the idle jobs that could give way to it."""

from __future__ import annotations

from gpupool.base.units import format_mib, format_share
from gpupool.scheduling.idle_suspension.factor import FactorShortage
from gpupool.scheduling.idle_suspension.kept_cards import KeptCard


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


def describe_kept(kept: KeptCard, card: str) -> str:
    """Say what a card keeps for suspended jobs, on which the claim would start otherwise."""
    parts = list[str]()
    if kept.woken_jobs:
        verb = "wants" if kept.woken_jobs == 1 else "want"
        parts.append(
            f"{format_share(kept.woken_milli, kept.woken_bytes)} for "
            f"{_count_jobs(kept.woken_jobs, 'suspended ')} that {verb} to work again"
        )
    if kept.kept_bytes:
        parts.append(
            f"{format_mib(kept.kept_bytes)} of the {format_mib(kept.asleep_bytes)} that idle jobs "
            f"have there while they run: with the pool's factor {kept.factor_text} running and "
            f"idle-suspended shares have at most {format_mib(kept.limit_bytes)} together "
            "(GPUPOOL_SUSPEND_FACTOR)"
        )
    return f"would start on {card}, which keeps {', and '.join(parts)}"


def _count_jobs(count: int, kind: str = "") -> str:
    return f"{count} {kind}job{'' if count == 1 else 's'}"


def _be(count: int) -> str:
    return "is" if count == 1 else "are"
