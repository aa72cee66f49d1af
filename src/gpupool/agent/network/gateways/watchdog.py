"""The watchdog process: `python -m gpupool.agent.network.gateways.watchdog DIRECTORY`.

It looks 20 times a second, asks `decision` what to do, writes priorities, and has the address of
the gateways where OVN sends their packets here. Settings may change while it runs.
"""

from __future__ import annotations

import logging
import signal
import sys
import time
from collections.abc import Callable
from ipaddress import IPv4Address
from pathlib import Path
from types import FrameType
from typing import Final

from gpupool.agent.network.balancing.proxy_mover import ProxyMover
from gpupool.agent.network.balancing.proxy_moves import PairSight
from gpupool.agent.network.daemons import CERTIFICATE, PRIVATE_KEY, TRUSTED
from gpupool.agent.network.gateways.decision import (
    MISSES,
    UNKNOWN_SECONDS,
    GatewayChange,
    GatewayDecision,
    GatewaySight,
)
from gpupool.agent.network.gateways.floating_address import FloatingAddress
from gpupool.agent.network.gateways.priorities import GatewayPriorities
from gpupool.agent.network.gateways.switch_watch import SwitchWatch, TunnelStates
from gpupool.agent.network.gateways.uplink_watch import UplinkWatch
from gpupool.agent.network.gateways.watchdog_files import (
    WatchdogSettings,
    WatchdogState,
    read_settings,
    read_state,
    write_state,
)
from gpupool.base.clock import wall_ns
from gpupool.network.ovn.credentials import show_certificate_files

#: Seconds between two looks.
TICK_SECONDS: Final = 0.05
#: Looks between two counts of flows while all is well, and two announcements of a new address.
_COUNT_TICKS: Final = 100
_ANNOUNCE_TICKS: Final = 4
#: Seconds after which a machine that was cut off believes what it read before: the database is away.
_DOUBT_SECONDS: Final = 10.0
#: Seconds in which a machine that leaves gives the gateways away.
_RETIRE_SECONDS: Final = 3.0
#: How often an address that moved here is announced: a switch or a router may miss one.
_ANNOUNCEMENTS: Final = 5

log = logging.getLogger(__name__)


