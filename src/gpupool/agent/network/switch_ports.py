"""Plugs interfaces into the pool's switch, and waits until the engine has them in force."""

from __future__ import annotations

import threading
import time
from typing import Any, Final

from gpupool.agent.network.daemons import BRIDGE, EngineFiles
from gpupool.agent.network.limiting.shaping import find_shaped_bytes
from gpupool.base.errors import NetworkingUnavailable
from gpupool.network.ovn.session import OvsdbSession

_TABLES: Final = {
    "Open_vSwitch": ("bridges", "external_ids", "next_cfg", "cur_cfg"),
    "Bridge": ("name", "ports", "datapath_type", "fail_mode"),
    "Port": ("name", "interfaces", "external_ids", "qos"),
    "Interface": ("name", "type", "external_ids", "error", "ofport"),
    "QoS": ("type", "other_config", "external_ids"),
}
#: Marks our ports, and names the port of the pool that each one is.
OWNER: Final = "gpupool-port"
#: The setting of where the controller's database is (ovn-controller(8)).
REMOTE: Final = "ovn-remote"
#: Seconds in which the switch's database has to answer after its start.
_OPEN_SECONDS: Final = 10.0


class SwitchPorts:
    """The ports of the pool's switch. Thread-safe."""

    def __init__(self, remote: str) -> None:
        """Connect to the switch's database. Raises NetworkingUnavailable."""
        self._lock = threading.Lock()
        self._session = OvsdbSession(remote, "Open_vSwitch", _TABLES)

    def close(self) -> None:
        with self._lock:
            self._session.close()

    def write_settings(self, settings: dict[str, str]) -> None:
        """Write the settings of the switch; makes its first row. Idempotent."""

        def write(transaction: Any) -> None:
            row = self._find_root()
            if row is None:
                # A row that was just inserted has no columns to read.
                row = transaction.insert(self._session.get_table("Open_vSwitch"))
                row.external_ids = settings
                return
            found = row.external_ids
            order = {}
            if _have_same_servers(found.get(REMOTE, ""), settings.get(REMOTE, "")):
                # That of the last rotation: another one ends the controller's connection.
                order[REMOTE] = found[REMOTE]
            # Other settings of the row are the daemons' own.
            row.external_ids = {**found, **settings, **order}

        with self._lock:
            self._session.refresh()
            self._session.commit(write)

    def read_setting(self, name: str) -> str:
        """Return a setting of the switch; empty where it has none of that name."""
        with self._lock:
            self._session.refresh()
            row = self._find_root()
            return "" if row is None else str(row.external_ids.get(name, ""))

    def rotate_servers(self) -> None:
        """Let the controller begin another connection, with the next server of its cluster."""

        def write(_transaction: Any) -> None:
            row = self._find_root()
            if row is None or REMOTE not in row.external_ids:
                return
            # Other servers may be written meanwhile.
            row.verify("external_ids")
            first, *others = row.external_ids[REMOTE].split(",")
            row.external_ids = {**row.external_ids, REMOTE: ",".join([*others, first])}

        with self._lock:
            self._session.refresh()
            self._session.commit(write)

    def wait_for_bridge(self, seconds: float) -> bool:
        """Block until the switch has made its bridge; false when the time is over before."""
        with self._lock:
            return self._session.wait_for(lambda: self._find_bridge() is not None, seconds)

    def add_bridge(self, name: str, interface: str, datapath: str) -> None:
        """Make a bridge to what lies outside with that interface in it. Idempotent."""

        def write(transaction: Any) -> None:
            if self._find("Bridge", name) is not None:
                return
            bridge = transaction.insert(self._session.get_table("Bridge"))
            bridge.name = name
            bridge.datapath_type = datapath
            bridge.fail_mode = ["standalone"]
            # The first is the bridge's own port, as ovs-vsctl(8) makes it.
            own = self._insert_port(transaction, name, "internal")
            bridge.ports = [own, self._insert_port(transaction, interface)]
            self._find_root().addvalue("bridges", bridge)

        with self._lock:
            self._session.refresh()
            self._session.commit(write)

    def remove_bridge(self, name: str) -> None:
        """Remove a bridge to what lies outside. Does nothing where there is none."""

        def write(_transaction: Any) -> None:
            bridge = self._find("Bridge", name)
            if bridge is not None:
                self._find_root().delvalue("bridges", bridge)
                bridge.delete()

        with self._lock:
            self._session.refresh()
            self._session.commit(write)

    def plug_outside(self, name: str, interface: str) -> None:
        """Plug an interface into a bridge to what lies outside. Idempotent.

        Raises NetworkingUnavailable where the switch has no such bridge.
        """

        def write(transaction: Any) -> None:
            bridge = self._find("Bridge", name)
            if bridge is None:
                raise NetworkingUnavailable(f"the switch has no bridge {name}")
            if self._find("Port", interface) is None:
                bridge.addvalue("ports", self._insert_port(transaction, interface))

        with self._lock:
            self._session.refresh()
            self._session.commit(write)

    def unplug_outside(self, name: str, interface: str) -> None:
        """Take an interface out of a bridge to what lies outside. Idempotent."""

        def write(_transaction: Any) -> None:
            bridge = self._find("Bridge", name)
            row = self._find("Port", interface)
            if bridge is not None and row is not None:
                bridge.delvalue("ports", row)
                row.delete()

        with self._lock:
            self._session.refresh()
            self._session.commit(write)

    def _insert_port(self, transaction: Any, name: str, kind: str = "") -> Any:
        plug = transaction.insert(self._session.get_table("Interface"))
        plug.name = name
        plug.type = kind
        row = transaction.insert(self._session.get_table("Port"))
        row.name = name
        row.interfaces = [plug]
        return row

    def plug(self, interface: str, port: str, seconds: float = _OPEN_SECONDS) -> None:
        """Plug an interface in as a port of the pool, without a wait for its flows. Idempotent.

        An interface that is plugged in as another port becomes this one.

        Args:
            interface: a name of an interface of this machine.
            port: name of the logical switch port.

        Raises:
            NetworkingUnavailable: the switch has no bridge, or took no change within the time.
        """

        def write(transaction: Any) -> None:
            bridge = self._find_bridge()
            if bridge is None:
                raise NetworkingUnavailable(f"the switch has no bridge {BRIDGE}")
            present = self._find("Port", interface)
            if present is not None:
                if present.external_ids.get(OWNER) != port:
                    present.external_ids = {OWNER: port}
                    self._find("Interface", interface).external_ids = {"iface-id": port}
                return
            plug = transaction.insert(self._session.get_table("Interface"))
            plug.name = interface
            plug.external_ids = {"iface-id": port}
            row = transaction.insert(self._session.get_table("Port"))
            row.name = interface
            row.interfaces = [plug]
            row.external_ids = {OWNER: port}
            bridge.addvalue("ports", row)

        with self._lock:
            self._session.refresh()
            self._session.commit(write, seconds)

    def add(self, interface: str, port: str, seconds: float) -> None:
        """Plug an interface in as a port of the pool, and block until it is in force.

        Idempotent.

        Args:
            interface: a name of an interface of this machine.
            port: name of the logical switch port.

        Raises:
            NetworkingUnavailable: the engine did not take it within the time.
        """

        self.plug(interface, port, seconds)
        self.await_flows(interface, seconds)

    def await_flows(self, interface: str, seconds: float) -> None:
        """Block until a port that was plugged in is in force.

        Raises NetworkingUnavailable where the engine did not take it within the time.
        """
        with self._lock:
            # ovn-controller sets it when the flows of the port are in the switch (ovn-controller(8)).
            if not self._session.wait_for(lambda: self._is_installed(interface), seconds):
                raise NetworkingUnavailable(
                    f"the network engine did not serve {interface} within {seconds:g} s",
                    hint="gpupool network status",
                )

    def remove(self, interface: str) -> None:
        """Unplug an interface. Does nothing where it is not plugged in."""

        def write(_transaction: Any) -> None:
            bridge = self._find_bridge()
            row = self._find("Port", interface)
            if row is None:
                return
            if bridge is not None:
                bridge.delvalue("ports", row)
            row.delete()
            # A row of its own right: it would stay behind.
            shape = self._find_shape(interface)
            if shape is not None:
                shape.delete()

        with self._lock:
            self._session.refresh()
            self._session.commit(write)

    def shape(self, interface: str, limit_kbit: int | None) -> None:
        """Shape what the switch sends to a port; None: no longer. Idempotent.

        Rows of the table that ovn-controller or others made are left alone.
        """
        wanted = None if limit_kbit is None else str(8 * find_shaped_bytes(limit_kbit))

        def write(transaction: Any) -> None:
            port = self._find("Port", interface)
            shape = self._find_shape(interface)
            if port is None or (shape is None and wanted is None):
                return
            if wanted is None:
                port.delvalue("qos", shape)
                shape.delete()
                return
            settings = {"max-rate": wanted}
            if shape is None:
                shape = transaction.insert(self._session.get_table("QoS"))
                shape.type = "linux-htb"
                shape.external_ids = {OWNER: interface}
                shape.other_config = settings
                port.qos = [shape]
            elif shape.other_config != settings or port.qos != [shape]:
                shape.other_config = settings
                port.qos = [shape]

        with self._lock:
            self._session.refresh()
            self._session.commit(write)

    def find_number(self, interface: str) -> int | None:
        """Find the OpenFlow number of an interface; None: the switch has no such interface."""
        with self._lock:
            self._session.refresh()
            row = self._find("Interface", interface)
            return int(row.ofport[0]) if row is not None and row.ofport else None

    def list_interfaces(self) -> list[str]:
        """List the interfaces that are plugged in as ports of the pool."""
        with self._lock:
            self._session.refresh()
            rows = self._session.get_rows("Port").values()
            return sorted(row.name for row in rows if OWNER in row.external_ids)

    def _find_shape(self, interface: str) -> Any:
        rows = self._session.get_rows("QoS").values()
        return next((row for row in rows if row.external_ids.get(OWNER) == interface), None)

    def _find_root(self) -> Any:
        return next(iter(self._session.get_rows("Open_vSwitch").values()), None)

    def _find_bridge(self) -> Any:
        return self._find("Bridge", BRIDGE)

    def _find(self, table: str, name: str) -> Any:
        rows = self._session.get_rows(table).values()
        return next((row for row in rows if row.name == name), None)

    def _is_installed(self, interface: str) -> bool:
        row = self._find("Interface", interface)
        return row is not None and row.external_ids.get("ovn-installed") == "true"


def _have_same_servers(remote: str, other: str) -> bool:
    return bool(remote) and sorted(remote.split(",")) == sorted(other.split(","))


def open_ports(files: EngineFiles) -> SwitchPorts:
    """Open the ports of the switch. Blocks until its database answers, for some seconds.

    Raises NetworkingUnavailable.
    """
    deadline = time.monotonic() + _OPEN_SECONDS
    while True:
        try:
            return SwitchPorts(files.remote("switch"))
        except NetworkingUnavailable:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.05)
