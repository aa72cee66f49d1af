"""Verifies networks on this machine: makes ports to probe with, probes, and removes them again.

What an agent that was killed left of it is removed by the next one, as ports of unknown jobs are.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from gpupool.agent.network.daemons import EngineFiles
from gpupool.agent.network.namespaces import JobNamespaces, name_interface
from gpupool.agent.network.switch_ports import SwitchPorts
from gpupool.agent.network.verification.isolation import check_isolation
from gpupool.agent.network.verification.path_checks import check_gateways, check_limits, check_names
from gpupool.base.errors import NetworkingUnavailable
from gpupool.network.northbound import name_port
from gpupool.wire.network.networks import PortWork
from gpupool.wire.network.promises import (
    LimitMeasurement,
    NetworkCheck,
    NetworkVerificationReport,
    NetworkVerificationWork,
    ProbePort,
)

#: Seconds in which the engine serves a new port.
_PORT_SECONDS: Final = 10.0

log = logging.getLogger(__name__)


class NetworkVerifier:
    """Runs verifications on one engine. One thread at a time."""

    def __init__(self, files: EngineFiles) -> None:
        self._files = files
        self._namespaces = JobNamespaces(files)

    def run(self, work: NetworkVerificationWork) -> NetworkVerificationReport:
        """Verify. Raises nothing that a check can say: it is not tested then, with the reason."""
        checks = list[NetworkCheck]()
        measurements = list[LimitMeasurement]()
        present = set(self._namespaces.list_ports())
        jobs = [port for port in work.jobs if port.key in present]
        places = {port.key: self._namespaces.locate(port.key) for port in jobs}
        checks += _try("isolation", lambda: self._check_isolation(work, jobs, places))
        checks += _try("dns", lambda: check_names(jobs, places))
        checks += _try("gateway", lambda: check_gateways(work.gateways))

        def measure() -> Iterator[NetworkCheck]:
            for check, found in check_limits(jobs, places):
                if found is not None:
                    measurements.append(found)
                yield check

        checks += _try("limit", lambda: list(measure()))
        return NetworkVerificationReport(id=work.id, checks=checks, measurements=measurements)

    def _check_isolation(
        self, work: NetworkVerificationWork, jobs: list[ProbePort], places: dict[str, Path]
    ) -> list[NetworkCheck]:
        made = (work.sender, work.control, work.outsider)
        ports = SwitchPorts(self._files.remote("switch"))
        try:
            for port in made:
                network = self._namespaces.create(_make_work(port))
                ports.add(network.interface, name_port(port.key), _PORT_SECONDS)
            mine = {port.key: self._namespaces.locate(port.key) for port in made}
            return check_isolation(
                work.sender, work.control, [work.outsider, *jobs], {**places, **mine}
            )
        finally:
            for port in made:
                ports.remove(name_interface(port.key))
                self._namespaces.remove(port.key)
            ports.close()


def _try(name: str, check: Callable[[], list[NetworkCheck]]) -> list[NetworkCheck]:
    try:
        return check()
    except (NetworkingUnavailable, OSError) as error:
        # A job may have ended meanwhile.
        log.warning("the check of %s did not run: %s", name, error)
        return [NetworkCheck(name=name, kept=None, reason=str(error)[:400])]


def _make_work(port: ProbePort) -> PortWork:
    return PortWork(
        id=port.key,
        network=port.network,
        address=port.address,
        prefix=port.prefix,
        gateway=port.gateway,
        mac=port.mac,
        mtu=port.mtu,
        domain=port.domain,
        dns_name=port.name,
    )
