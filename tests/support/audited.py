"""The audit of GPU time over a scenario of virtual time."""

from __future__ import annotations

from collections.abc import Sequence

from gpupool.audit.time_audit import TimeAudit
from gpupool.mechanisms.regions import DeviceLimit
from tests.support.compute import Outcome, Tenant


def found_in(
    outcome: Outcome, tenant: Tenant, look_ms: int = 400, away_ms: Sequence[tuple[int, int]] = ()
) -> list[str]:
    """What the audit finds of one tenant, with a look at the card and the arbiter each
    `look_ms`. From and until when there was no arbiter is `away_ms`: it has none to ask then, and
    the next one is another arbiter to it."""
    audit = TimeAudit()
    limit = DeviceLimit("GPU-0", 1, 1, gpu_milli=round(tenant.share * 1000), sharing=tenant.sharing)
    used, said = outcome.used_ns[tenant.name], outcome.said[tenant.name]
    found: list[str] = []
    for at in range(0, len(used), look_ms // outcome.sample_ms):
        at_ms = at * outcome.sample_ms
        if any(since <= at_ms <= until for since, until in away_ms):
            continue
        arbiter = sum(until < at_ms for _, until in away_ms)
        text = audit.add_look(limit, {1: used[at]}, said[at], (1 + at_ms) * 10**6, mark=arbiter)
        found += [text] if text else []
    return found
