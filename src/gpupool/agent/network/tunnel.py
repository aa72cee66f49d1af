"""The cable between the switch and this machine, over which tunnels reach other machines.

The switch is in a namespace of its own, so the machine passes Geneve packets for its tunnel address
on to it, and gives those of the switch that address. The translation is stateless (nftables): no
packet of a tunnel is in the machine's connection table. Needs the extra `network`.
"""

from __future__ import annotations

import logging
import shutil
import socket
import subprocess
import time
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any, Final

from gpupool.agent.network.daemons import TUNNEL_BRIDGE, EngineFiles, find_datapath
from gpupool.agent.network.namespaces import enter_namespace, import_pyroute2, turn_checksum_off
from gpupool.agent.network.switch_ports import SwitchPorts
from gpupool.agent.network.uplink import list_prefixes
from gpupool.base.durable import write_durably
from gpupool.base.errors import NetworkingUnavailable

#: The end of the cable in the switch's namespace.
INNER: Final = "tunnel"
#: Seconds in which the switch has to make a bridge.
_BRIDGE_SECONDS: Final = 10.0
#: Bytes that Geneve adds to a packet: IPv4 20, UDP 8, Geneve 8 with OVN's option 8, Ethernet 14.
OVERHEAD_BYTES: Final = 58
#: Where prefixes for cables are taken from: link-local (RFC 3927), without the addresses that
#: clouds use for their metadata.
_PREFIXES: Final = IPv4Network("169.254.128.0/24")
_LINK_LOCAL_BITS: Final = 16
_SETTING: Final = "/proc/sys/net/ipv4/conf/{}/forwarding"

#: Of Geneve (RFC 8926).
_PORT: Final = 6081

log = logging.getLogger(__name__)

_RULES: Final = """
table ip {table}
delete table ip {table}
table ip {table} {{
    chain prerouting {{
        type filter hook prerouting priority raw; policy accept;
        iifname "{cable}" ip saddr {inner} udp dport {port} notrack accept
        iifname "{cable}" drop
        ip daddr {address} udp dport {port} notrack ip daddr set {inner}
    }}
    chain postrouting {{
        type filter hook postrouting priority srcnat; policy accept;
        ip saddr {inner} udp dport {port} ip saddr set {address}
    }}
}}
"""


