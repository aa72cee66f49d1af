"""Reads and writes machine files: recorded hosts, shipped presets and machines that users describe.

    {"format": 1, "machines": [{
       "name": "node-a", "cpu_count": 96, "memory_mib": 1031000,
       "cards": [{"model": "L40S", "count": 2, "numa_node": 0}, {"model": "T4", "numa_node": 1}],
       "numa": [{"number": 0, "cpus": "0-47", "memory_mib": 515500}, …],
       "nvlinks": [[0, 1, 4]],                       (card, card, number of links)
       "domains": {"pcie-switch": [[0, 1]]}}]}       (cards by index; kinds as in `model.topology`)

What a card entry leaves out comes from the catalogue; one that is not listed there gives product
and memory. Where `numa` is left out, processors and memory are cut evenly over the NUMA nodes that
the cards name. A file holds no uuids: a machine read from one is simulated, whatever it was
recorded from, and its uuids are made from the pool's seed, so that the same pool always has the
same cards. Knows the format, not where files lie.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import fields, replace
from functools import lru_cache
from typing import TypeVar

from gpupool.base.errors import BadMachine, UnknownModel
from gpupool.base.ids import check_name
from gpupool.model.catalogue import CATALOGUE, CardModel, find_model, nearest_model
from gpupool.model.device import Device, DeviceHealth
from gpupool.model.numa import NumaNode, divide_evenly, parse_cpus
from gpupool.model.partition import PartitionProfile
from gpupool.probes.contract import Machine
from gpupool.probes.document_topology import read_topology
from gpupool.probes.entry import MachineEntry, check_whole
from gpupool.probes.mig_tables import list_mig_profiles

#: Version of the file format; another one is refused.
FORMAT = 1
#: Limits of what can be simulated: cards that a machine file of the simulated driver holds, and
#: what a pool plans for in reasonable time.
MAX_CARDS_PER_NODE = 128
MAX_NODES = 10_000
MAX_CARDS = 20_000

_CARD_KEYS = frozenset(
    {
        "model",
        "count",
        "vendor",
        "product",
        "memory_mib",
        "numa_node",
        "labels",
        "pci_address",
        "architecture",
    }
    | {
        "compute_capability",
        "multiprocessors",
        "driver_version",
        "ecc_enabled",
        "partitioned",
        "profiles",
    }
)
_MACHINE_KEYS = frozenset(
    {
        "name",
        "note",
        "cards",
        "nvlinks",
        "domains",
        "cpu_count",
        "memory_mib",
        "driver_version",
        "cuda_version",
    }
    | {"numa"}
)
_Value = TypeVar("_Value", bound=Hashable)

_NUMA_KEYS = frozenset({"number", "cpus", "memory_mib"})


def read_machines(document: object, seed: str = "") -> tuple[Machine, ...]:
    """Return the machines that a document describes, all of them simulated.

    Raises:
        BadMachine: the document is damaged; the message names the place.
        UnknownModel: a card's model is unknown.
    """
    root = MachineEntry(document, "the file", frozenset({"format", "machines"}))
    if root.read_integer("format") != FORMAT:
        raise BadMachine(
            f"the machine file is of format {root.read_integer('format')}; this gpupool reads {FORMAT}"
        )
    entries = root.read_list("machines")
    check_size(len(entries), 1, len(entries))
    machines = tuple(read_machine(entry, seed, f"sim-{i}") for i, entry in enumerate(entries))
    totals = [len(m.devices) for m in machines]
    check_size(len(totals), max(totals), sum(totals))
    twice = _find_repeated([one.name for one in machines])
    if twice is not None:
        raise BadMachine(f"two machines are named {twice!r}; every machine needs its own name")
    return machines


def _find_repeated(values: Iterable[_Value]) -> _Value | None:
    """Return the first value that occurs twice, None where each occurs once."""
    for value, times in Counter(values).items():
        if times > 1:
            return value
    return None


def read_machine(value: object, seed: str, default_name: str) -> Machine:
    """Return one machine of a document; `default_name` is used where it has none."""
    entry = MachineEntry(value, f"machine {default_name!r}", _MACHINE_KEYS)
    name = check_name(entry.read_text("name") or default_name, "the machine's name")
    cards = [
        MachineEntry(card, f"a card of {name!r}", _CARD_KEYS) for card in entry.read_list("cards")
    ]
    counts = [card.read_integer("count") or 1 for card in cards]
    check_size(1, sum(counts), sum(counts))
    devices: list[Device] = []
    # Cards of one entry differ only in index and uuid.
    for card, count in zip(cards, counts, strict=True):
        first = _read_device(card, entry, len(devices))
        indices = range(len(devices), len(devices) + count)
        devices += [
            replace(first, uuid=make_simulated_uuid(seed, name, i), index=i) for i in indices
        ]
    numa = _read_numa(entry, {device.numa_node or 0 for device in devices})
    return Machine(
        name=name,
        devices=tuple(devices),
        topology=read_topology(entry, devices),
        cpu_count=sum(len(node.cpus) for node in numa) or entry.read_integer("cpu_count"),
        memory_bytes=sum(node.memory_bytes for node in numa) or entry.read_mib("memory_mib"),
        numa=numa,
        driver_version=entry.read_text("driver_version"),
        cuda_version=entry.read_text("cuda_version"),
        simulated=True,
    )


def _read_numa(entry: MachineEntry, named: set[int]) -> tuple[NumaNode, ...]:
    """Return the NUMA nodes of a machine; none where they are not known.

    Without an entry the host is divided evenly over the NUMA nodes that its cards name.
    """
    nodes = tuple(_read_numa_node(one, entry.where) for one in entry.read_list("numa"))
    twice = _find_repeated([one.number for one in nodes])
    if twice is not None:
        raise BadMachine(f"two NUMA nodes of {entry.where} have the number {twice}")
    all_cpus: list[int] = []
    for one in nodes:
        all_cpus += one.cpus
    shared = _find_repeated(all_cpus)
    if shared is not None:
        raise BadMachine(f"two NUMA nodes of {entry.where} have processor {shared}")
    cpus = entry.read_integer("cpu_count")
    memory = entry.read_mib("memory_mib")
    return nodes or (divide_evenly(named, cpus, memory) if cpus and memory else ())


def _read_numa_node(value: object, where: str) -> NumaNode:
    entry = MachineEntry(value, f"a NUMA node of {where}", _NUMA_KEYS)
    number = entry.read_integer("number", least=0)
    cpus = entry.read_text("cpus")
    memory = entry.read_mib("memory_mib")
    if number is None or cpus is None or memory is None:
        raise BadMachine(f"{entry.where} needs number, cpus and memory_mib")
    try:
        return NumaNode(number, parse_cpus(cpus), memory)
    except ValueError as problem:
        raise BadMachine(
            f'"cpus" of {entry.where} must be a list like "0-15,32-47", not {cpus!r}'
        ) from problem


def make_simulated_uuid(seed: str, node: str, index: int) -> str:
    """Return the uuid of a simulated card: always the same for the same pool, node and index.

    >>> make_simulated_uuid("", "sim-0", 0)[:8]
    'GPU-5109'
    """
    # A fixed beginning tells simulated cards from real ones in any output.
    hexed = "5109" + hashlib.sha256(f"{seed}\0{node}\0{index}".encode()).hexdigest()
    return f"GPU-{hexed[:8]}-{hexed[8:12]}-{hexed[12:16]}-{hexed[16:20]}-{hexed[20:32]}"


@lru_cache(maxsize=1024)
def find_known_model(name: str) -> CardModel:
    """Return the catalogue's entry for a model as a user wrote it.

    Raises:
        UnknownModel: with the nearest name.
    """
    found = find_model(name, CATALOGUE)
    if found is not None:
        return CATALOGUE[found]
    near = nearest_model(name, CATALOGUE)
    hint = f"did you mean {near}?" if near else f"known models: {', '.join(sorted(CATALOGUE))}"
    raise UnknownModel(f"no card model is called {name!r}", hint=hint, model=name, nearest=near)


def check_size(nodes: int, most_cards: int, all_cards: int) -> None:
    """Refuse pools that are empty, or beyond the limits that the message names."""
    if min(nodes, most_cards) < 1:
        raise BadMachine(
            "a simulated machine needs at least one card", hint="for example: --sim 4xL40S"
        )
    if nodes > MAX_NODES or most_cards > MAX_CARDS_PER_NODE or all_cards > MAX_CARDS:
        limits = (
            f"{MAX_NODES} nodes, {MAX_CARDS_PER_NODE} cards on a node, {MAX_CARDS} cards in all"
        )
        asked = f"{nodes} nodes, {most_cards} cards on one of them, {all_cards} cards in all"
        raise BadMachine(f"too large to simulate: {asked}", hint=f"the limits are {limits}")


def _read_device(card: MachineEntry, machine: MachineEntry, index: int) -> Device:
    """Return a card without its uuid."""
    model = _read_model(card)
    return Device(
        uuid="",
        index=index,
        vendor=card.read_text("vendor") or model.vendor,
        product=card.read_text("product") or model.products[0],
        model=model.name,
        memory_bytes=card.read_mib("memory_mib") or model.memory_mib << 20,
        pci_address=card.read_text("pci_address"),
        numa_node=card.read_integer("numa_node", least=0),
        simulated=True,
        health=DeviceHealth.OK,
        labels={key: str(value) for key, value in card.read_entry("labels").iterate_items()},
        architecture=card.read_text("architecture") or model.architecture,
        compute_capability=_read_capability(card) or model.compute_capability,
        multiprocessors=card.read_integer("multiprocessors") or model.multiprocessors,
        driver_version=card.read_text("driver_version") or machine.read_text("driver_version"),
        ecc_enabled=card.read_flag("ecc_enabled"),
        partitioned=card.read_flag("partitioned"),
        profiles=_read_profiles(card)
        if card.has_key("profiles")
        else list_mig_profiles(model.name),
    )


def _read_model(card: MachineEntry) -> CardModel:
    """Return the catalogue's entry, or one made from the entry of a card that is not listed."""
    name = card.read_text("model") or ""
    product = card.read_text("product")
    memory = card.read_integer("memory_mib")
    if name and product and memory and find_model(name, CATALOGUE) is None:
        return CardModel(name, (product,), memory, "", None, None, ())
    return find_known_model(name)


