"""Machines as data: the one file format for recorded hosts, shipped presets and machines people describe.

    {"format": 1, "machines": [{
       "name": "node-a", "cpu_count": 96, "memory_mib": 1031000,
       "cards": [{"model": "L40S", "count": 2, "numa_node": 0}, {"model": "T4", "numa_node": 1}],
       "nvlinks": [[0, 1, 4]],                       (card, card, number of links)
       "domains": {"pcie-switch": [[0, 1]]}}]}       (cards by index; kinds as in `model.topology`)

What a card entry leaves out comes from the catalogue. A file holds no uuids: a machine read from one is
simulated, whatever it was recorded from, and its uuids are made from the pool's seed, so that the same pool
always has the same cards. This module knows the format, not where files lie.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from gpupool.base.errors import BadMachine, UnknownModel
from gpupool.model.catalogue import CATALOGUE, CardModel, find_model, nearest_model
from gpupool.model.device import Device, Health
from gpupool.model.partition import PartitionProfile
from gpupool.model.topology import Link, LinkKind, Topology
from gpupool.probes.contract import Machine
from gpupool.probes.mig_tables import mig_profiles

FORMAT = 1
MAX_CARDS_PER_NODE = 128
MAX_NODES = 10_000
MAX_CARDS = 20_000

_CARD_KEYS = frozenset(
    [
        "model",
        "count",
        "product",
        "memory_mib",
        "numa_node",
        "labels",
        "pci_address",
        "architecture",
        "compute_capability",
        "multiprocessors",
        "driver_version",
        "ecc_enabled",
        "partitioned",
        "profiles",
        "vendor",
    ]
)
_MACHINE_KEYS = frozenset(
    ["name", "cards", "nvlinks", "domains", "cpu_count", "memory_mib", "driver_version", "cuda_version", "note"]
)


def read_machines(document: object, seed: str = "") -> tuple[Machine, ...]:
    """The machines a document describes, all simulated. Raises BadMachine or UnknownModel, naming the
    place.
    """
    root = _mapping(document, "the file")
    if root.get("format") != FORMAT:
        raise BadMachine(f"The machine file says format {root.get('format')!r}; this gpupool reads {FORMAT}")
    entries = _sequence(root.get("machines"), '"machines"')
    machines = tuple(read_machine(_mapping(m, f"machine {i}"), seed, f"sim-{i}") for i, m in enumerate(entries))
    totals = [len(m.devices) for m in machines]
    check_size(len(totals), max(totals, default=0), sum(totals))
    twice = [name for name, times in Counter(m.name for m in machines).items() if times > 1]
    if twice:
        raise BadMachine(f"Two machines are named {twice[0]!r}; every machine needs its own name")
    return machines


def read_machine(entry: Mapping[str, Any], seed: str, default_name: str) -> Machine:
    """One machine of a document; `default_name` is used where it has none."""
    name = str(entry.get("name", default_name))
    _no_strangers(entry, _MACHINE_KEYS, f"machine {name!r}")
    listed = _sequence(entry.get("cards"), f'"cards" of {name!r}')
    cards = [_mapping(card, f"a card of {name!r}") for card in listed]
    total = sum(_count(card, name) for card in cards)
    check_size(1, total, total)
    devices: list[Device] = []
    for card in cards:
        for _ in range(_count(card, name)):
            devices.append(_device(card, entry, seed, name, len(devices)))
    return Machine(
        name=name,
        devices=tuple(devices),
        topology=_topology(entry, devices, name),
        cpu_count=_integer(entry, "cpu_count", name),
        memory_bytes=_mib(entry, name),
        driver_version=entry.get("driver_version"),
        cuda_version=entry.get("cuda_version"),
        simulated=True,
    )


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
    hint = f"Did you mean {near}?" if near else f"Known models: {', '.join(sorted(CATALOGUE))}"
    raise UnknownModel(f"No card model is called {name!r}", hint=hint, model=name, nearest=near)


def check_size(nodes: int, most_cards: int, all_cards: int) -> None:
    """Refuse pools nobody can mean: empty ones, or more than the limits named in the message."""
    if min(nodes, most_cards) < 1:
        raise BadMachine("A simulated machine needs at least one card", hint="For example: --sim 4xL40S")
    if nodes > MAX_NODES or most_cards > MAX_CARDS_PER_NODE or all_cards > MAX_CARDS:
        limits = f"{MAX_NODES} nodes, {MAX_CARDS_PER_NODE} cards on a node, {MAX_CARDS} cards in all"
        asked = f"{nodes} nodes, {most_cards} cards on one of them, {all_cards} cards in all"
        raise BadMachine(f"Too large to simulate: {asked}", hint=f"The limits are {limits}.")


def _device(card: Mapping[str, Any], machine: Mapping[str, Any], seed: str, node: str, index: int) -> Device:
    where = f"card {index} of {node!r}"
    model = known_model(str(card.get("model", "")))
    capability = card.get("compute_capability", model.compute_capability)
    profiles = card.get("profiles")
    return Device(
        uuid=simulated_uuid(seed, node, index),
        index=index,
        vendor=str(card.get("vendor", model.vendor)),
        product=str(card.get("product", model.products[0])),
        model=model.name,
        memory_bytes=_mib(card, where) or model.memory_mib << 20,
        pci_address=card.get("pci_address"),
        numa_node=_integer(card, "numa_node", where, least=0),
        simulated=True,
        health=Health.OK,
        labels={str(k): str(v) for k, v in _mapping(card.get("labels", {}), f"labels of {where}").items()},
        architecture=card.get("architecture", model.architecture),
        compute_capability=None if capability is None else (int(capability[0]), int(capability[1])),
        multiprocessors=_integer(card, "multiprocessors", where) or model.multiprocessors,
        driver_version=card.get("driver_version", machine.get("driver_version")),
        ecc_enabled=card.get("ecc_enabled"),
        partitioned=card.get("partitioned"),
        profiles=mig_profiles(model.name) if profiles is None else _profiles(profiles, where),
    )


def _profiles(entries: object, where: str) -> tuple[PartitionProfile, ...]:
    shapes = [dict(_mapping(p, f"a profile of {where}")) for p in _sequence(entries, f"profiles of {where}")]
    try:
        return tuple(PartitionProfile(**(s | {"starts": tuple(s["starts"])})) for s in shapes)
    except (TypeError, KeyError) as problem:
        raise BadMachine(f"A profile of {where} is not understood: {problem}") from problem


def _topology(entry: Mapping[str, Any], devices: list[Device], name: str) -> Topology:
    uuids = tuple(device.uuid for device in devices)

    def uuid(index: object) -> str:
        if not isinstance(index, int) or not 0 <= index < len(uuids):
            raise BadMachine(f"Machine {name!r} has cards 0 to {len(uuids) - 1}, but a link names {index!r}")
        return uuids[index]

    links = []
    for link in _sequence(entry.get("nvlinks", []), f"nvlinks of {name!r}"):
        if not isinstance(link, list) or len(link) != 3 or link[0] == link[1]:
            raise BadMachine(f"A link of {name!r} must be [card, other card, count], not {link!r}")
        links.append(Link(uuid(link[0]), uuid(link[1]), LinkKind.NVLINK, int(link[2])))
    domains = {
        _kind(kind, name): tuple(frozenset(uuid(i) for i in _sequence(g, f"{kind} of {name!r}")) for g in groups)
        for kind, groups in _mapping(entry.get("domains", {}), f"domains of {name!r}").items()
    }
    numa = {device.uuid: device.numa_node for device in devices if device.numa_node is not None}
    return Topology(uuids, tuple(links), numa, domains)


def _kind(text: str, name: str) -> LinkKind:
    switched = (LinkKind.NVSWITCH, LinkKind.PCIE_SWITCH, LinkKind.HOST_BRIDGE)
    if text not in switched:
        known = ", ".join(switched)
        raise BadMachine(f"Machine {name!r} has domains of kind {text!r}; known kinds: {known}")
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


def _count(card: Mapping[str, Any], name: str) -> int:
    _no_strangers(card, _CARD_KEYS, f"a card of {name!r}")
    count = _integer(card, "count", f"a card of {name!r}", least=1)
    return 1 if count is None else count


def _integer(entry: Mapping[str, Any], key: str, where: str, least: int = 1) -> int | None:
    value = entry.get(key)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise BadMachine(f'"{key}" of {where} must be a whole number of at least {least}, not {value!r}')
    return value


def _mib(entry: Mapping[str, Any], where: str) -> int | None:
    value = _integer(entry, "memory_mib", where)
    return None if value is None else value << 20


def _mapping(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise BadMachine(f"{what} must be an object with keys, not {type(value).__name__}")
    return value


def _sequence(value: object, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise BadMachine(f"{what} must be a list, not {type(value).__name__}")
    return value


def _no_strangers(entry: Mapping[str, Any], known: frozenset[str], what: str) -> None:
    if strangers := sorted(set(entry) - known):
        hint = f"Known keys: {', '.join(sorted(known))}"
        raise BadMachine(f"{what} has an unknown key {strangers[0]!r}", hint=hint)
