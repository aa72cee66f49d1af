"""Does a drill on the centre: probes from a network, moves the gateways and back, and measures.

A move is one change of both priorities; the machines' watchdogs follow it as they follow each
other, so some machine has the gateways at each moment. After an agent that was killed the next one
gets the drill again: it moves the gateways back where they were, and removes the port.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from ipaddress import IPv4Address
from typing import Final

from gpupool.agent.network.daemons import EngineFiles
from gpupool.agent.network.gateways.ping_probe import PingProbe
from gpupool.agent.network.gateways.priorities import GatewayGroup
from gpupool.agent.network.namespaces import JobNamespaces, name_interface
from gpupool.agent.network.switch_ports import SwitchPorts
from gpupool.base.errors import NetworkingUnavailable
from gpupool.network.gateways.model import GatewayRole, make_priority, read_role
from gpupool.network.gateways.rows import name_drill_port
from gpupool.wire.network.gateways import GatewayDrillReport, GatewayDrillWork, GatewayMove
from gpupool.wire.network.networks import PortWork

#: Seconds in which the engine serves the port, and answers have to come before and after a move.
_PORT_SECONDS: Final = 10.0
_ANSWER_SECONDS: Final = 10.0
#: Seconds in which switches have followed a move.
_FOLLOW_SECONDS: Final = 1.0
#: Answers in a row, before gateways are moved and after: a second's worth.
_ANSWERS: Final = 50

log = logging.getLogger(__name__)


class GatewayDrill:
    """Drills on one engine. One thread at a time."""

    def __init__(self, files: EngineFiles) -> None:
        self._files = files
        self._namespaces = JobNamespaces(files)

    def run(self, work: GatewayDrillWork) -> GatewayDrillReport:
        """Move the gateways and back. Blocks for some seconds; raises nothing that it can say."""
        moves = list[GatewayMove]()
        reason = ""
        try:
            self._put_back(work)
            self._run(work, moves)
        except NetworkingUnavailable as error:
            reason = error.message
        except OSError as error:
            reason = str(error)
        if reason:
            log.warning("the drill %s ended early: %s", work.id, reason)
        return GatewayDrillReport(id=work.id, reason=reason[:400], moves=moves)

    def _put_back(self, work: GatewayDrillWork) -> None:
        """Put back what a drill that was killed has moved. Raises NetworkingUnavailable then."""
        group = GatewayGroup(work.northbound or self._files.remote("northbound"))
        try:
            active = _find_active(group, work.chassis)
            if active == work.origin:
                return
            reason = f"drill {work.id} was cut short"
            swap_roles(group, work.chassis[active], work.chassis[work.origin], reason)
        finally:
            group.close()
        raise NetworkingUnavailable(
            f"the agent ended during the drill; the gateways are back on {work.origin}"
        )

    def _run(self, work: GatewayDrillWork, moves: list[GatewayMove]) -> None:
        ports = SwitchPorts(self._files.remote("switch"))
        try:
            network = self._namespaces.create(_make_port(work))
            ports.add(network.interface, name_drill_port(work.port), _PORT_SECONDS)
            probe = PingProbe(network.namespace, IPv4Address(work.target))
            try:
                probe.start()
                self._move_twice(work, probe, moves)
            finally:
                probe.stop()
        finally:
            ports.remove(name_interface(work.port))
            self._namespaces.remove(work.port)
            ports.close()

    def _move_twice(
        self, work: GatewayDrillWork, probe: PingProbe, moves: list[GatewayMove]
    ) -> None:
        began = time.monotonic()
        if not probe.wait_for_answers(_ANSWERS, began, _ANSWER_SECONDS):
            raise NetworkingUnavailable(
                f"{work.target} does not answer pings through the gateway; nothing was moved"
            )
        group = GatewayGroup(work.northbound or self._files.remote("northbound"))
        try:
            for _ in range(2):
                moves.append(_move(group, work, probe))
            if _find_active(group, work.chassis) != work.origin:
                raise NetworkingUnavailable(f"the gateways did not come back to {work.origin}")
        finally:
            group.close()


def _move(group: GatewayGroup, work: GatewayDrillWork, probe: PingProbe) -> GatewayMove:
    origin = _find_active(group, work.chassis)
    (target,) = work.chassis.keys() - {origin}
    began = time.monotonic()
    swap_roles(group, work.chassis[origin], work.chassis[target], f"drill {work.id}")
    # Answers of the first moment are the old machine's: the switches have not followed yet.
    if not probe.wait_for_answers(_ANSWERS, began + _FOLLOW_SECONDS, _ANSWER_SECONDS):
        raise NetworkingUnavailable(
            f"no answers from {work.target} within {_ANSWER_SECONDS:g} s after the gateways had "
            f"moved to {target}"
        )
    return GatewayMove(
        origin=origin,
        target=target,
        outage_seconds=round(probe.find_outage(began), 3),
        answers=probe.count_answers(began),
    )


def swap_roles(group: GatewayGroup, origin: str, target: str, reason: str) -> None:
    """Make the standby machine active, and the active one stand by, in one change.

    Args:
        origin, target: how OVN knows the two.

    Raises:
        NetworkingUnavailable: the two have other roles by now, or the database does not answer.
    """
    group.session.refresh()
    priorities = group.read_priorities()
    roles = {chassis: read_role(priority) for chassis, priority in priorities.items()}
    if roles != {origin: GatewayRole.ACTIVE, target: GatewayRole.STANDBY}:
        raise NetworkingUnavailable(f"{target} does not stand by for {origin} any more")
    is_first = {chassis: priority % 10 == 1 for chassis, priority in priorities.items()}
    group.write(
        {
            origin: make_priority(GatewayRole.STANDBY, is_first=is_first[origin]),
            target: make_priority(GatewayRole.ACTIVE, is_first=is_first[target]),
        },
        reason,
    )


def _find_active(group: GatewayGroup, chassis: Mapping[str, str]) -> str:
    """Return the node that is active. Raises NetworkingUnavailable."""
    group.session.refresh()
    priorities = group.read_priorities()
    for node, name in chassis.items():
        if read_role(priorities.get(name, 0)) is GatewayRole.ACTIVE:
            return node
    raise NetworkingUnavailable("no machine of the pair is active")


def _make_port(work: GatewayDrillWork) -> PortWork:
    return PortWork(
        id=work.port,
        network=work.id,
        address=work.address,
        prefix=work.prefix,
        gateway=work.gateway,
        mac=work.mac,
        mtu=work.mtu,
        domain="",
        dns_name="",
    )