def _read_capability(card: MachineEntry) -> tuple[int, int] | None:
    numbers = card.read_list("compute_capability")
    if len(numbers) not in (0, 2):
        raise BadMachine(
            f'"compute_capability" of {card.where} must be two numbers, not {numbers!r}'
        )
    return (
        (check_whole(numbers[0], card.where, 0), check_whole(numbers[1], card.where, 0))
        if numbers
        else None
    )


def _read_profiles(card: MachineEntry) -> tuple[PartitionProfile, ...]:
    known = frozenset(field.name for field in fields(PartitionProfile))
    profiles = []
    for one in card.read_list("profiles"):
        profiles.append(_read_profile(MachineEntry(one, f"a profile of {card.where}", known)))
    return tuple(profiles)


def _read_profile(entry: MachineEntry) -> PartitionProfile:
    name = entry.read_text("name")
    size = entry.read_integer("size")
    memory_bytes = entry.read_integer("memory_bytes")
    max_count = entry.read_integer("max_count")
    if not name or size is None or memory_bytes is None or max_count is None:
        raise BadMachine(f"{entry.where} needs name, size, memory_bytes, max_count and starts")
    return PartitionProfile(
        name=name,
        size=size,
        memory_bytes=memory_bytes,
        starts=tuple(
            check_whole(start, f"a start of {entry.where}", 0)
            for start in entry.read_list("starts")
        ),
        max_count=max_count,
        gpu_milli=entry.read_integer("gpu_milli", least=0) or 0,
        profile_id=entry.read_integer("profile_id", least=0),
        media=entry.read_flag("media") or False,
    )
