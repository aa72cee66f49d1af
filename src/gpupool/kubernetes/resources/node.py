"""What matters of a Node object, and the cluster's nodes and cards as the scheduler's columns.
Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpupool.base import quantities
from gpupool.kubernetes.resources import node_capacity
from gpupool.kubernetes.resources.card_offers import build_card_offers
from gpupool.kubernetes.resources.gpu_node import GpuNode, Mode
from gpupool.kubernetes.resources.gpu_node_status import ReportedCard
from gpupool.kubernetes.resources.node_affinity import UNSCHEDULABLE
from gpupool.kubernetes.resources.pod_constraints import HostPort, is_foreign_resource, sum_amounts
from gpupool.model.device import DeviceHealth
from gpupool.model.partition import PartitionProfile, PartitionSlot, select_foreign_slots
from gpupool.scheduling import (
    CARD_STATUS,
    CardStatus,
    CardTable,
    HostColumns,
    Ints,
    PartitionLayout,
    build_levels,
)

#: Labels of Kubernetes' own that are levels above the node.
STANDARD_LEVELS = {"topology.kubernetes.io/zone": "zone"}


@dataclass(frozen=True)
class NodeFacts:
    """A Node, as far as a placement depends on it."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, Any], ...] = ()
    cpu_milli: int = 0
    memory_bytes: int = 0
    pods: int = 0
    ready: bool = False
    #: Its ledger says so, not the Node.
    whole_only: bool = False
    #: What it says that it has of our resources.
    has: tuple[tuple[str, int], ...] = ()
    #: What it has beside those, processors, memory and pods.
    resources: tuple[tuple[str, int], ...] = ()

    @classmethod
    def from_json(cls, node: Mapping[str, Any]) -> NodeFacts:
        meta = node["metadata"]
        spec = node.get("spec") or {}
        status = node.get("status") or {}
        has = status.get("allocatable") or {}
        cordoned = [UNSCHEDULABLE] if spec.get("unschedulable") else []
        resources = []
        for key, size in has.items():
            if is_foreign_resource(key) and key != "pods":
                resources.append((key, quantities.parse_whole(size)))
        return cls(
            name=meta["name"],
            labels=meta.get("labels") or {},
            taints=(*(spec.get("taints") or ()), *cordoned),
            cpu_milli=quantities.parse_milli(has.get("cpu", 0)),
            memory_bytes=quantities.parse_whole(has.get("memory", 0)),
            pods=quantities.parse_whole(has.get("pods", 0)),
            ready=any(
                c.get("type") == "Ready" and c.get("status") == "True"
                for c in status.get("conditions") or ()
            ),
            has=node_capacity.read_capacities(status),
            resources=tuple(sorted(resources)),
        )


def with_ledger_mode(host: NodeFacts, ledger: GpuNode) -> NodeFacts:
    """With what its ledger says of how its cards are handed out."""
    return replace(host, whole_only=True) if ledger.mode is Mode.WHOLE else host


@dataclass(frozen=True)
class NodeUsage:
    """What pods ask of one node, others' and ours, bound or about to be."""

    cpu_milli: int = 0
    memory_bytes: int = 0
    pods: int = 0
    ports: tuple[HostPort, ...] = ()
    resources: tuple[tuple[str, int], ...] = ()
    #: PersistentVolumeClaims that ours use there: (namespace, name).
    claims: tuple[tuple[str, str], ...] = ()

    def __add__(self, other: NodeUsage) -> NodeUsage:
        return NodeUsage(
            self.cpu_milli + other.cpu_milli,
            self.memory_bytes + other.memory_bytes,
            self.pods + other.pods,
            self.ports + other.ports,
            sum_amounts((self.resources, other.resources)),
            self.claims + other.claims,
        )


@dataclass(frozen=True)
class NodeState:
    """One node with its ledger and what is asked of it; `marks` are labels that only a snapshot
    knows."""

    host: NodeFacts
    ledger: GpuNode
    use: NodeUsage = NodeUsage()
    marks: Mapping[str, str] = field(default_factory=dict)

    @property
    def layout(self) -> tuple[object, ...]:
        """What the columns are laid out by; what else changes is a number in them."""
        facts = []
        for card in self.ledger.cards:
            size = card.memory_bytes
            facts.append((card.uuid, card.model, card.vendor, size, card.profiles, card.share))
        cards = tuple(facts)
        statuses = tuple(self.status(card) for card in self.ledger.cards)
        return (
            cards,
            statuses,
            self.host.labels,
            self.marks,
            self.host.cpu_milli,
            self.host.memory_bytes,
        )

    @property
    def has_room(self) -> bool:
        """Whether all that is to be on it fits and it can take it, as far as is known."""
        cpu = self.host.cpu_milli
        memory = self.host.memory_bytes
        pods = self.host.pods
        fits = (
            self.use.cpu_milli <= cpu and self.use.memory_bytes <= memory and self.use.pods <= pods
        )
        has = dict(self.host.resources)
        ports = self.use.ports
        fits &= all(amount <= has.get(name, 0) for name, amount in self.use.resources)
        fits &= not any(one.meets(other) for n, one in enumerate(ports) for other in ports[:n])
        return fits and self.host.ready and self.ledger.ready

    def status(self, card: ReportedCard) -> CardStatus:
        """Whether the card can be given out."""
        if self.ledger.mode is Mode.OBSERVE:
            return CardStatus.NOT_ADOPTED
        if not (self.host.ready and self.ledger.ready) or card.health in (
            DeviceHealth.FAILED,
            DeviceHealth.UNKNOWN,
        ):
            return CardStatus.UNHEALTHY
        if self.ledger.unaccounted_uses:
            return CardStatus.DRAINING
        full = self.use.pods >= self.host.pods or len(self.ledger.entries) >= self.ledger.slot_count
        return CardStatus.DRAINING if full else CardStatus.OPEN


