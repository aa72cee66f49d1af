"""Mirrors of the pool's switch (ovs-vswitchd.conf.db(5), Mirror), each with a port of its own.

The switch takes no packet from the port that gets copies, so it is none of the target's other ones.
Between two machines the copies travel in a tunnel with a number of its own: the first switch copies to
the tunnel, and the second one copies what comes out of it to the target. OVN has no flow for that port,
so nothing else becomes of such a packet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from gpupool.agent.network.daemons import BRIDGE
from gpupool.network.ovn.session import OvsdbSession

_TABLES: Final = {
    "Bridge": ("name", "ports", "mirrors"),
    "Port": ("name", "interfaces", "external_ids"),
    "Interface": ("name", "type", "options", "error"),
    "Mirror": (
        "name",
        "select_src_port",
        "select_dst_port",
        "output_port",
        "statistics",
        "external_ids",
    ),
}
#: Marks our rows with the mirror of the pool.
_OWNER: Final = "gpupool-mirror"
#: Keeps the path that a row was made for: another one is made in its place.
_PATH: Final = "gpupool-path"


@dataclass(frozen=True)
class MirrorTunnel:
    """A tunnel to another machine for one mirror.

    Attributes:
        interface: its name in the switch.
        remote: tunnel address of the other machine.
        number: of the copies (Geneve VNI).
    """

    interface: str
    remote: str
    number: int


@dataclass(frozen=True)
class MirrorPath:
    """What one switch copies, from where to where.

    Attributes:
        key: id of the mirror.
        source: interface whose packets are copied.
        output: interface that gets the copies.
        is_from, is_to: whether packets are copied that come from the source, and that go to it.
        tunnel: one of the two interfaces, where the other job is on another machine.
    """

    key: str
    source: str
    output: str
    is_from: bool
    is_to: bool
    tunnel: MirrorTunnel | None = None


@dataclass(frozen=True)
class MirrorCount:
    """What a mirror has copied."""

    packets: int
    bytes: int


class SwitchMirrors:
    """The mirrors of the switch, over a connection of their own. One thread at a time."""

    def __init__(self, remote: str) -> None:
        """Connect. Raises NetworkingUnavailable."""
        self._session = OvsdbSession(remote, "Open_vSwitch", _TABLES)

    def close(self) -> None:
        self._session.close()

    def list_keys(self) -> list[str]:
        """List the mirrors of the pool that the switch has."""
        self._session.refresh()
        rows = self._session.get_rows("Mirror").values()
        return sorted(row.external_ids[_OWNER] for row in rows if _OWNER in row.external_ids)

    def add(self, path: MirrorPath) -> None:
        """Make a mirror with the ports that it needs. Does nothing where there is one.

        Raises NetworkingUnavailable.
        """

        def write(transaction: Any) -> None:
            bridge = self._find("Bridge", BRIDGE)
            if bridge is None or self._find_mirror(path.key) is not None:
                return
            source = self._find("Port", path.source)
            if path.tunnel is not None and path.tunnel.interface == path.source:
                source = self._insert_port(transaction, bridge, path, path.source)
            if source is None:
                return
            output = self._insert_port(transaction, bridge, path, path.output)
            mirror = transaction.insert(self._session.get_table("Mirror"))
            mirror.name = path.key
            mirror.select_src_port = [source] if path.is_from else []
            mirror.select_dst_port = [source] if path.is_to else []
            mirror.output_port = [output]
            mirror.external_ids = {_OWNER: path.key, _PATH: repr(path)}
            bridge.addvalue("mirrors", mirror)

        self._session.refresh()
        self._session.commit(write)

    def _insert_port(self, transaction: Any, bridge: Any, path: MirrorPath, name: str) -> Any:
        plug = transaction.insert(self._session.get_table("Interface"))
        plug.name = name
        if path.tunnel is not None and path.tunnel.interface == name:
            plug.type = "geneve"
            plug.options = {"remote_ip": path.tunnel.remote, "key": str(path.tunnel.number)}
        port = transaction.insert(self._session.get_table("Port"))
        port.name = name
        port.interfaces = [plug]
        port.external_ids = {_OWNER: path.key}
        bridge.addvalue("ports", port)
        return port

    def remove(self, key: str) -> None:
        """Remove a mirror and its ports. Idempotent. Raises NetworkingUnavailable."""

        def write(_transaction: Any) -> None:
            bridge = self._find("Bridge", BRIDGE)
            mirror = self._find_mirror(key)
            if bridge is None:
                return
            # Rows that the bridge no longer refers to are gone.
            if mirror is not None:
                bridge.delvalue("mirrors", mirror)
            for port in self._session.get_rows("Port").values():
                if port.external_ids.get(_OWNER) == key:
                    bridge.delvalue("ports", port)

        self._session.refresh()
        self._session.commit(write)

    def find_count(self, path: MirrorPath) -> MirrorCount | None:
        """Find what a mirror has copied; None: the switch does not have it as it was made."""
        self._session.refresh()
        mirror = self._find_mirror(path.key)
        if mirror is None or mirror.external_ids.get(_PATH) != repr(path):
            return None
        if not mirror.output_port or not (mirror.select_src_port or mirror.select_dst_port):
            # The port of the source went away and came back as another one.
            return None
        counts = mirror.statistics
        return MirrorCount(counts.get("tx_packets", 0), counts.get("tx_bytes", 0))

    def find_fault(self, path: MirrorPath) -> str:
        """Return what the switch says against the interfaces of a mirror; empty: nothing."""
        for name in (path.source, path.output):
            interface = self._find("Interface", name)
            if interface is not None and interface.error:
                return f"{name}: {interface.error[0]}"
        return ""

    def _find_mirror(self, key: str) -> Any:
        rows = self._session.get_rows("Mirror").values()
        return next((row for row in rows if row.external_ids.get(_OWNER) == key), None)

    def _find(self, table: str, name: str) -> Any:
        rows = self._session.get_rows(table).values()
        return next((row for row in rows if row.name == name), None)
