"""The addresses that the active machine has outside, as the kernel holds them for a while.

The watchdog renews it: where the watchdog is gone, the kernel removes the address by itself, so two
machines never have it for long. Needs the extra `network` (pyroute2).
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from ipaddress import IPv4Address
from typing import Any, Final

from gpupool.agent.network.namespaces import import_pyroute2

#: Seconds for which the kernel keeps the address without a watchdog: longer than an agent needs to
#: restart one, or to be restarted itself.
LEASE_SECONDS: Final = 10
#: Seconds between two renewals.
RENEW_SECONDS: Final = 2.0


class FloatingAddress:
    """One address on one interface, and floating IPs with it. One thread."""

    def __init__(
        self, address: IPv4Address, interface: str, floating_ips: Iterable[IPv4Address] = ()
    ) -> None:
        self._address = address
        self._all = (address, *floating_ips)
        self._interface = interface
        self._library = import_pyroute2()
        self._host = self._library.IPRoute()
        self._renewed = float("-inf")

    def hold(self, now: float) -> None:
        """Have the addresses, and renew them when it is time. Idempotent.

        Args:
            now: monotonic seconds.
        """
        if now - self._renewed < RENEW_SECONDS:
            return
        for index in self._host.link_lookup(ifname=self._interface):
            for address in self._all:
                self._host.addr(
                    "replace",
                    index=index,
                    address=str(address),
                    prefixlen=32,
                    preferred_lft=LEASE_SECONDS,
                    valid_lft=LEASE_SECONDS,
                )
            self._renewed = now

    def release(self) -> None:
        """Have the addresses no longer. Idempotent."""
        self._renewed = float("-inf")
        self.drop(self._all)

    def drop(self, addresses: Iterable[IPv4Address]) -> None:
        """Remove addresses from the interface, where it has them. Idempotent."""
        wanted = list(addresses)
        for index in self._host.link_lookup(ifname=self._interface):
            for address in wanted:
                if self._find(index, address):
                    self._host.addr("del", index=index, address=str(address), prefixlen=32)

    def is_held(self) -> bool:
        """Whether this machine has the address."""
        return any(
            self._find(index, self._address)
            for index in self._host.link_lookup(ifname=self._interface)
        )

    def close(self) -> None:
        self._host.close()

    def _find(self, index: int, address: IPv4Address) -> list[Any]:
        found: list[Any] = self._host.get_addr(
            family=socket.AF_INET, index=index, address=str(address)
        )
        return found


def find_interface(address: IPv4Address) -> str:
    """Find the interface with an address in whose prefix another one lies; empty: there is none.

    Of several the one with the longest prefix, as the kernel routes.
    """
    found = ""
    longest = 0
    with import_pyroute2().IPRoute() as host:
        for entry in host.get_addr(family=socket.AF_INET):
            mine = IPv4Address(entry.get_attr("IFA_ADDRESS"))
            shift = 32 - entry["prefixlen"]
            if mine == address or not shift or int(mine) >> shift != int(address) >> shift:
                continue
            if entry["prefixlen"] > longest:
                longest = entry["prefixlen"]
                link = host.get_links(entry["index"])[0]
                found = str(link.get_attr("IFLA_IFNAME"))
    return found
