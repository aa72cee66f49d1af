"""Cuts reports of networks to what a server takes, and counts what is left out. Pure.

A server refuses a longer report as a whole, with the state of the engine in it, and would refuse
the next one too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gpupool.wire.network.engine import MOST_PROXIES, NetworkEngineReport
from gpupool.wire.network.networks import MOST_SERVERS, ProxyReport, ProxyServerReport
from gpupool.wire.network.promises import MOST_CHECKS, NetworkCheck


def fit_checks(checks: Sequence[NetworkCheck]) -> list[NetworkCheck]:
    """Return checks that one report takes, broken promises first, and a check with the counts of
    the others.
    """
    if len(checks) <= MOST_CHECKS:
        return list(checks)
    ordered = [one for one in checks if one.kept is False]
    ordered += [one for one in checks if one.kept]
    ordered += [one for one in checks if one.kept is None]
    # One place is for the counts.
    left = Counter(one.kept for one in ordered[MOST_CHECKS - 1 :])
    reason = (
        f"{left.total()} more checks are left out: {left[False]} broken, {left[True]} kept,"
        f" {left[None]} not tested; name one network"
    )
    counts = NetworkCheck(name="checks", kept=None, reason=reason)
    return [*ordered[: MOST_CHECKS - 1], counts]


def make_proxy_report(key: str, servers: Sequence[ProxyServerReport]) -> ProxyReport:
    """Return the report of a proxy that is ready, with the jobs behind it that it takes."""
    named = servers
    reason = ""
    if len(servers) > MOST_SERVERS:
        # What is up is what its owner expects.
        named = sorted(servers, key=lambda one: one.state == "up")[:MOST_SERVERS]
        reason = f"{len(servers) - MOST_SERVERS} of {len(servers)} jobs behind it are not named"
    return ProxyReport(id=key, state="ready", reason=reason, servers=list(named))


def fit_report(report: NetworkEngineReport) -> NetworkEngineReport:
    """Return the report with as many proxies as a server takes, those that serve first."""
    left = len(report.proxies) - MOST_PROXIES
    if left <= 0:
        return report
    proxies = sorted(report.proxies, key=lambda one: not one.is_serving)[:MOST_PROXIES]
    counted = f"{left} of {len(report.proxies)} load balancers of HTTP are not reported"
    reason = "; ".join(filter(None, (report.reason, counted)))
    return report.model_copy(update={"proxies": proxies, "reason": reason[:400]})
