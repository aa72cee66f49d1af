"""Verifies networks on this machine: makes ports to probe with, probes, and removes them again.

What an agent that was killed left of it is removed by the next one, as ports of unknown jobs are.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from gpupool.agent.network.daemons import EngineFiles
from gpupool.agent.network.namespaces import JobNamespaces, name_interface
from gpupool.agent.network.report_limits import fit_checks
from gpupool.agent.network.switch_ports import SwitchPorts
from gpupool.agent.network.verification.balancers import check_balancers
from gpupool.agent.network.verification.gateway_limits import check_gateway_limits
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

    def __init__(self, files: EngineFiles, others: Sequence[EngineFiles] = ()) -> None:
        """Make the verifier.

        Args:
            files: of the engine that has the ports to probe with.
            others: of engines that may have the jobs that are verified.
        """
        self._files = files
        self._namespaces = JobNamespaces(files)
        self._others = [JobNamespaces(one) for one in others]

    def run(self, work: NetworkVerificationWork) -> NetworkVerificationReport:
        """Verify. Raises nothing that a check can say: it is not tested then, with the reason."""
        checks = list[NetworkCheck]()
        measurements = list[LimitMeasurement]()
        present = self._locate_all()
        jobs = [port for port in work.jobs if port.key in present]
        places = {port.key: present[port.key] for port in jobs}
        # The switch's database may be just starting again.
        checks += _try("isolation", lambda: self._check_with_probes(work, jobs, places))
        checks += _try("dns", lambda: check_names(jobs, places))
        checks += _try("gateway", lambda: check_gateways(work.gateways))

        def measure() -> Iterator[NetworkCheck]:
            gateways = check_gateway_limits(work.limited_gateways, jobs, places)
            for check, found in chain(check_limits(jobs, places), gateways):
                if found is not None:
                    measurements.append(found)
                yield check

        checks += _try("limit", lambda: list(measure()))
        return NetworkVerificationReport(
            id=work.id, checks=fit_checks(checks), measurements=measurements
        )

    def _check_with_probes(
        self, work: NetworkVerificationWork, jobs: list[ProbePort], places: dict[str, Path]
    ) -> list[NetworkCheck]:
        """Check what needs the ports that are made for the verification."""
        made = (work.sender, work.control, work.outsider)
        ports = SwitchPorts(self._files.remote("switch"))

        def check_all() -> list[NetworkCheck]:
            for port in made:
                network = self._namespaces.create(_make_work(port))
                ports.add(network.interface, name_port(port.key), _PORT_SECONDS)
            everywhere = {**self._locate_present(work), **places}
            everywhere |= {port.key: self._namespaces.locate(port.key) for port in made}
            outsiders = [work.outsider, *jobs]

            def check() -> list[NetworkCheck]:
                return check_isolation(work.sender, work.control, outsiders, everywhere)

            def balance() -> list[NetworkCheck]:
                return check_balancers(work.balancers, jobs, work.sender, everywhere)

            return [*_try("isolation", check), *_try("load-balancer", balance)]

        try:
            return _try("isolation", check_all)
        finally:
            for port in made:
                ports.remove(name_interface(port.key))
                self._namespaces.remove(port.key)
            ports.close()

    def _locate_present(self, work: NetworkVerificationWork) -> dict[str, Path]:
        """Locate what is behind load balancers and on this machine: jobs and proxies."""
        present = self._locate_all()
        keys = {one.key for balancer in work.balancers for one in balancer.backends}
        return {key: present[key] for key in keys & present.keys()}

    def _locate_all(self) -> dict[str, Path]:
        """Locate every port of this machine."""
        found = dict[str, Path]()
        for namespaces in (self._namespaces, *self._others):
            found |= {port: namespaces.locate(port) for port in namespaces.list_ports()}
        return found


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
        address6=port.address6,
        gateway6=port.gateway6,
    )
