"""Watches the switch of this machine: its process, its tunnels, and the flows of its bridge."""

from __future__ import annotations

import logging
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpupool.base.errors import NetworkingUnavailable
from gpupool.network.ovn.control import is_controller_connected
from gpupool.network.ovn.session import OvsdbSession

_TABLES: Final = {"Interface": ("name", "type", "options", "bfd_status")}
#: Seconds in which a switch says how many flows it has.
_FLOW_SECONDS: Final = 2.0
_FLOWS: Final = "flow_count="

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TunnelStates:
    """By the address of the other end, whether a tunnel answers (BFD).

    Without a gateway OVN watches no tunnel: then each one counts as one that answers.
    """

    states: dict[str, bool]

    def is_watched(self) -> bool:
        """Whether OVN watches any tunnel."""
        return bool(self.states)

    def is_up(self, address: str) -> bool:
        return self.states.get(address, not self.states)

    def is_any_up(self) -> bool:
        return not self.states or any(self.states.values())

    def has_others(self, address: str) -> bool:
        return bool(self.states.keys() - {address})


class SwitchWatch:
    """The look at one switch. One thread."""

    def __init__(self, remote: str, run: Path, bridge_socket: str) -> None:
        """Make the watch; it connects with the first look."""
        self._remote = remote
        self._run = run
        self._bridge_socket = bridge_socket
        self._session: OvsdbSession | None = None

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def is_alive(self) -> bool:
        """Whether the switch runs."""
        try:
            pid = (self._run / "ovs-vswitchd.pid").read_text().strip()
        except FileNotFoundError:
            return False
        return Path(f"/proc/{pid}/fd").exists()

    def read_tunnels(self) -> TunnelStates:
        """Read whether tunnels answer: those whose other end OVN watches."""
        try:
            if self._session is None:
                self._session = OvsdbSession(self._remote, "Open_vSwitch", _TABLES)
            self._session.refresh()
        except NetworkingUnavailable as error:
            log.warning("%s", error.message)
            return TunnelStates({})
        rows = self._session.get_rows("Interface").values()
        return TunnelStates(
            {
                row.options.get("remote_ip", ""): row.bfd_status.get("state") == "up"
                for row in rows
                if row.type == "geneve" and "state" in row.bfd_status
            }
        )

    def count_flows(self) -> int:
        """Count the flows of the bridge; 0 where the switch does not say. Blocks for 10 ms."""
        words = ["ovs-ofctl", "dump-aggregate", f"unix:{self._bridge_socket}"]
        try:
            done = subprocess.run(
                words, capture_output=True, text=True, timeout=_FLOW_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return 0
        _, found, rest = done.stdout.partition(_FLOWS)
        return int(rest.split()[0]) if found else 0

    def accept_open_connections(self) -> None:
        """Let a switch in user space go on with connections that another machine had meanwhile.

        It forgets that when it ends. A switch in the kernel knows no such setting of its own: it has
        that of its network namespace.
        """
        target = str(self._run / "vswitchd.ctl")
        words = ["ovs-appctl", "-t", target, "dpctl/ct-disable-tcp-seq-chk"]
        try:
            done = subprocess.run(
                words, capture_output=True, text=True, timeout=_FLOW_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            log.warning("the switch does not answer: connections may end when gateways move")
            return
        if done.returncode:
            log.info("%s", done.stderr.strip())

    def is_controller_ready(self) -> bool:
        """Whether ovn-controller follows its database."""
        return is_controller_connected(self._run)
