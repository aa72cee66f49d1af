"""Machines as data: the one file format for recorded hosts, shipped presets and machines people describe.

    {"format": 1, "machines": [{
       "name": "node-a", "cpu_count": 96, "memory_mib": 1031000,
       "cards": [{"model": "L40S", "count": 2, "numa_node": 0}, {"model": "T4", "numa_node": 1}],
       "numa": [{"number": 0, "cpus": "0-47", "memory_mib": 515500}, …],
       "nvlinks": [[0, 1, 4]],                       (card, card, number of links)
       "domains": {"pcie-switch": [[0, 1]]}}]}       (cards by index; kinds as in `model.topology`)

What a card entry leaves out comes from the catalogue; one that is not listed there gives product and
memory. Where `numa` is left out, processors and memory are cut evenly over the NUMA nodes that the cards
name. A file holds no uuids: a machine read from one is simulated, whatever it was recorded from, and its
uuids are made from the pool's seed, so that the same pool always has the same cards. This module knows the
format, not where files lie.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import asdict, fields, replace
from functools import lru_cache
from typing import Any

from gpupool.base.errors import BadMachine, UnknownModel
from gpupool.base.ids import check_name
from gpupool.model.catalogue import CATALOGUE, CardModel, find_model, nearest_model
from gpupool.model.device import Device, Health
from gpupool.model.numa import NumaNode, evenly, format_cpus, parse_cpus
from gpupool.model.partition import PartitionProfile
from gpupool.model.topology import Link, LinkKind, Topology
from gpupool.probes.contract import Machine
from gpupool.probes.entry import Entry, whole
from gpupool.probes.mig_tables import mig_profiles

FORMAT = 1
MAX_CARDS_PER_NODE = 128
MAX_NODES = 10_000
MAX_CARDS = 20_000

_CARD_KEYS = frozenset(
    {"model", "count", "vendor", "product", "memory_mib", "numa_node", "labels", "pci_address", "architecture"}
    | {"compute_capability", "multiprocessors", "driver_version", "ecc_enabled", "partitioned", "profiles"}
)
_MACHINE_KEYS = frozenset(
    {"name", "note", "cards", "nvlinks", "domains", "cpu_count", "memory_mib", "driver_version", "cuda_version"}
    | {"numa"}
)
_NUMA_KEYS = frozenset({"number", "cpus", "memory_mib"})


def read_machines(document: object, seed: str = "") -> tuple[Machine, ...]:
    """The machines a document describes, all simulated. Raises BadMachine or UnknownModel, naming the
    place.
    """
    root = Entry(document, "the file", frozenset({"format", "machines"}))
    if root.integer("format") != FORMAT:
        raise BadMachine(f"the machine file is of format {root.integer('format')}; this gpupool reads {FORMAT}")
    entries = root.sequence("machines")
    check_size(len(entries), 1, len(entries))
    machines = tuple(read_machine(entry, seed, f"sim-{i}") for i, entry in enumerate(entries))
    totals = [len(m.devices) for m in machines]
    check_size(len(totals), max(totals), sum(totals))
    twice = [name for name, times in Counter(m.name for m in machines).items() if times > 1]
    if twice:
        raise BadMachine(f"two machines are named {twice[0]!r}; every machine needs its own name")
    return machines


def read_machine(value: object, seed: str, default_name: str) -> Machine:
    """One machine of a document; `default_name` is used where it has none."""
    entry = Entry(value, f"machine {default_name!r}", _MACHINE_KEYS)
    name = check_name(entry.text("name") or default_name, "the machine's name")
    cards = [Entry(card, f"a card of {name!r}", _CARD_KEYS) for card in entry.sequence("cards")]
    counts = [card.integer("count") or 1 for card in cards]
    check_size(1, sum(counts), sum(counts))
    devices: list[Device] = []
    for card, count in zip(cards, counts, strict=True):
        first = _device(card, entry, len(devices))
        indices = range(len(devices), len(devices) + count)
        devices += [replace(first, uuid=simulated_uuid(seed, name, i), index=i) for i in indices]
    numa = _numa(entry, {device.numa_node or 0 for device in devices})
    return Machine(
        name=name,
        devices=tuple(devices),
        topology=_topology(entry, devices),
        cpu_count=sum(len(node.cpus) for node in numa) or entry.integer("cpu_count"),
        memory_bytes=sum(node.memory_bytes for node in numa) or entry.mib("memory_mib"),
        numa=numa,
        driver_version=entry.text("driver_version"),
        cuda_version=entry.text("cuda_version"),
        simulated=True,
    )


def _numa(entry: Entry, named: set[int]) -> tuple[NumaNode, ...]:
    """As told, else the whole host cut evenly over the NUMA nodes that its cards name; none where it is not known."""
    told = tuple(_numa_node(one, entry.where) for one in entry.sequence("numa"))
    twice = [number for number, times in Counter(one.number for one in told).items() if times > 1]
    if twice:
        raise BadMachine(f"two NUMA nodes of {entry.where} have the number {twice[0]}")
    shared = [cpu for cpu, times in Counter(cpu for one in told for cpu in one.cpus).items() if times > 1]
    if shared:
        raise BadMachine(f"two NUMA nodes of {entry.where} have processor {shared[0]}")
    cpus, memory = entry.integer("cpu_count"), entry.mib("memory_mib")
    return told or (evenly(named, cpus, memory) if cpus and memory else ())


def _numa_node(value: object, where: str) -> NumaNode:
    entry = Entry(value, f"a NUMA node of {where}", _NUMA_KEYS)
    number, cpus, memory = entry.integer("number", least=0), entry.text("cpus"), entry.mib("memory_mib")
    if number is None or cpus is None or memory is None:
        raise BadMachine(f"{entry.where} needs number, cpus and memory_mib")
    try:
        return NumaNode(number, parse_cpus(cpus), memory)
    except ValueError as problem:
        raise BadMachine(f'"cpus" of {entry.where} must be a list like "0-15,32-47", not {cpus!r}') from problem


def write_machine(machine: Machine) -> dict[str, Any]:
    """The document entry for a machine: everything but what names this very host's cards (uuids, health,
    users).
    """
    position = {device.uuid: i for i, device in enumerate(machine.devices)}
    links = [[position[k.a], position[k.b], k.count] for k in machine.topology.links if k.kind is LinkKind.NVLINK]
    domains = {
        str(kind): [sorted(position[u] for u in group) for group in groups]
        for kind, groups in machine.topology.domains.items()
        if groups
    }
    entry = {
        "name": machine.name,
        "cpu_count": machine.cpu_count,
        "memory_mib": None if machine.memory_bytes is None else machine.memory_bytes >> 20,
        "driver_version": machine.driver_version,
        "cuda_version": machine.cuda_version,
        "cards": [_write_card(device) for device in machine.devices],
        "numa": [
            {"number": node.number, "cpus": format_cpus(node.cpus), "memory_mib": node.memory_bytes >> 20}
            for node in machine.numa
        ],
        "nvlinks": links,
        "domains": domains,
    }
    return {key: value for key, value in entry.items() if value not in (None, [], {})}


def simulated_uuid(seed: str, node: str, index: int) -> str:
    """The same card of the same pool always has the same uuid; all of them start `GPU-5109`.

    >>> simulated_uuid("", "sim-0", 0)[:8], simulated_uuid("", "sim-0", 0) == simulated_uuid("", "sim-0", 1)
    ('GPU-5109', False)
    """
    hexed = "5109" + hashlib.sha256(f"{seed}\0{node}\0{index}".encode()).hexdigest()
    return f"GPU-{hexed[:8]}-{hexed[8:12]}-{hexed[12:16]}-{hexed[16:20]}-{hexed[20:32]}"


@lru_cache(maxsize=1024)
def known_model(name: str) -> CardModel:
    """The catalogue's entry for a model as somebody wrote it. Raises UnknownModel with the nearest name."""
    found = find_model(name, CATALOGUE)
    if found is not None:
        return CATALOGUE[found]
    near = nearest_model(name, CATALOGUE)
    hint = f"did you mean {near}?" if near else f"known models: {', '.join(sorted(CATALOGUE))}"
    raise UnknownModel(f"no card model is called {name!r}", hint=hint, model=name, nearest=near)


