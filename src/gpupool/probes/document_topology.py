"""Reads the links and domains of a machine from its document."""

from __future__ import annotations

from gpupool.base.errors import BadMachine
from gpupool.model.device import Device
from gpupool.model.topology import DeviceLink, LinkKind, Topology
from gpupool.probes.entry import MachineEntry, check_whole


def read_topology(entry: MachineEntry, devices: list[Device]) -> Topology:
    uuids = tuple(device.uuid for device in devices)
    links = tuple(_read_link(link, uuids, entry.where) for link in entry.read_list("nvlinks"))
    given = entry.read_entry("domains")
    domains = {}
    for kind, _ in given.iterate_items():
        domains[_parse_kind(kind, entry.where)] = _read_groups(given, kind, uuids)
    numa = {device.uuid: device.numa_node for device in devices if device.numa_node is not None}
    return Topology(uuids, links, numa, domains)


def _read_link(link: object, uuids: tuple[str, ...], where: str) -> DeviceLink:
    if not isinstance(link, list) or len(link) != 3 or link[0] == link[1]:
        raise BadMachine(f"A link of {where} must be [card, other card, count], not {link!r}")
    a = _find_uuid(link[0], uuids, where)
    b = _find_uuid(link[1], uuids, where)
    return DeviceLink(
        a, b, LinkKind.NVLINK, check_whole(link[2], f"the count of a link of {where}", 1)
    )


def _read_groups(
    given: MachineEntry, kind: str, uuids: tuple[str, ...]
) -> tuple[frozenset[str], ...]:
    groups = given.read_list(kind)
    if not all(isinstance(group, list) for group in groups):
        raise BadMachine(f'"{kind}" of {given.where} must be a list of lists of cards')
    found = []
    for group in groups:
        found.append(frozenset(_find_uuid(index, uuids, given.where) for index in group))
    # PCI and NVSwitch domains of one kind are disjoint; the scheduler relies on it.
    if sum(map(len, found)) != len(frozenset().union(*found)):
        raise BadMachine(f'"{kind}" of {given.where} has a card in two sets')
    return tuple(found)


def _find_uuid(index: object, uuids: tuple[str, ...], where: str) -> str:
    if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < len(uuids):
        raise BadMachine(f"{where} has cards 0 to {len(uuids) - 1}, but names card {index!r}")
    return uuids[index]


def _parse_kind(text: str, where: str) -> LinkKind:
    known = (LinkKind.NVSWITCH, LinkKind.PCIE_SWITCH, LinkKind.HOST_BRIDGE, LinkKind.NUMA)
    if text not in known:
        raise BadMachine(f"{where} has domains of kind {text!r}; known kinds: {', '.join(known)}")
    return LinkKind(text)
