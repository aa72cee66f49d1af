"""The cable between the switch and this machine, over which gateways reach what lies outside.

The machine routes and translates what comes over it (nftables, one table of the pool's own). It
answers nothing itself and passes nothing from one tenant to another. Needs the extra `network`.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterable
from ipaddress import IPv4Network, ip_network
from pathlib import Path
from typing import Any, Final

from gpupool.agent.network.daemons import EngineFiles
from gpupool.agent.network.firewall import format_rules
from gpupool.agent.network.namespaces import enter_namespace, import_pyroute2, turn_checksum_off
from gpupool.base.durable import write_durably
from gpupool.base.errors import NetworkingUnavailable
from gpupool.wire.network.firewall import FirewallWork
from gpupool.wire.network.networks import ForwardWork

#: Prefixes for the cable, in the order in which they are tried. The first two are of RFC 2544, the
#: third of RFC 6598: no address of the internet, and rarely used inside a company.
_PREFIXES: Final = ("198.18.0.0/16", "198.19.0.0/16", "100.127.0.0/16")
_FORWARDING: Final = Path("/proc/sys/net/ipv4/ip_forward")
#: The end of the cable in the switch's namespace.
INNER: Final = "uplink"

_RULES: Final = """
table inet {table}
delete table inet {table}
table inet {table} {{
    chain input {{
        type filter hook input priority filter; policy accept;
        iifname "{cable}" ct state established,related accept
        iifname "{cable}" drop
    }}
    chain boundary {{
{boundary}
    }}
    chain forward {{
        type filter hook forward priority filter; policy accept;
        iifname "{cable}" ip saddr != {prefix} drop
        iifname "{cable}" oifname "{cable}" drop
        iifname "{cable}" jump boundary
        oifname "{cable}" jump boundary
        oifname "{cable}" ct state established,related accept
        oifname "{cable}" ct status dnat accept
        oifname "{cable}" drop
    }}
    chain prerouting {{
        type nat hook prerouting priority dstnat; policy accept;
{forwards}
    }}
    chain output {{
        type nat hook output priority -100; policy accept;
{forwards}
    }}
    chain postrouting {{
        type nat hook postrouting priority srcnat; policy accept;
        ip saddr {prefix} oifname != "{cable}" masquerade
    }}
}}
"""


class Uplink:
    """The uplink of one engine."""

    def __init__(self, files: EngineFiles, root: Path) -> None:
        """Make the uplink; nothing is there yet.

        Args:
            root: the engine's directory, for what was there before.
        """
        self._files = files
        self._record = root / "uplink"
        self._cable = f"gpu{files.mark}"

    def set_up(
        self, forwards: Iterable[ForwardWork] = (), firewall: Iterable[FirewallWork] = ()
    ) -> IPv4Network:
        """Lay the cable, route, filter and translate. Idempotent; returns the cable's prefix.

        All rules are replaced at once; none is away meanwhile.

        Args:
            forwards: ports of this machine that lead to gateways; no others do afterwards.
            firewall: rules for what passes, the first that matches decides.

        Raises NetworkingUnavailable where this machine lacks nftables or has no free prefix.
        """
        if shutil.which("nft") is None:
            raise NetworkingUnavailable(
                "gateways need nftables", hint="apt-get install --no-install-recommends nftables"
            )
        prefix, _ = self._read_record() or self._begin()
        with import_pyroute2().IPRoute() as host:
            if not host.link_lookup(ifname=self._cable):
                self._lay(host, prefix)
        _FORWARDING.write_text("1")
        rules = _RULES.format(
            table=self._table,
            cable=self._cable,
            prefix=prefix,
            forwards="\n".join(map(_format_forward, forwards)),
            boundary="\n".join(f"        {line}" for line in format_rules(firewall, prefix)),
        )
        self._load(rules)
        return prefix

    def remove(self) -> None:
        """Remove the cable and the rules, and put forwarding back. Idempotent."""
        record = self._read_record()
        if record is None:
            return
        self._load(f"table inet {self._table}\ndelete table inet {self._table}\n")
        with import_pyroute2().IPRoute() as host:
            for index in host.link_lookup(ifname=self._cable):
                host.link("del", index=index)
        if record[1] == "0":
            _FORWARDING.write_text("0")
        self._record.unlink()

    @property
    def _table(self) -> str:
        return f"gpupool_{self._files.mark}"

    def _begin(self) -> tuple[IPv4Network, str]:
        """Choose a prefix and write down what is there, before anything changes."""
        with import_pyroute2().IPRoute() as host:
            routes = list_prefixes(host.get_routes(family=socket.AF_INET))
        prefix = choose_prefix(routes)
        before = _FORWARDING.read_text().strip()
        write_durably(self._record, f"{prefix} {before}\n".encode())
        return prefix, before

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
            host.link("add", ifname=self._cable, kind="veth", peer=peer)
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


def _format_forward(forward: ForwardWork) -> str:
    # Not of loopback addresses: such packets may leave no machine (RFC 1122 section 3.2.1.3).
    return (
        f"        fib daddr type local ip daddr != 127.0.0.0/8 {forward.protocol} dport "
        f"{forward.port} dnat ip to {forward.gateway}"
    )


def choose_prefix(routes: Iterable[IPv4Network]) -> IPv4Network:
    """Choose a prefix that no route of this machine has. Raises NetworkingUnavailable."""
    present = list(routes)
    for text in _PREFIXES:
        prefix = IPv4Network(text)
        if not any(prefix.overlaps(route) for route in present):
            return prefix
    raise NetworkingUnavailable(
        f"this machine has routes to each of {', '.join(_PREFIXES)}: none is free for gateways"
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


def read_name_servers() -> list[str]:
    """Read the name servers that this machine asks, for networks that reach them over a gateway.

    A server on a loopback address is this machine's own resolver, which gateways do not reach; then
    the servers that it asks are taken (systemd-resolved.service(8)).
    """
    for path in (Path("/etc/resolv.conf"), Path("/run/systemd/resolve/resolv.conf")):
        try:
            lines = path.read_text().splitlines()
        except FileNotFoundError:
            continue
        servers = [
            words[1]
            for line in lines
            if len(words := line.split()) > 1 and words[0] == "nameserver"
        ]
        outside = [one for one in servers if not one.startswith("127.") and ":" not in one]
        if outside:
            return outside[:3]
    return []
