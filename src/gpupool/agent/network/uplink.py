"""The cable between the switch and this machine, over which gateways reach what lies outside.

The machine routes and translates what comes over it (nftables, one table of the pool's own). It
answers nothing itself and passes nothing from one tenant to another. A machine of a pair of gateways
translates to the address that the active one has. Needs the extra `network`.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, ip_address, ip_network
from pathlib import Path
from typing import Any, Final

from gpupool.agent.network.daemons import EngineFiles
from gpupool.agent.network.gateways.ipv6_forwarding import Ipv6Forwarding
from gpupool.agent.network.namespaces import enter_namespace, import_pyroute2, turn_checksum_off
from gpupool.agent.network.uplink_rules import format_rules
from gpupool.base.durable import write_durably
from gpupool.base.errors import NetworkingUnavailable
from gpupool.network.gateways.model import CABLE_MAC, UPLINK_PREFIXES
from gpupool.network.ipv6.addresses import derive_uplink
from gpupool.wire.network.firewall import FirewallWork
from gpupool.wire.network.floating_ips import FloatingIpWork
from gpupool.wire.network.networks import ForwardWork

_FORWARDING: Final = Path("/proc/sys/net/ipv4/ip_forward")
#: Where this machine's name servers are written, in the order in which they count.
NAME_SERVER_FILES: Final = (
    Path("/etc/resolv.conf"),
    Path("/run/systemd/resolve/resolv.conf"),
)
#: The end of the cable in the switch's namespace.
INNER: Final = "uplink"


class Uplink:
    """The uplink of one engine."""

    def __init__(self, files: EngineFiles, root: Path) -> None:
        """Make the uplink; nothing is there yet.

        Args:
            root: the engine's directory, for what was there before.
        """
        self._files = files
        self._record = root / "uplink"
        self._ipv6 = Ipv6Forwarding(root / "uplink6")
        self._cable = f"gpu{files.mark}"
        #: Ids of floating IPs by their address on the cable.
        self._owners = dict[str, str]()

    def set_up(
        self,
        forwards: Iterable[ForwardWork] = (),
        firewall: Iterable[FirewallWork] = (),
        *,
        floating_ips: Iterable[FloatingIpWork] = (),
        prefix: IPv4Network | None = None,
        floating: IPv4Address | None = None,
    ) -> IPv4Network:
        """Lay the cable, route, filter and translate. Idempotent; returns the cable's prefix.

        All rules are replaced at once; none is away meanwhile.

        Args:
            forwards: ports of this machine that lead to gateways; no others do afterwards.
            firewall: rules for what passes, the first that matches decides.
            floating_ips: addresses outside, each of which is translated to one on the cable.
            prefix: what the other machine of a pair has; None: this one chooses.
            floating: what packets are translated to; None: the machine's own address.

        Raises NetworkingUnavailable where this machine lacks nftables or has no free prefix.
        """
        if shutil.which("nft") is None:
            raise NetworkingUnavailable(
                "gateways need nftables", hint="apt-get install --no-install-recommends nftables"
            )
        record = self._read_record()
        if record is not None and prefix not in (None, record[0]):
            self.remove()
            record = None
        prefix, _ = record or self._begin(prefix)
        with import_pyroute2().IPRoute() as host:
            if not host.link_lookup(ifname=self._cable):
                self._lay(host, prefix)
        _FORWARDING.write_text("1")
        pairs = list(floating_ips)
        rules = format_rules(
            self._table,
            self._cable,
            prefix,
            forwards=forwards,
            firewall=firewall,
            floating_ips=pairs,
            outer=floating,
        )
        self._load(rules)
        self._forget_owners({one.inner: one.id for one in pairs})
        return prefix

    def carry_ipv6(self, prefix: IPv4Network, *, wanted: bool) -> None:
        """Carry IPv6 too over the cable that `set_up` laid, or IPv4 alone. Idempotent.

        Raises NetworkingUnavailable where the kernel has IPv6 off.
        """
        if wanted:
            self._ipv6.set_up(self._cable, derive_uplink(prefix))
        else:
            self._ipv6.remove(self._cable)

    def remove(self) -> None:
        """Remove the cable and the rules, and put forwarding back. Idempotent."""
        record = self._read_record()
        if record is None:
            return
        self._ipv6.remove(self._cable)
        self._load(f"table inet {self._table}\ndelete table inet {self._table}\n")
        with import_pyroute2().IPRoute() as host:
            for index in host.link_lookup(ifname=self._cable):
                host.link("del", index=index)
        if record[1] == "0":
            _FORWARDING.write_text("0")
        self._record.unlink()

    def read_prefix(self) -> IPv4Network | None:
        """Read the cable's prefix; None where there is no uplink."""
        record = self._read_record()
        return None if record is None else record[0]

    @property
    def cable(self) -> str:
        """This machine's end of the cable."""
        return self._cable

    @property
    def _table(self) -> str:
        return f"gpupool_{self._files.mark}"

    def _begin(self, wanted: IPv4Network | None) -> tuple[IPv4Network, str]:
        """Choose a prefix and write down what is there, before anything changes."""
        with import_pyroute2().IPRoute() as host:
            routes = list_prefixes(host.get_routes(family=socket.AF_INET))
        prefix = choose_prefix(routes) if wanted is None else check_prefix(wanted, routes)
        before = _FORWARDING.read_text().strip()
        write_durably(self._record, f"{prefix} {before}\n".encode())
        return prefix, before

    def _forget_owners(self, owners: dict[str, str]) -> None:
        """Ask for the MAC address of what has another owner now: that of another network's gateway.

        Else the kernel would send to the one before it for half a minute.
        """
        changed = {inner for inner, owner in owners.items() if self._owners.get(inner) != owner}
        self._owners = owners
        if not changed:
            return
        with import_pyroute2().IPRoute() as host:
            for index in host.link_lookup(ifname=self._cable):
                for entry in host.get_neighbours(family=socket.AF_INET, ifindex=index):
                    address = entry.get_attr("NDA_DST")
                    if address in changed and entry.get_attr("NDA_LLADDR") is not None:
                        host.neigh("del", ifindex=index, dst=address)

    def _read_record(self) -> tuple[IPv4Network, str] | None:
        try:
            prefix, before = self._record.read_text().split()
        except FileNotFoundError:
            return None
        return IPv4Network(prefix), before

    def _lay(self, host: Any, prefix: IPv4Network) -> None:
        library = import_pyroute2()
        with open(self._files.namespace, "rb") as switch:
            peer = {"ifname": INNER, "net_ns_fd": switch.fileno()}
            host.link("add", ifname=self._cable, kind="veth", address=CABLE_MAC, peer=peer)
        index = host.link_lookup(ifname=self._cable)[0]
        host.addr("add", index=index, address=str(prefix[1]), prefixlen=prefix.prefixlen)
        turn_checksum_off(self._cable)
        host.link("set", index=index, state="up")
        with enter_namespace(self._files.namespace), library.IPRoute() as inside:
            turn_checksum_off(INNER)
            inside.link("set", index=inside.link_lookup(ifname=INNER)[0], state="up")

    @staticmethod
    def _load(rules: str) -> None:
        done = subprocess.run(
            ["nft", "-f", "-"], input=rules, capture_output=True, text=True, timeout=10, check=False
        )
        if done.returncode != 0:
            raise NetworkingUnavailable(
                f"nftables refuses the gateways' rules: {done.stderr[:300]}"
            )