class Tunnel:
    """The cable for tunnels of one engine."""

    def __init__(self, files: EngineFiles, root: Path) -> None:
        """Make the tunnel; nothing is there yet.

        Args:
            root: the engine's directory, for what was there before.
        """
        self._files = files
        self._record = root / "tunnel"
        self._cable = f"gpt{files.mark}"

    def set_up(self, address: IPv4Address, least_mtu: int) -> int:
        """Lay the cable and translate. Idempotent.

        Args:
            address: the machine's, which other machines reach.
            least_mtu: the largest packet of a network of the pool.

        Returns:
            The largest packet of a network that fits into the machine's packets.

        Raises:
            NetworkingUnavailable: the machine has no such address, or its packets are too small.
        """
        if shutil.which("nft") is None:
            raise NetworkingUnavailable(
                "tunnels need nftables", hint="apt-get install --no-install-recommends nftables"
            )
        _refuse_other_tunnels(address, self._table)
        with import_pyroute2().IPRoute() as host:
            interface, mtu = _find_interface(host, address)
            if mtu - OVERHEAD_BYTES < least_mtu:
                raise NetworkingUnavailable(
                    f"{interface} with {address} carries packets of {mtu} bytes; the networks of "
                    f"this pool have {least_mtu}, which need {least_mtu + OVERHEAD_BYTES}",
                    hint=f"ip link set {interface} mtu {least_mtu + OVERHEAD_BYTES}, here and on "
                    "what lies between the machines",
                )
            prefix = self._read_record(interface) or self._begin(host, interface)
            if not host.link_lookup(ifname=self._cable):
                self._lay(host, prefix, mtu)
        self._pass_on(interface)
        rules = _RULES.format(
            table=self._table, cable=self._cable, inner=prefix[2], address=address, port=_PORT
        )
        _load(rules)
        return mtu - OVERHEAD_BYTES

    def restore(self) -> bool:
        """Give the switch's end its address where it has none. Idempotent.

        A switch in user space makes its interfaces with each start, without addresses.

        Returns:
            Whether the switch has that end, or needs none.
        """
        record = self._read_record()
        if record is None:
            return True
        library = import_pyroute2()
        with enter_namespace(self._files.namespace), library.IPRoute() as inside:
            found = inside.link_lookup(ifname=TUNNEL_BRIDGE)
            if not found:
                return False
            try:
                _restore_address(inside, found[0], record)
            except library.NetlinkError as error:
                # The switch was restarted between the two steps, or ends now.
                log.info("%s is not there yet: %s", TUNNEL_BRIDGE, error)
                return False
        return True

    def remove(self) -> None:
        """Remove the cable and the rules, and put forwarding back. Idempotent."""
        if self._read_record() is None:
            return
        _, interface, before = self._record.read_text().split()
        _load(f"table ip {self._table}\ndelete table ip {self._table}\n")
        with import_pyroute2().IPRoute() as host:
            for index in host.link_lookup(ifname=self._cable):
                host.link("del", index=index)
        setting = Path(_SETTING.format(interface))
        if before == "0" and setting.exists():
            setting.write_text("0")
        self._record.unlink()

    @property
    def _table(self) -> str:
        return f"gpupool_{self._files.mark}_tunnel"

    def _read_record(self, interface: str | None = None) -> IPv4Network | None:
        """Return the prefix of the cable; None without one, or with one to another interface."""
        try:
            prefix, known, _ = self._record.read_text().split()
        except FileNotFoundError:
            return None
        if interface is not None and interface != known:
            self.remove()
            return None
        return IPv4Network(prefix)

    def _begin(self, host: Any, interface: str) -> IPv4Network:
        """Choose a prefix and write down what is there, before anything changes."""
        routes = list_prefixes(host.get_routes(family=socket.AF_INET))
        prefix = _choose_prefix(routes)
        if prefix is None:
            raise NetworkingUnavailable(f"this machine has routes to all of {_PREFIXES}")
        before = Path(_SETTING.format(interface)).read_text().strip()
        write_durably(self._record, f"{prefix} {interface} {before}\n".encode())
        return prefix

    def _lay(self, host: Any, prefix: IPv4Network, mtu: int) -> None:
        library = import_pyroute2()
        with open(self._files.namespace, "rb") as switch:
            peer = {"ifname": INNER, "mtu": mtu, "net_ns_fd": switch.fileno()}
            host.link("add", ifname=self._cable, kind="veth", mtu=mtu, peer=peer)
        index = host.link_lookup(ifname=self._cable)[0]
        host.addr("add", index=index, address=str(prefix[1]), prefixlen=prefix.prefixlen)
        turn_checksum_off(self._cable)
        host.link("set", index=index, state="up")
        with enter_namespace(self._files.namespace), library.IPRoute() as inside:
            turn_checksum_off(INNER)
            inside.link("set", index=inside.link_lookup(ifname=INNER)[0], state="up")

    def _pass_on(self, interface: str) -> None:
        """Let the machine forward what comes over these two interfaces, and no others."""
        for name in (interface, self._cable):
            Path(_SETTING.format(name)).write_text("1")


def _restore_address(inside: Any, index: int, prefix: IPv4Network) -> None:
    if not inside.get_addr(index=index, family=socket.AF_INET):
        inside.addr("add", index=index, address=str(prefix[2]), prefixlen=prefix.prefixlen)
    # Without the link up the route is refused, and each step may be the first that is missing.
    inside.link("set", index=index, state="up")
    inside.route("replace", dst="default", gateway=str(prefix[1]), oif=index)


