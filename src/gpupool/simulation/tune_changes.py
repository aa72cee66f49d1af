"""What to try on a pool's history: other policies, and other quotas of those who waited most. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gpupool.base.units import WHOLE, format_gpu
from gpupool.model.quota import UNLIMITED, Quota
from gpupool.simulation.trace import Trace

POLICIES = ("default", "fgd", "binpack", "best-fit", "gpu-packing")
_TENANTS = 3
"""So many of those who waited most have their quota changed."""

_MORE_PCT = 25


@dataclass(frozen=True)
class Tried:
    """One change, in words and as it is made."""

    words: str
    policy: str
    quotas: Mapping[str, Quota]


@dataclass(frozen=True)
class Lived:
    """What came of a replay: waits by job (gangs once), a job that never started as long as the replay lasted."""

    waits_ns: Mapping[str, int]
    submitted_ns: Mapping[str, int]
    tenant: Mapping[str, str]
    held_milli: Mapping[str, int]
    """By tenant, the mean while work came."""
    unstarted: int
    evictions: int


def other_policies(policy: str, policies: Sequence[str], trace: Trace) -> Iterator[Tried]:
    for name in dict.fromkeys(policies):
        if name != policy:
            yield Tried(f"policy {name}", name, trace.quotas)


def other_quotas(trace: Trace, policy: str, before: Lived, wanted: Mapping[str, int]) -> Iterator[Tried]:
    """What was asked for; then more for those who waited most, borrowed, guaranteed, or taken from who uses least."""
    for name, milli in wanted.items():
        quota = trace.quotas.get(name, UNLIMITED)
        borrowing = 0 if quota.nominal_milli is None else quota.borrowing_milli
        quota = replace(quota, nominal_milli=milli, borrowing_milli=borrowing)
        yield Tried(f"{name}: {format_gpu(milli)} GPU guaranteed", policy, {**trace.quotas, name: quota})
    for name in _waited_most(trace, before)[:_TENANTS]:
        quota = trace.quotas[name]
        if quota.borrowing_milli is not None:
            free = replace(quota, borrowing_milli=None)
            yield Tried(f"{name}: may borrow without limit", policy, {**trace.quotas, name: free})
        yield from _more_guaranteed(trace, policy, before, name)


def _more_guaranteed(trace: Trace, policy: str, before: Lived, name: str) -> Iterator[Tried]:
    quota = trace.quotas[name]
    assert quota.nominal_milli is not None
    more = max(WHOLE, quota.nominal_milli * _MORE_PCT // 100)
    words = f"{name}: {format_gpu(quota.nominal_milli)} -> {format_gpu(quota.nominal_milli + more)} GPU guaranteed"
    raised = replace(quota, nominal_milli=quota.nominal_milli + more)
    yield Tried(words, policy, {**trace.quotas, name: raised})
    idle = {one: (trace.quotas[one].nominal_milli or 0) - before.held_milli.get(one, 0) for one in trace.quotas}
    giver = max((one for one in idle if one != name), key=lambda one: (idle[one], one), default=None)
    if giver is not None and idle[giver] > more:
        less = replace(trace.quotas[giver], nominal_milli=(trace.quotas[giver].nominal_milli or 0) - more)
        taken = f"{words}, taken from {giver}"
        yield Tried(taken, policy, {**trace.quotas, name: raised, giver: less})


def _waited_most(trace: Trace, before: Lived) -> list[str]:
    """Tenants with a guaranteed part whose jobs waited, the longest sum of waits first."""
    waited: Counter[str] = Counter()
    for job, wait in before.waits_ns.items():
        waited[before.tenant[job]] += wait
    limited = [name for name, quota in trace.quotas.items() if quota.nominal_milli is not None and waited[name]]
    return sorted(limited, key=lambda name: (-waited[name], name))
