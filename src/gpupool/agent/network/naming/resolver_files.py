"""The files, the account and the command line of a network's resolver. Pure.

The resolver is dnsmasq(8). It reads no file but these two, and reads them again on SIGHUP.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpupool.mechanisms.contract import HelperProcess
from gpupool.network.ipv6 import addresses as ipv6
from gpupool.network.model import TOP_DOMAIN
from gpupool.network.resolver_rows import RESOLVER_ADDRESS, ResolverConfig

#: The first account of resolvers: of a range that no distribution gives (systemd's UIDS-GIDS.md).
#: Each network has one of its own, so no resolver reads the names of another one.
_FIRST_ACCOUNT: Final = 0x7000_0000
_ACCOUNTS: Final = 0x0FFF_FFFF
#: The account `nobody`, where a user namespace of this machine lacks that range.
_NOBODY: Final = 65534
#: Largest answer over UDP, in bytes: it fits one packet of every network (DNS Flag Day 2020).
_UDP_BYTES: Final = 1232
#: Bytes of the headers of IPv4 and UDP.
_HEADERS: Final = 28
#: Questions that wait for servers outside, at most.
_WAITING: Final = 256


@dataclass(frozen=True)
class ResolverFiles:
    """Where a resolver has its files."""

    directory: Path

    @property
    def names(self) -> Path:
        """Names and addresses, as hosts(5)."""
        return self.directory / "names"

    @property
    def servers(self) -> Path:
        """Servers that other names are asked for."""
        return self.directory / "servers"


def format_names(config: ResolverConfig) -> str:
    """Format the names of a network, one address a line."""
    lines = list[str]()
    for name, addresses in sorted(config.addresses.items()):
        # Also without the domain: a name with a dot is asked for as it is before the search list.
        # The long name comes first: it is the answer to a question for the address.
        lines += [f"{address} {name}.{config.domain} {name}" for address in addresses]
    return "\n".join((*lines, ""))


def format_servers(config: ResolverConfig, servers: Iterable[str]) -> str:
    """Format the servers outside. Without a gateway no other name exists."""
    found = list(servers) if config.is_forwarding else []
    return "\n".join((*(f"server={server}" for server in found or ["/#/"]), ""))


def choose_account(number: int, uid_map: str) -> int:
    """Choose the account of the resolver of a network, by the network's row id.

    Args:
        uid_map: `/proc/self/uid_map` (user_namespaces(7)).
    """
    wanted = _FIRST_ACCOUNT + number % _ACCOUNTS
    for line in uid_map.splitlines():
        first, _, count = (int(word) for word in line.split())
        if first <= wanted < first + count:
            return wanted
    return _NOBODY


def make_resolver(
    network: str, files: ResolverFiles, account: int, namespace: Path, config: ResolverConfig
) -> HelperProcess:
    """Make the description of a resolver's process."""
    mine = (RESOLVER_ADDRESS, ipv6.RESOLVER_ADDRESS) if config.has_ipv6 else (RESOLVER_ADDRESS,)
    return HelperProcess(
        network,
        (
            "setpriv",
            "--no-new-privs",
            "dnsmasq",
            "--keep-in-foreground",
            "--conf-file=/dev/null",
            "--pid-file=",
            "--log-facility=-",
            "--no-hosts",
            "--no-resolv",
            f"--addn-hosts={files.names}",
            f"--servers-file={files.servers}",
            *(f"--listen-address={address}" for address in mine),
            "--bind-interfaces",
            f"--local=/{TOP_DOMAIN}/",
            "--domain-needed",
            "--bogus-priv",
            f"--edns-packet-max={min(_UDP_BYTES, config.mtu - _HEADERS)}",
            f"--dns-forward-max={_WAITING}",
        ),
        {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        uid=account,
        gid=account,
        network_namespace=str(namespace),
    )