class Watchdog:
    """The watchdog of one machine, until `close`."""

    def __init__(self, directory: Path, settings: WatchdogSettings) -> None:
        self._directory = directory
        self._settings = settings
        self._state = read_state(directory)
        self._address = IPv4Address(settings.address)
        upstream = settings.upstream
        self._upstream = IPv4Address(upstream) if upstream else None
        self._decision = GatewayDecision(
            settings.chassis, settings.peer, is_first=settings.is_first, names=settings.names
        )
        self._uplink = UplinkWatch(settings.interface)
        run = Path(settings.run)
        self._switch = SwitchWatch(settings.switch, run, settings.bridge_socket)
        self._priorities = GatewayPriorities(settings.northbound, self._state.priorities)
        self._floating_ips = list(map(IPv4Address, settings.floating_ips))
        self._floating = FloatingAddress(self._address, settings.interface, self._floating_ips)
        self._mover = ProxyMover(settings.northbound, run, is_first=settings.is_first)
        self._is_held = self._floating.is_held()
        self._cut_off = float("-inf")
        self._announcements = 0
        self._ticks = 0
        self._switch.accept_open_connections()
        self._priorities.start()
        self._mover.start()

    def close(self) -> None:
        """End; the address stays until its lease is over, so that a next watchdog takes it on."""
        self._priorities.close()
        self._mover.close()
        self._uplink.close()
        self._switch.close()
        self._floating.close()

    def retire(self) -> None:
        """Give the gateways to the other machine. Blocks until it is written, for some seconds."""
        change = self._decision.retire(self._make_sight(self._switch.read_tunnels()))
        if change is not None:
            self._request(change)
            self._priorities.wait_until_written(_RETIRE_SECONDS)
        self._floating.release()

    def drop_others(self, settings: WatchdogSettings) -> None:
        """Have the floating IPs no longer that other settings do not name."""
        gone = [one for one in self._floating_ips if str(one) not in settings.floating_ips]
        self._floating.drop(gone)

    def tick(self) -> None:
        """Look once, and do what follows. Blocks for the time of a tick."""
        self._ticks += 1
        self._uplink.ask(self._list_questions())
        self._uplink.read_answers(TICK_SECONDS)
        tunnels = self._switch.read_tunnels()
        sight = self._make_sight(tunnels)
        if not sight.is_any_up:
            self._cut_off = sight.now
            self._priorities.doubt()
        is_informed = self._is_informed(sight)
        if is_informed and sight.is_peer_up and sight.is_any_up:
            self._cut_off = float("-inf")
        self._hold_address(sight, is_informed=is_informed)
        if is_informed and not self._priorities.is_writing():
            change = self._decision.decide(sight, self._is_ready)
            if change is not None:
                self._request(change)
        self._mover.look(
            PairSight(
                role=self._decision.find_role(sight),
                peer_role=self._decision.find_peer_role(sight),
                is_informed=is_informed,
                is_peer_up=sight.is_peer_up,
                is_any_up=sight.is_any_up,
            )
        )
        self._keep_state(sight)

    def _is_informed(self, sight: GatewaySight) -> bool:
        """Whether a machine that was cut off knows again how the other one is.

        Tunnels come back one after the other: one that is still silent says nothing at first.
        """
        seconds = sight.now - self._cut_off
        is_read = not self._priorities.is_doubtful() or seconds > _DOUBT_SECONDS
        return is_read and (sight.is_peer_up or seconds > UNKNOWN_SECONDS)

    def _request(self, change: GatewayChange) -> None:
        roles = {chassis: role.name for chassis, role in change.roles.items()}
        log.info("%s: %s", change.reason, roles)
        self._priorities.request(self._decision.make_priorities(change.roles), change.reason)

    def _list_questions(self) -> list[IPv4Address]:
        found = [] if self._upstream is None else [self._upstream]
        # The active machine does not hear itself.
        return found if self._is_held else [*found, self._address]

    def _make_sight(self, tunnels: TunnelStates) -> GatewaySight:
        peer = self._settings.peer_tunnel
        return GatewaySight(
            now=time.monotonic(),
            priorities=self._priorities.read(),
            uplink_fault=self._find_fault(),
            is_watched=tunnels.is_watched(),
            is_peer_up=tunnels.is_up(peer),
            is_any_up=tunnels.is_any_up(),
            has_others=tunnels.has_others(peer),
            is_address_answered=self._is_address_answered(),
            is_drained=self._settings.is_drained,
        )

    def _find_fault(self) -> str:
        """Say why gateways cannot be here; empty: they can."""
        if not self._switch.is_alive():
            return "the switch does not run"
        if not self._uplink.has_carrier():
            return f"{self._settings.interface} has no carrier"
        if self._upstream is not None and self._uplink.count_misses(self._upstream) >= MISSES:
            return f"{self._upstream} does not answer on {self._settings.interface}"
        return ""

    def _is_address_answered(self) -> bool | None:
        # Without an upstream address it may be this machine's own uplink that is dead.
        if self._is_held or self._upstream is None:
            return None
        return self._uplink.count_misses(self._address) < MISSES

    def _hold_address(self, sight: GatewaySight, *, is_informed: bool) -> None:
        wanted = self._decision.has_gateways(sight) and not sight.uplink_fault and is_informed
        if wanted:
            self._floating.hold(sight.now)
            if not self._is_held:
                self._announcements = _ANNOUNCEMENTS
        elif self._is_held:
            self._floating.release()
            self._uplink.forget(self._address)
        self._is_held = wanted
        if wanted and self._announcements and self._ticks % _ANNOUNCE_TICKS == 0:
            self._announcements -= 1
            for address in (self._address, *self._floating_ips):
                self._uplink.announce(address)

    def _is_ready(self) -> bool:
        """Whether the bridge has at least half of the flows that it had when all was well.

        The controller's word is not enough: while it waits to connect to a switch that has
        restarted, it says that all is in force.
        """
        if not self._switch.is_controller_ready():
            return False
        if self._switch.count_flows() <= self._state.flows // 2:
            return False
        self._switch.accept_open_connections()
        return True

    def _keep_state(self, sight: GatewaySight) -> None:
        before = self._state
        role = self._decision.find_role(sight)
        name = "starting" if role is None else role.name.lower()
        flows = before.flows
        if name in ("active", "standby") and self._ticks % _COUNT_TICKS == 1:
            flows = self._switch.count_flows() or flows
        reason = self._describe(name, sight)
        since_ns = before.since_ns if before.state == name else wall_ns()
        state = WatchdogState(name, reason, since_ns, dict(sight.priorities), flows)
        if state != before:
            self._state = state
            write_state(self._directory, state)

    def _describe(self, name: str, sight: GatewaySight) -> str:
        if name == "starting":
            return "the northbound database does not have the pair yet"
        if name == "away" and sight.uplink_fault:
            return sight.uplink_fault
        return self._priorities.find_reason(self._settings.chassis)


def main(arguments: list[str]) -> int:
    """Run until SIGTERM. Returns the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    directory = Path(arguments[0])
    stopping: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        stopping.append(number)

    signal.signal(signal.SIGTERM, stop)
    while not stopping:
        _watch(directory, lambda: bool(stopping))
    return 0


def _watch(directory: Path, is_over: Callable[[], bool]) -> None:
    """Watch until the end, or until there are other settings."""
    settings = read_settings(directory)
    if settings.certificates:
        show_certificate_files(
            *(
                str(Path(settings.certificates) / name)
                for name in (PRIVATE_KEY, CERTIFICATE, TRUSTED)
            )
        )
    watchdog = Watchdog(directory, settings)
    try:
        while not is_over() and read_settings(directory) == settings:
            watchdog.tick()
        if is_over():
            watchdog.retire()
        else:
            watchdog.drop_others(read_settings(directory))
    finally:
        watchdog.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
