"""What matters of a Node object, and the cluster's nodes and cards as the scheduler's columns. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpupool.base import quantities
from gpupool.kubernetes import capacities
from gpupool.kubernetes.eligible import UNSCHEDULABLE
from gpupool.kubernetes.needs import Port, others, summed
from gpupool.kubernetes.objects import GpuNode, Mode
from gpupool.kubernetes.reported import Card
from gpupool.model.device import Health
from gpupool.scheduling.levels import levels_of
from gpupool.scheduling.snapshot import CARD_STATUS, Cards, CardStatus, Hosts, Ints

STANDARD_LEVELS = {"topology.kubernetes.io/zone": "zone"}
"""Labels of Kubernetes' own that are levels above the node."""


@dataclass(frozen=True)
class Host:
    """A Node, as far as a placement depends on it."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, Any], ...] = ()
    cpu_milli: int = 0
    memory_bytes: int = 0
    pods: int = 0
    ready: bool = False
    whole_only: bool = False
    """Its ledger says so, not the Node."""
    has: tuple[tuple[str, int], ...] = ()
    """What it says that it has of our resources."""
    resources: tuple[tuple[str, int], ...] = ()
    """What it has beside those, processors, memory and pods."""

    @classmethod
    def from_json(cls, node: Mapping[str, Any]) -> Host:
        meta, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
        has = status.get("allocatable") or {}
        cordoned = [UNSCHEDULABLE] if spec.get("unschedulable") else []
        return cls(
            name=meta["name"],
            labels=meta.get("labels") or {},
            taints=(*(spec.get("taints") or ()), *cordoned),
            cpu_milli=quantities.milli(has.get("cpu", 0)),
            memory_bytes=quantities.whole(has.get("memory", 0)),
            pods=quantities.whole(has.get("pods", 0)),
            ready=any(c.get("type") == "Ready" and c.get("status") == "True" for c in status.get("conditions") or ()),
            has=capacities.of_node(status),
            resources=tuple(
                sorted((key, quantities.whole(size)) for key, size in has.items() if others(key) and key != "pods")
            ),
        )


def handing_out(host: Host, ledger: GpuNode) -> Host:
    """With what its ledger says of how its cards are handed out."""
    return replace(host, whole_only=True) if ledger.mode is Mode.WHOLE else host


@dataclass(frozen=True)
class Use:
    """What pods ask of one node, others' and ours, bound or about to be."""

    cpu_milli: int = 0
    memory_bytes: int = 0
    pods: int = 0
    ports: tuple[Port, ...] = ()
    resources: tuple[tuple[str, int], ...] = ()
    claims: tuple[tuple[str, str], ...] = ()
    """PersistentVolumeClaims that ours use there: (namespace, name)."""

    def __add__(self, other: Use) -> Use:
        return Use(
            self.cpu_milli + other.cpu_milli,
            self.memory_bytes + other.memory_bytes,
            self.pods + other.pods,
            self.ports + other.ports,
            summed((self.resources, other.resources)),
            self.claims + other.claims,
        )


@dataclass(frozen=True)
class Site:
    """One node with its ledger and what is asked of it; `marks` are labels that only a snapshot knows."""

    host: Host
    ledger: GpuNode
    use: Use = Use()
    marks: Mapping[str, str] = field(default_factory=dict)

    @property
    def layout(self) -> tuple[object, ...]:
        """What the columns are laid out by; what else changes is a number in them."""
        cards = tuple((card.uuid, card.model, card.vendor, card.memory_bytes) for card in self.ledger.cards)
        statuses = tuple(self.status(card) for card in self.ledger.cards)
        return cards, statuses, self.host.labels, self.marks, self.host.cpu_milli, self.host.memory_bytes

    @property
    def has_room(self) -> bool:
        """Whether all that is to be on it fits and it can take it, as far as is known."""
        cpu, memory, pods = self.host.cpu_milli, self.host.memory_bytes, self.host.pods
        fits = self.use.cpu_milli <= cpu and self.use.memory_bytes <= memory and self.use.pods <= pods
        has, ports = dict(self.host.resources), self.use.ports
        fits &= all(amount <= has.get(name, 0) for name, amount in self.use.resources)
        fits &= not any(one.meets(other) for n, one in enumerate(ports) for other in ports[:n])
        return fits and self.host.ready and self.ledger.ready

    def status(self, card: Card) -> CardStatus:
        """Whether the card can be given out."""
        if self.ledger.mode is Mode.OBSERVE:
            return CardStatus.NOT_ADOPTED
        if not (self.host.ready and self.ledger.ready) or card.health in (Health.FAILED, Health.UNKNOWN):
            return CardStatus.UNHEALTHY
        if self.ledger.unaccounted:
            return CardStatus.DRAINING
        full = self.use.pods >= self.host.pods or len(self.ledger.entries) >= self.ledger.slot_count
        return CardStatus.DRAINING if full else CardStatus.OPEN


def columns_of(sites: Sequence[Site]) -> Cards:
    """The columns, cards in the order of the sites and of their index."""
    flat = [(number, card) for number, site in enumerate(sites) for card in site.ledger.cards]
    kinds = tuple(dict.fromkeys((card.model, card.vendor) for _, card in flat))
    place = {kind: number for number, kind in enumerate(kinds)}
    cards = Cards(
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
        levels=levels_of([_standard(site.host.labels) for site in sites]),
        links={n: site.ledger.topology for n, site in enumerate(sites) if site.ledger.topology.devices},
    )
    for number, site in enumerate(sites):
        fill(cards, number, site)
    return cards


def copy_of(cards: Cards) -> Cards:
    """With numbers of its own: what is written into the columns later does not change it."""
    hosts = cards.hosts and replace(
        cards.hosts,
        free_cpu_milli=cards.hosts.free_cpu_milli.copy(),
        free_memory_bytes=cards.hosts.free_memory_bytes.copy(),
    )
    columns = cards.free_milli.copy(), cards.free_bytes.copy(), cards.generation.copy()
    return replace(cards, free_milli=columns[0], free_bytes=columns[1], generation=columns[2], hosts=hosts)


def fill(cards: Cards, number: int, site: Site) -> None:
    """Write what is free on one node now into the columns."""
    first = int(np.searchsorted(cards.node, number))
    for row, (card, left) in enumerate(zip(site.ledger.cards, site.ledger.free().values(), strict=True), start=first):
        cards.free_milli[row] = left.gpu_milli
        cards.free_bytes[row] = left.memory_bytes
        cards.generation[row] = site.ledger.version
        assert cards.uuids[row] == card.uuid
    if cards.hosts is not None:
        cards.hosts.free_cpu_milli[number] = site.host.cpu_milli - site.use.cpu_milli
        cards.hosts.free_memory_bytes[number] = site.host.memory_bytes - site.use.memory_bytes


def _hosts(sites: Sequence[Site]) -> Hosts:
    cpu, memory = _ints(site.host.cpu_milli for site in sites), _ints(site.host.memory_bytes for site in sites)
    return Hosts(cpu, memory, cpu.copy(), memory.copy())


def _standard(labels: Mapping[str, str]) -> dict[str, str]:
    return {**labels, **{ours: labels[theirs] for theirs, ours in STANDARD_LEVELS.items() if theirs in labels}}


def _ints(values: Iterable[int]) -> Ints:
    return np.fromiter(values, dtype=np.int64)