def lay_tunnel(tunnel: Tunnel, ports: SwitchPorts, address: str, least_mtu: int) -> int:
    """Set a tunnel up and plug its cable into the switch. Idempotent.

    Args:
        address: the machine's, as text; empty where it has none.
        least_mtu: the largest packet of a network of the pool.

    Returns:
        The largest packet of a network that the tunnel carries.

    Raises:
        NetworkingUnavailable: the address or its packets do not do, or the switch does not answer.
    """
    try:
        named = IPv4Address(address)
    except ValueError as error:
        raise NetworkingUnavailable(
            f"this machine has no IPv4 address for tunnels: {address!r}",
            hint="set GPUPOOL_TUNNEL_ADDRESS of its agent",
        ) from error
    mtu = tunnel.set_up(named, least_mtu)
    ports.add_bridge(TUNNEL_BRIDGE, INNER, find_datapath())
    deadline = time.monotonic() + _BRIDGE_SECONDS
    while not tunnel.restore():
        if time.monotonic() >= deadline:
            raise NetworkingUnavailable(
                f"the switch did not make {TUNNEL_BRIDGE} within {_BRIDGE_SECONDS:g} s"
            )
        time.sleep(0.05)
    return mtu


def _refuse_other_tunnels(address: IPv4Address, own_table: str) -> None:
    """Raise NetworkingUnavailable where another program has the machine's Geneve packets."""
    sockets = Path("/proc/thread-self/net/udp").read_text().splitlines()[1:]
    if any(int(line.split()[1].partition(":")[2], 16) == _PORT for line in sockets):
        raise NetworkingUnavailable(
            f"another program of this machine has UDP port {_PORT}, which tunnels need",
            hint=f"ss -ulnp sport = :{_PORT}",
        )
    rule = f"ip daddr {address} udp dport {_PORT} "
    for line in _run_nft("list", "tables", "ip").splitlines():
        table = line.split()[-1]
        is_other = table.startswith("gpupool_") and table != own_table
        if is_other and rule in _run_nft("list", "table", "ip", table):
            raise NetworkingUnavailable(
                f"another pool of this machine has the tunnels of {address}",
                hint="set GPUPOOL_TUNNEL_ADDRESS of this machine's agent to another address",
            )


def _run_nft(*words: str) -> str:
    done = subprocess.run(["nft", *words], capture_output=True, text=True, timeout=10, check=False)
    # A table may go while it is read.
    return done.stdout


def _choose_prefix(routes: Iterable[IPv4Network]) -> IPv4Network | None:
    """Choose a prefix that no route has; None where all are taken."""
    # A route to all link-local addresses takes none of them.
    taken = [route for route in routes if route.prefixlen > _LINK_LOCAL_BITS]
    for prefix in _PREFIXES.subnets(new_prefix=30):
        if not any(map(prefix.overlaps, taken)):
            return prefix
    return None


def _find_interface(host: Any, address: IPv4Address) -> tuple[str, int]:
    """Return the interface that has an address, and its MTU."""
    found = host.get_addr(family=socket.AF_INET, address=str(address))
    if not found or address.is_loopback:
        others = (one.get_attr("IFA_ADDRESS") for one in host.get_addr(family=socket.AF_INET))
        known = [other for other in others if other and not other.startswith("127.")]
        raise NetworkingUnavailable(
            f"{address} is no address of this machine that others reach; it has "
            f"{', '.join(known[:5]) or 'none'}",
            hint="set GPUPOOL_TUNNEL_ADDRESS of its agent",
        )
    link = host.get_links(found[0]["index"])[0]
    return link.get_attr("IFLA_IFNAME"), link.get_attr("IFLA_MTU")


def _load(rules: str) -> None:
    done = subprocess.run(
        ["nft", "-f", "-"], input=rules, capture_output=True, text=True, timeout=10, check=False
    )
    if done.returncode != 0:
        raise NetworkingUnavailable(f"nftables refuses the tunnel's rules: {done.stderr[:300]}")
