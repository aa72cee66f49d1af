"""List what to try on a pool's history: other policies, and other quotas of tenants that waited.

Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gpupool.base.units import WHOLE, format_gpu
from gpupool.model.quota import UNLIMITED, Quota
from gpupool.simulation.traces.trace import WorkloadTrace

POLICIES = ("default", "fgd", "binpack", "best-fit", "gpu-packing")
#: Tenants whose quota is changed, those that waited most first: each costs up to three replays.
_TENANTS = 3

#: How much more guaranteed compute is tried, in percent of the quota, and at least one card.
_MORE_PCT = 25


@dataclass(frozen=True)
class TriedChange:
    """One change, in words and as it is made."""

    words: str
    policy: str
    quotas: Mapping[str, Quota]


@dataclass(frozen=True)
class ReplaySummary:
    """Waits by job (gangs once); a job that never started has waited as long as the replay lasted."""

    waits_ns: Mapping[str, int]
    submitted_ns: Mapping[str, int]
    tenant: Mapping[str, str]
    #: By tenant, the mean while work came.
    held_milli: Mapping[str, int]
    unstarted: int
    evictions: int


def list_policy_changes(
    policy: str, policies: Sequence[str], trace: WorkloadTrace
) -> Iterator[TriedChange]:
    """Yield every policy but the pool's own."""
    for name in dict.fromkeys(policies):
        if name != policy:
            yield TriedChange(f"policy {name}", name, trace.quotas)


def list_quota_changes(
    trace: WorkloadTrace, policy: str, before: ReplaySummary, wanted: Mapping[str, int]
) -> Iterator[TriedChange]:
    """Yield the quotas that the user names, then more for the tenants that waited most.

    More is borrowed, guaranteed, or taken from the tenant that leaves most of its quota unused.
    """
    for name, milli in wanted.items():
        quota = trace.quotas.get(name, UNLIMITED)
        borrowing = 0 if quota.nominal_milli is None else quota.borrowing_milli
        quota = replace(quota, nominal_milli=milli, borrowing_milli=borrowing)
        yield TriedChange(
            f"{name}: {format_gpu(milli)} GPU guaranteed", policy, {**trace.quotas, name: quota}
        )
    for name in _rank_by_waits(trace, before)[:_TENANTS]:
        quota = trace.quotas[name]
        if quota.borrowing_milli is not None:
            free = replace(quota, borrowing_milli=None)
            yield TriedChange(
                f"{name}: may borrow without limit", policy, {**trace.quotas, name: free}
            )
        yield from _list_guarantee_changes(trace, policy, before, name)


def _list_guarantee_changes(
    trace: WorkloadTrace, policy: str, before: ReplaySummary, name: str
) -> Iterator[TriedChange]:
    quota = trace.quotas[name]
    assert quota.nominal_milli is not None
    more = max(WHOLE, quota.nominal_milli * _MORE_PCT // 100)
    words = f"{name}: {format_gpu(quota.nominal_milli)} -> {format_gpu(quota.nominal_milli + more)} GPU guaranteed"
    raised = replace(quota, nominal_milli=quota.nominal_milli + more)
    yield TriedChange(words, policy, {**trace.quotas, name: raised})
    idle: dict[str, int] = {}
    for other, limits in trace.quotas.items():
        if other != name:
            idle[other] = (limits.nominal_milli or 0) - before.held_milli.get(other, 0)
    giver = max(idle, key=lambda other: (idle[other], other), default=None)
    # Only from a tenant that left as much unused: a change that takes used cards would only move
    # the waits.
    if giver is not None and idle[giver] > more:
        nominal_milli = (trace.quotas[giver].nominal_milli or 0) - more
        less = replace(trace.quotas[giver], nominal_milli=nominal_milli)
        yield TriedChange(
            f"{words}, taken from {giver}", policy, {**trace.quotas, name: raised, giver: less}
        )


def _rank_by_waits(trace: WorkloadTrace, before: ReplaySummary) -> list[str]:
    """List tenants with a guaranteed part whose jobs waited, the longest sum of waits first."""
    waits: Counter[str] = Counter()
    for job, wait in before.waits_ns.items():
        waits[before.tenant[job]] += wait
    limited: list[str] = []
    for name, quota in trace.quotas.items():
        # Without a guaranteed part a tenant's quota never made its jobs wait.
        if quota.nominal_milli is not None and waits[name]:
            limited.append(name)
    return sorted(limited, key=lambda name: (-waits[name], name))