def check_size(nodes: int, most_cards: int, all_cards: int) -> None:
    """Refuse pools nobody can mean: empty ones, or more than the limits named in the message."""
    if min(nodes, most_cards) < 1:
        raise BadMachine("a simulated machine needs at least one card", hint="for example: --sim 4xL40S")
    if nodes > MAX_NODES or most_cards > MAX_CARDS_PER_NODE or all_cards > MAX_CARDS:
        limits = f"{MAX_NODES} nodes, {MAX_CARDS_PER_NODE} cards on a node, {MAX_CARDS} cards in all"
        asked = f"{nodes} nodes, {most_cards} cards on one of them, {all_cards} cards in all"
        raise BadMachine(f"too large to simulate: {asked}", hint=f"the limits are {limits}")


def _device(card: Entry, machine: Entry, index: int) -> Device:
    """A card without its uuid."""
    model = _model(card)
    return Device(
        uuid="",
        index=index,
        vendor=card.text("vendor") or model.vendor,
        product=card.text("product") or model.products[0],
        model=model.name,
        memory_bytes=card.mib("memory_mib") or model.memory_mib << 20,
        pci_address=card.text("pci_address"),
        numa_node=card.integer("numa_node", least=0),
        simulated=True,
        health=Health.OK,
        labels={key: str(value) for key, value in card.entry("labels").items()},
        architecture=card.text("architecture") or model.architecture,
        compute_capability=_capability(card) or model.compute_capability,
        multiprocessors=card.integer("multiprocessors") or model.multiprocessors,
        driver_version=card.text("driver_version") or machine.text("driver_version"),
        ecc_enabled=card.flag("ecc_enabled"),
        partitioned=card.flag("partitioned"),
        profiles=_profiles(card) if card.has("profiles") else mig_profiles(model.name),
    )


