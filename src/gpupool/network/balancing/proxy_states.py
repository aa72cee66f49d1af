"""What agents last reported of proxies. Kept in memory: a new server learns it within seconds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from gpupool.base.errors import NetworkingUnavailable
from gpupool.wire.network.load_balancers import ProxyMachineOut
from gpupool.wire.network.networks import ProxyReport, ProxyServerReport


@dataclass(frozen=True)
class ReportedProxy:
    """The last report of a proxy.

    Attributes:
        number: a later report has a larger one.
        is_silent: whether its agent has missed its heartbeats since.
    """

    node: str
    report: ProxyReport
    number: int
    is_silent: bool


class ProxyStates:
    """The last reports of proxies. Thread-safe."""

    def __init__(self, is_silent: Callable[[str], bool] = lambda _agent: False) -> None:
        """Make the object, without reports.

        Args:
            is_silent: whether an agent has missed its heartbeats.
        """
        self._is_silent = is_silent
        self._lock = threading.Lock()
        self._reports = dict[str, tuple[str, ProxyReport, int]]()
        self._missing = dict[str, str]()
        self._count = 0

    def replace(self, agent: str, reports: Iterable[ProxyReport], missing: str) -> frozenset[str]:
        """Replace all reports of an agent, and return the proxies that serve now and stood by before.

        Args:
            missing: what the agent's machine lacks for proxies; empty: nothing.
        """
        with self._lock:
            before = {key for key, (_, one, _) in self._reports.items() if not one.is_serving}
            self._count += 1
            self._forget(agent)
            serving = set[str]()
            for report in reports:
                self._reports[report.id] = (agent, report, self._count)
                if report.is_serving:
                    serving.add(report.id)
            if missing:
                self._missing[agent] = missing
        return frozenset(serving & before)

    def forget(self, agent: str) -> None:
        """Forget a machine that runs no proxies any more. Idempotent."""
        with self._lock:
            self._forget(agent)

    def find(self, proxy: str) -> ReportedProxy | None:
        """Find the last report of a proxy; None where there is none."""
        with self._lock:
            found = self._reports.get(proxy)
        if found is None:
            return None
        agent, report, number = found
        return ReportedProxy(agent, report, number, self._is_silent(agent))

    def require_programs(self) -> None:
        """Raise NetworkingUnavailable where a machine cannot run proxies."""
        with self._lock:
            missing = sorted(self._missing.items())
        # A machine that is gone says nothing more, also not that it has no gateways any more.
        present = [one for one in missing if not self._is_silent(one[0])]
        if present:
            agent, program = present[0]
            raise NetworkingUnavailable(
                f"load balancers of HTTP need HAProxy, and {agent} has no {program}",
                hint="an admin installs it: apt-get install --no-install-recommends haproxy",
            )

    def _forget(self, agent: str) -> None:
        self._missing.pop(agent, None)
        for key, (owner, _, _) in list(self._reports.items()):
            if owner == agent:
                del self._reports[key]


def find_serving(proxies: Sequence[ReportedProxy | None]) -> ReportedProxy | None:
    """Find the proxy of a load balancer that answers; the first that has a report where none says so.

    Of two that say so the later one does: a machine that died said it before.
    """
    known = [one for one in proxies if one is not None]
    serving = [one for one in known if one.report.is_serving]
    return max(serving, key=lambda one: one.number) if serving else next(iter(known), None)


def describe_machines(proxies: Sequence[ReportedProxy | None]) -> list[ProxyMachineOut]:
    """Describe the machines with the proxies of a load balancer, those that have reported."""
    serving = find_serving(proxies)
    found = list[ProxyMachineOut]()
    for one in proxies:
        if one is None:
            continue
        report = one.report
        found.append(
            ProxyMachineOut(
                node=one.node,
                role="serving" if one is serving and report.is_serving else "standby",
                state="silent" if one.is_silent else report.state,
                reason="its agent does not answer" if one.is_silent else report.reason,
                sessions=0 if one.is_silent else sum(each.sessions for each in report.servers),
            )
        )
    return found


def find_server(report: ProxyReport, port: str) -> ProxyServerReport | None:
    """Find what a report says of the port of a job."""
    return next((one for one in report.servers if one.id == port), None)
