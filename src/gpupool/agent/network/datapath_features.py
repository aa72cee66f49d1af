"""Keeps OVN from a feature of switches in user space that ends those of Open vSwitch 3.1.0.

docs/decisions/0089-ports-that-are-used-again.md has how that was found, and what it costs.
"""

from __future__ import annotations

import logging
import subprocess
import time
from pathlib import Path
from typing import Any, Final

from gpupool.agent.network.daemons import BRIDGE
from gpupool.base.errors import NetworkingUnavailable
from gpupool.network.ovn.session import OvsdbSession

#: The feature, as the switch names it in its database. Connections that OVN commits with it have a
#: second entry, which stays when the first one expires. A packet of the same addresses and ports
#: then finds the second alone, and Open vSwitch 3.1.0 ends at an assertion of
#: `conn_update_state`; 3.3.0 has one entry for both directions.
_FEATURE: Final = "ct_zero_snat"
#: How ovs-ofctl(8) shows a commit with it.
_COMMIT: Final = "nat(src)"
#: The datapath in user space; the kernel's has the feature without the fault.
_DATAPATH: Final = "netdev"
_TABLES: Final = {"Open_vSwitch": ("datapaths",), "Datapath": ("capabilities",)}
#: Seconds in which a switch that was started has written what it can, and in which a changed
#: feature is in its flows; else the next look goes on.
_CHANGE_SECONDS: Final = 3.0
_LOOK_SECONDS: Final = 0.1
#: Seconds in which the switch answers a command.
_ANSWER_SECONDS: Final = 10.0

log = logging.getLogger(__name__)


class DatapathFeatures:
    """What OVN may use of one switch. One thread at a time."""

    def __init__(self, remote: str, run: Path) -> None:
        """Make the object; it connects with the first look.

        Args:
            remote: where the switch's database is reached.
            run: directory with the sockets of the switch.
        """
        self._remote = remote
        self._run = run
        self._session: OvsdbSession | None = None
        #: Whether the switch may still have connections with the feature.
        self._is_changing = False

    def close(self) -> None:
        """Close the connection; a later look opens another one. Idempotent."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def wait_for_switch(self) -> None:
        """Block until a switch that was just started has written its features; then restrict them.

        So no connection is made with the feature and forgotten a moment later.
        """
        try:
            self._open().wait_for(self._has_written, _CHANGE_SECONDS)
        except NetworkingUnavailable as error:
            log.warning("%s", error.message)
            return
        self.restrict()

    def restrict(self) -> None:
        """Withhold the feature. Idempotent.

        A switch writes its features each time that it starts, so each look is needed.
        """
        try:
            self._withhold()
        except NetworkingUnavailable as error:
            log.warning("%s", error.message)
            return
        deadline = time.monotonic() + _CHANGE_SECONDS
        while self._is_changing:
            self._is_changing = not self._forget_connections()
            if self._is_changing and time.monotonic() >= deadline:
                log.warning("OVN still uses %s: the switch may restart", _FEATURE)
                return
            if self._is_changing:
                time.sleep(_LOOK_SECONDS)

    def _open(self) -> OvsdbSession:
        if self._session is None:
            self._session = OvsdbSession(self._remote, "Open_vSwitch", _TABLES)
        return self._session

    def _withhold(self) -> None:
        session = self._open()
        session.refresh()
        if not self._has_feature():
            return

        def write(_transaction: Any) -> None:
            # Where an attempt came too late, it may be gone.
            row = self._find_row()
            if row is not None:
                row.capabilities = {**row.capabilities, _FEATURE: "false"}

        session.commit(write)
        self._is_changing = True

    def _has_written(self) -> bool:
        """Whether the switch has said what it can, in user space or in the kernel."""
        return any(row.capabilities for row in self._open().get_rows("Datapath").values())

    def _has_feature(self) -> bool:
        row = self._find_row()
        return row is not None and row.capabilities.get(_FEATURE) == "true"

    def _find_row(self) -> Any:
        """Return the row of the datapath in user space; None: the switch has none."""
        rows = self._open().get_rows("Open_vSwitch").values()
        return next((row.datapaths[_DATAPATH] for row in rows if _DATAPATH in row.datapaths), None)

    def _forget_connections(self) -> bool:
        """Let the switch forget its connections, if OVN makes no more of them with the feature.

        TCP goes on: what is known of no connection is picked up again. Connections to virtual
        addresses end, as with a restart of the switch, which has mostly just been.
        """
        flows = self._ask("ovs-ofctl", "-O", "OpenFlow15", "dump-flows", f"unix:{self._bridge}")
        if flows is None or _COMMIT in flows:
            return False
        target = str(self._run / "vswitchd.ctl")
        # After the flows, what was cached of them.
        for command in ("revalidator/wait", "dpctl/flush-conntrack"):
            if self._ask("ovs-appctl", "-t", target, command) is None:
                return False
        log.info("withheld %s from OVN", _FEATURE)
        return True

    @property
    def _bridge(self) -> Path:
        return self._run / f"{BRIDGE}.mgmt"

    def _ask(self, *words: str) -> str | None:
        """Return what a command prints; None: the switch does not answer."""
        try:
            done = subprocess.run(
                words, capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return None
        return None if done.returncode else done.stdout