def check_prefix(wanted: IPv4Network, routes: Iterable[IPv4Network]) -> IPv4Network:
    """Return the prefix of the other machine of a pair. Raises NetworkingUnavailable."""
    taken = next((route for route in routes if wanted.overlaps(route)), None)
    if taken is not None:
        raise NetworkingUnavailable(
            f"the other machine of the pair has {wanted} for gateways, and this one a route to "
            f"{taken}",
            hint=f"free the prefix: ip route show {taken}",
        )
    return wanted


def choose_prefix(routes: Iterable[IPv4Network]) -> IPv4Network:
    """Choose a prefix that no route of this machine has. Raises NetworkingUnavailable."""
    present = list(routes)
    for prefix in UPLINK_PREFIXES:
        if not any(prefix.overlaps(route) for route in present):
            return prefix
    raise NetworkingUnavailable(
        f"this machine has routes to each of {', '.join(map(str, UPLINK_PREFIXES))}: none is free for gateways"
    )


def list_prefixes(routes: Iterable[Any]) -> list[IPv4Network]:
    """List the destinations of routes as pyroute2 returns them, without the default."""
    found = list[IPv4Network]()
    for route in routes:
        address = route.get_attr("RTA_DST")
        if address is not None:
            prefix = ip_network(f"{address}/{route['dst_len']}", strict=False)
            assert isinstance(prefix, IPv4Network)
            found.append(prefix)
    return found


def read_name_servers(*, has_ipv6: bool = False) -> list[str]:
    """Read the name servers that this machine asks, for networks that reach them over a gateway.

    Args:
        has_ipv6: whether the gateway carries IPv6 too; else servers of IPv4 alone count.

    A server on a loopback address is this machine's own resolver, which gateways do not reach; then
    the servers that it asks are taken (systemd-resolved.service(8)).
    """
    for path in NAME_SERVER_FILES:
        try:
            lines = path.read_text().splitlines()
        except FileNotFoundError:
            continue
        servers = [
            words[1]
            for line in lines
            if len(words := line.split()) > 1 and words[0] == "nameserver"
        ]
        outside = [one for one in servers if _is_reached(one, has_ipv6=has_ipv6)]
        if outside:
            return outside[:3]
    return []


def _is_reached(server: str, *, has_ipv6: bool) -> bool:
    """Whether gateways reach a name server: not where it is of one machine or one link alone."""
    try:
        address = ip_address(server)
    except ValueError:
        return False
    if address.version == 6 and not has_ipv6:
        return False
    return not (address.is_loopback or address.is_link_local)
