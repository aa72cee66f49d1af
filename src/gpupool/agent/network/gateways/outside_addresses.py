"""Floating IPs that this machine answers for outside, where it has the gateways alone.

An address in the prefix of an interface becomes one of that interface, so that the kernel answers
ARP; one of a prefix that a router outside sends here needs nothing. What was added is written down
first, so that it goes also after a kill. Machines of a pair leave it to their watchdogs. Needs the
extra `network` (pyroute2).
"""

from __future__ import annotations

import json
import logging
import socket
from collections import defaultdict
from collections.abc import Collection, Iterable
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, Final

from gpupool.agent.network.gateways.floating_address import find_interface
from gpupool.agent.network.gateways.uplink_watch import UplinkWatch
from gpupool.agent.network.namespaces import import_pyroute2
from gpupool.base.durable import write_durably

#: Seconds in which another host that has an address answers for it (RFC 5227 probes for longer,
#: and waits for hosts that start).
_PROBE_SECONDS: Final = 0.3

log = logging.getLogger(__name__)


class OutsideAddresses:
    """The addresses of one engine. One thread."""

    def __init__(self, record: Path) -> None:
        """Make it; nothing changes yet.

        Args:
            record: file of what was added: interfaces by address.
        """
        self._record = record

    def apply(self, wanted: Iterable[IPv4Address]) -> dict[IPv4Address, str]:
        """Have these addresses, and no other ones any more. Idempotent.

        Returns:
            The addresses that this machine cannot have, with the reason.
        """
        addresses = set(wanted)
        added = self._read()
        self._remove({one: where for one, where in added.items() if one not in addresses})
        taken = dict.fromkeys(find_own(addresses - set(added)), "this machine has it itself")
        missing = addresses - set(taken) - self._find_present(added)
        found = dict[IPv4Address, str]()
        for address in sorted(missing):
            interface = find_interface(address)
            if interface:
                found[address] = interface
        busy = _find_busy(found)
        taken |= dict.fromkeys(busy, "another host outside answers for it")
        self._add({one: where for one, where in found.items() if one not in busy})
        return taken

    def restore(self) -> None:
        """Add again what someone has removed with the interface's addresses. Idempotent."""
        added = self._read()
        present = self._find_present(added)
        self._add({one: where for one, where in added.items() if one not in present})

    def release(self) -> None:
        """Have none any more. Idempotent."""
        self._remove(self._read())

    def _read(self) -> dict[IPv4Address, str]:
        try:
            found: dict[str, str] = json.loads(self._record.read_text())
        except FileNotFoundError:
            return {}
        return {IPv4Address(address): interface for address, interface in found.items()}

    def _write(self, added: dict[IPv4Address, str]) -> None:
        if not added:
            self._record.unlink(missing_ok=True)
            return
        texts = {str(address): interface for address, interface in sorted(added.items())}
        write_durably(self._record, json.dumps(texts, indent=1).encode())

    def _find_present(self, added: dict[IPv4Address, str]) -> set[IPv4Address]:
        if not added:
            return set()
        with import_pyroute2().IPRoute() as host:
            entries = _read_entries(host)
            names = {link["index"]: link.get_attr("IFLA_IFNAME") for link in host.get_links()}
        return {address for address, index in entries if names.get(index) == added.get(address)}

    def _add(self, found: dict[IPv4Address, str]) -> None:
        if not found:
            return
        self._write(self._read() | found)
        with import_pyroute2().IPRoute() as host:
            for address, interface in found.items():
                for index in host.link_lookup(ifname=interface):
                    host.addr("replace", index=index, address=str(address), prefixlen=32)
        for interface in set(found.values()):
            watch = UplinkWatch(interface)
            for address in (one for one, where in found.items() if where == interface):
                # A router outside may know another machine that had it before.
                watch.announce(address)
            watch.close()

    def _remove(self, gone: dict[IPv4Address, str]) -> None:
        if not gone:
            return
        library = import_pyroute2()
        with library.IPRoute() as host:
            present = set(_read_entries(host))
            for address, interface in gone.items():
                for index in host.link_lookup(ifname=interface):
                    if (address, index) in present:
                        host.addr("del", index=index, address=str(address), prefixlen=32)
        left = {one: where for one, where in self._read().items() if one not in gone}
        self._write(left)


def find_own(addresses: Collection[IPv4Address]) -> set[IPv4Address]:
    """Find those of some addresses that this machine has."""
    if not addresses:
        return set()
    with import_pyroute2().IPRoute() as host:
        return {address for address, _ in _read_entries(host)} & set(addresses)


def _find_busy(found: dict[IPv4Address, str]) -> set[IPv4Address]:
    """Find the addresses for which another host answers ARP, on the interface of each."""
    busy = set[IPv4Address]()
    by_interface = defaultdict[str, list[IPv4Address]](list)
    for address, interface in found.items():
        by_interface[interface].append(address)
    for interface, addresses in by_interface.items():
        watch = UplinkWatch(interface)
        try:
            watch.ask(addresses)
            watch.read_answers(_PROBE_SECONDS)
            busy |= {address for address in addresses if not watch.count_misses(address)}
        finally:
            watch.close()
    return busy


def _read_entries(host: Any) -> list[tuple[IPv4Address, int]]:
    """Read the IPv4 addresses of this machine, with the index of each interface."""
    found = list[tuple[IPv4Address, int]]()
    for entry in host.get_addr(family=socket.AF_INET):
        text = entry.get_attr("IFA_LOCAL") or entry.get_attr("IFA_ADDRESS")
        found.append((IPv4Address(text), entry["index"]))
    return found