def _model(card: Entry) -> CardModel:
    """The catalogue's entry, or one made of the card's own words when a recorded card is not listed."""
    name, product, memory = card.text("model") or "", card.text("product"), card.integer("memory_mib")
    if name and product and memory and find_model(name, CATALOGUE) is None:
        return CardModel(name, (product,), memory, "", None, None, ())
    return known_model(name)


def _capability(card: Entry) -> tuple[int, int] | None:
    numbers = card.sequence("compute_capability")
    if len(numbers) not in (0, 2):
        raise BadMachine(f'"compute_capability" of {card.where} must be two numbers, not {numbers!r}')
    return (whole(numbers[0], card.where, 0), whole(numbers[1], card.where, 0)) if numbers else None


def _profiles(card: Entry) -> tuple[PartitionProfile, ...]:
    known = frozenset(field.name for field in fields(PartitionProfile))
    entries = [Entry(p, f"a profile of {card.where}", known) for p in card.sequence("profiles")]
    return tuple(_profile(entry) for entry in entries)


def _profile(entry: Entry) -> PartitionProfile:
    name, numbers = entry.text("name"), [entry.integer(key) for key in ("size", "memory_bytes", "max_count")]
    size, memory_bytes, max_count = numbers
    if not name or size is None or memory_bytes is None or max_count is None:
        raise BadMachine(f"{entry.where} needs name, size, memory_bytes, max_count and starts")
    return PartitionProfile(
        name=name,
        size=size,
        memory_bytes=memory_bytes,
        starts=tuple(whole(start, f"a start of {entry.where}", 0) for start in entry.sequence("starts")),
        max_count=max_count,
        gpu_milli=entry.integer("gpu_milli", least=0) or 0,
        profile_id=entry.integer("profile_id", least=0),
        media=entry.flag("media") or False,
    )


def _topology(entry: Entry, devices: list[Device]) -> Topology:
    uuids = tuple(device.uuid for device in devices)
    links = tuple(_link(link, uuids, entry.where) for link in entry.sequence("nvlinks"))
    given = entry.entry("domains")
    domains = {_kind(kind, entry.where): _groups(given, kind, uuids) for kind, _ in given.items()}
    numa = {device.uuid: device.numa_node for device in devices if device.numa_node is not None}
    return Topology(uuids, links, numa, domains)


def _link(link: object, uuids: tuple[str, ...], where: str) -> Link:
    if not isinstance(link, list) or len(link) != 3 or link[0] == link[1]:
        raise BadMachine(f"A link of {where} must be [card, other card, count], not {link!r}")
    a, b = (_uuid(index, uuids, where) for index in link[:2])
    return Link(a, b, LinkKind.NVLINK, whole(link[2], f"the count of a link of {where}", 1))


def _groups(given: Entry, kind: str, uuids: tuple[str, ...]) -> tuple[frozenset[str], ...]:
    groups = given.sequence(kind)
    if not all(isinstance(group, list) for group in groups):
        raise BadMachine(f'"{kind}" of {given.where} must be a list of lists of cards')
    found = tuple(frozenset(_uuid(index, uuids, given.where) for index in group) for group in groups)
    if sum(len(group) for group in found) != len(frozenset().union(*found)):
        raise BadMachine(f'"{kind}" of {given.where} has a card in two sets')
    return found


def _uuid(index: object, uuids: tuple[str, ...], where: str) -> str:
    if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < len(uuids):
        raise BadMachine(f"{where} has cards 0 to {len(uuids) - 1}, but names card {index!r}")
    return uuids[index]


def _kind(text: str, where: str) -> LinkKind:
    known = (LinkKind.NVSWITCH, LinkKind.PCIE_SWITCH, LinkKind.HOST_BRIDGE, LinkKind.NUMA)
    if text not in known:
        raise BadMachine(f"{where} has domains of kind {text!r}; known kinds: {', '.join(known)}")
    return LinkKind(text)


def _write_card(device: Device) -> dict[str, Any]:
    card = {
        "model": device.model,
        "product": device.product,
        "vendor": device.vendor,
        "memory_mib": device.memory_bytes >> 20,
        "numa_node": device.numa_node,
        "pci_address": device.pci_address,
        "labels": dict(device.labels),
        "architecture": device.architecture,
        "compute_capability": device.compute_capability and list(device.compute_capability),
        "multiprocessors": device.multiprocessors,
        "driver_version": device.driver_version,
        "ecc_enabled": device.ecc_enabled,
        "partitioned": device.partitioned,
        "profiles": [asdict(p) | {"starts": list(p.starts)} for p in device.profiles],
    }
    return {k: v for k, v in card.items() if v not in (None, {}) and (v != [] or k == "profiles")}