def build_columns(sites: Sequence[NodeState]) -> CardTable:
    """The columns, cards in the order of the sites and of their index."""
    flat = [(number, card) for number, site in enumerate(sites) for card in site.ledger.cards]
    kinds = tuple(dict.fromkeys((card.model, card.vendor) for _, card in flat))
    place = {kind: number for number, kind in enumerate(kinds)}
    links = {}
    for n, site in enumerate(sites):
        if site.ledger.topology.devices:
            links[n] = site.ledger.topology
    offers = {}
    for row, (_, card) in enumerate(flat):
        if card.share is not None:
            offers[row] = build_card_offers(card.share, simulated=card.simulated)
    cards = CardTable(
        uuids=tuple(card.uuid for _, card in flat),
        models=tuple(model for model, _ in kinds),
        vendors=tuple(vendor for _, vendor in kinds),
        nodes=tuple(site.host.name for site in sites),
        node_labels=tuple({**site.host.labels, **site.marks} for site in sites),
        model=_ints(place[card.model, card.vendor] for _, card in flat),
        node=_ints(number for number, _ in flat),
        status=_ints(CARD_STATUS.index(sites[number].status(card)) for number, card in flat),
        memory_bytes=_ints(card.memory_bytes for _, card in flat),
        free_milli=np.zeros(len(flat), dtype=np.int64),
        free_bytes=np.zeros(len(flat), dtype=np.int64),
        generation=np.zeros(len(flat), dtype=np.int64),
        hosts=_hosts(sites),
        levels=build_levels([_standard(site.host.labels) for site in sites]),
        links=links,
        layouts={},
        offers=offers,
    )
    for number, site in enumerate(sites):
        fill_columns(cards, number, site)
    return cards


def copy_columns(cards: CardTable) -> CardTable:
    """With numbers of its own: what is written into the columns later does not change it."""
    hosts = cards.hosts and replace(
        cards.hosts,
        free_cpu_milli=cards.hosts.free_cpu_milli.copy(),
        free_memory_bytes=cards.hosts.free_memory_bytes.copy(),
    )
    columns = cards.free_milli.copy(), cards.free_bytes.copy(), cards.generation.copy()
    return replace(
        cards,
        free_milli=columns[0],
        free_bytes=columns[1],
        generation=columns[2],
        hosts=hosts,
        layouts=dict(cards.layouts),
    )


def fill_columns(cards: CardTable, number: int, site: NodeState) -> None:
    """Write what is free on one node now into the columns."""
    first = int(np.searchsorted(cards.node, number))
    slots = site.ledger.slots_by_card()
    for row, (card, left) in enumerate(
        zip(site.ledger.cards, site.ledger.free_amounts().values(), strict=True), start=first
    ):
        cards.free_milli[row] = left.gpu_milli
        cards.free_bytes[row] = left.memory_bytes
        cards.generation[row] = site.ledger.version
        assert cards.uuids[row] == card.uuid
        own = slots.get(card.uuid, ())
        taken = (*own, *select_foreign_slots(card.foreign, own))
        _set_layout(cards, row, card.profiles, tuple(sorted(taken)))
    if cards.hosts is not None:
        cards.hosts.free_cpu_milli[number] = site.host.cpu_milli - site.use.cpu_milli
        cards.hosts.free_memory_bytes[number] = site.host.memory_bytes - site.use.memory_bytes


def _set_layout(
    cards: CardTable,
    row: int,
    profiles: tuple[PartitionProfile, ...] | None,
    slots: tuple[PartitionSlot, ...],
) -> None:
    # The columns of `build_columns` have a dictionary of their own; a snapshot gets a copy.
    assert isinstance(cards.layouts, dict)
    if profiles is None and not slots:
        cards.layouts.pop(row, None)
        return
    # A card may lose the mode while the ledger still holds partitions of it. Then it takes nothing
    # until their pods have gone.
    cards.layouts[row] = PartitionLayout(profiles or (), slots)


def _hosts(sites: Sequence[NodeState]) -> HostColumns:
    cpu = _ints(site.host.cpu_milli for site in sites)
    memory = _ints(site.host.memory_bytes for site in sites)
    return HostColumns(cpu, memory, cpu.copy(), memory.copy())


def _standard(labels: Mapping[str, str]) -> dict[str, str]:
    return {
        **labels,
        **{ours: labels[theirs] for theirs, ours in STANDARD_LEVELS.items() if theirs in labels},
    }


def _ints(values: Iterable[int]) -> Ints:
    return np.fromiter(values, dtype=np.int64)
