"""What the agent last reported of proxies. Kept in memory: a new server learns it within seconds."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from gpupool.base.errors import NetworkingUnavailable
from gpupool.wire.network.networks import ProxyReport


class ProxyStates:
    """The last reports of proxies. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reports = dict[str, ProxyReport]()
        self._missing = ""

    def replace(self, reports: Iterable[ProxyReport], missing: str) -> None:
        """Replace all reports.

        Args:
            missing: what the agent's machine lacks for proxies; empty: nothing.
        """
        found = {report.id: report for report in reports}
        with self._lock:
            self._reports = found
            self._missing = missing

    def get(self, proxy: str) -> ProxyReport | None:
        with self._lock:
            return self._reports.get(proxy)

    def require_programs(self) -> None:
        """Raise NetworkingUnavailable where the machine cannot run proxies."""
        with self._lock:
            missing = self._missing
        if missing:
            raise NetworkingUnavailable(
                f"load balancers of HTTP need HAProxy, and the pool's machine has no {missing}",
                hint="an admin installs it: apt-get install --no-install-recommends haproxy",
            )
