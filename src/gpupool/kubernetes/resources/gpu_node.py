"""`GpuNode`, one per node: the ledger of its cards (`spec`) and the report of its agent (`status`).

`spec.allocations` is the only truth about which pod has which card. The controller alone writes it,
naming the generation that it read. Operators write `spec.mode`, and the node's agent writes
`status` alone. This module has the shapes and their JSON, no rules and no requests. Sizes are
bytes, compute is thousandths of a card.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

from gpupool.base.units import WHOLE
from gpupool.kubernetes.resources import managed_fields, names
from gpupool.kubernetes.resources.closed_intervals import (
    ClosedInterval,
    seats_from_json,
    seats_to_json,
)
from gpupool.kubernetes.resources.entry_text import format_entry, parse_entry
from gpupool.kubernetes.resources.gpu_node_status import ForeignUsage, ReportedCard, SlotUse
from gpupool.kubernetes.resources.gpu_time import GpuTime
from gpupool.model.allocation import Seat
from gpupool.model.claim import SharingKind
from gpupool.model.isolation.claim_needs import IsolationKind
from gpupool.model.partition import PartitionSlot
from gpupool.model.topology import Topology, read_topology

Json = Mapping[str, Any]


class Mode(StrEnum):
    """What gpupool does with a node: observe it, hand out shares and cards, or whole cards alone."""

    OBSERVE = "observe"
    SLOT = "slot"
    WHOLE = "whole"


class EntryState(StrEnum):
    """State of an entry of the ledger. The entry holds its cards in all of them."""

    #: Written before the pod's gate is removed.
    RESERVED = "reserved"
    #: The node's agent has prepared it.
    ACTIVE = "active"
    #: The pod is gone; its agent has not reported the cards as free yet.
    DRAINING = "draining"


ENTRY_TRANSITIONS: Mapping[EntryState, frozenset[EntryState]] = {
    EntryState.RESERVED: frozenset({EntryState.ACTIVE, EntryState.DRAINING}),
    EntryState.ACTIVE: frozenset({EntryState.DRAINING}),
    EntryState.DRAINING: frozenset(),
}


class EvictionOrder(NamedTuple):
    """An order to evict a pod. Only the ledger holds orders, and an eviction names `pod_version`."""

    #: The claim or gang for which the pod is evicted; empty if its card has failed.
    beneficiary: str = ""
    #: The pod's version when the order was written.
    pod_version: str = ""


@dataclass(frozen=True)
class Entry:
    """One container's cards. `uid` is its pod's; `generation` rises whenever the entry is written.

    Fields with their default are left out of the ledger: each costs the API server at every write.
    """

    uid: str
    namespace: str
    pod: str
    container: str
    seats: tuple[Seat, ...]
    tenant: str
    sharing: SharingKind = SharingKind.FIXED
    priority: int = 0
    gang: str = ""
    #: The claim or gang for which its pod is evicted; written before the eviction is requested.
    leaving_for: str = ""
    state: EntryState = EntryState.RESERVED
    generation: int = 1
    #: The service account of its pod, for the books.
    account: str = ""
    #: The instant from which these seats are held, in nanoseconds of the ledger's own clock; 0: not
    #: written yet.
    held_ns: int = 0
    #: The reservation that its pod named.
    reservation: str = ""
    #: The version of its pod that the eviction names: a pod that was patched since then stays.
    leaving_at: str = ""
    #: What its pod demands of the way the card is shared.
    isolation: IsolationKind = IsolationKind.NONE

    @property
    def key(self) -> tuple[str, str]:
        """Uid of the pod and name of the container."""
        return self.uid, self.container

    @property
    def order(self) -> EvictionOrder:
        """The eviction order in the entry; empty if there is none."""
        return EvictionOrder(self.leaving_for, self.leaving_at)

    @cached_property
    def json(self) -> Json:
        """`to_json`, computed once: a write has all entries, and mostly one of them has changed."""
        return self.to_json()

    @cached_property
    def text(self) -> str:
        """The entry as one line of text, computed once as well."""
        return format_entry(self.json)

    def to_json(self) -> dict[str, Any]:
        """Return the entry as the ledger has it, without fields that have their default."""
        found: dict[str, Any] = {
            "uid": self.uid,
            "namespace": self.namespace,
            "pod": self.pod,
            "container": self.container,
            "cards": seats_to_json(self.seats),
            "tenant": self.tenant,
            "state": self.state.value,
            "generation": self.generation,
        }
        optional = {
            "gang": self.gang,
            "leavingFor": self.leaving_for,
            "account": self.account,
            "heldNs": self.held_ns,
            "reservation": self.reservation,
            "leavingAt": self.leaving_at,
            "priority": self.priority,
            "sharing": "" if self.sharing is SharingKind.FIXED else self.sharing.value,
            "isolation": "" if self.isolation is IsolationKind.NONE else self.isolation.value,
        }
        for name, value in optional.items():
            if value:
                found[name] = value
        return found

    @classmethod
    def from_json(cls, found: Json | str) -> Entry:
        """Read an entry from a record, or from a line as `entry_text` writes it."""
        read = parse_entry(found) if isinstance(found, str) else found
        return cls(
            uid=read["uid"],
            namespace=read["namespace"],
            pod=read["pod"],
            container=read["container"],
            seats=seats_from_json(read["cards"]),
            tenant=read["tenant"],
            sharing=SharingKind(read.get("sharing", SharingKind.FIXED)),
            priority=read.get("priority", 0),
            gang=read.get("gang", ""),
            leaving_for=read.get("leavingFor", ""),
            leaving_at=read.get("leavingAt", ""),
            reservation=read.get("reservation", ""),
            isolation=IsolationKind(read.get("isolation", IsolationKind.NONE)),
            state=EntryState(read["state"]),
            generation=read["generation"],
            account=read.get("account", ""),
            held_ns=read.get("heldNs", 0),
        )


@dataclass(frozen=True)
class GpuNode:
    """A node's ledger. `version` is metadata.generation, which changes with the spec alone."""

    name: str
    mode: Mode = Mode.OBSERVE
    entries: tuple[Entry, ...] = ()
    version: int = 0
    cards: tuple[ReportedCard, ...] = ()
    topology: Topology = field(default_factory=Topology)
    slots: tuple[SlotUse, ...] = ()
    others: ForeignUsage = field(default_factory=ForeignUsage)
    slot_count: int = 0
    ready: bool = False
    #: The newest version of the ledger that the agent has acted upon.
    observed: int = 0
    #: The instant of the ledger's latest write, in nanoseconds of its own clock, which only goes
    #: forward.
    ledger_ns: int = 0
    #: Closed intervals that may not be in the books yet, oldest first.
    ended: tuple[ClosedInterval, ...] = ()
    #: The meter has reported the intervals that closed up to this instant, in nanoseconds.
    metered_ns: int = 0
    #: Whether the API server deletes it together with its Node.
    owned: bool = False
    #: Whether its agent reads entries as lines of text.
    reads_text: bool = False
    #: Whether the server records field managers of it that no client uses (`managed_fields`).
    tracked: bool = field(default=False, compare=False)
    #: Its version with every change (metadata.resourceVersion).
    written: str = field(default="", compare=False)
    #: Whether it was computed from our own write: the watch has not reported yet what its agent
    #: wrote meanwhile.
    assumed: bool = field(default=False, compare=False)

    def format_entries(self, entries: Iterable[Entry]) -> Sequence[Json | str]:
        """Return entries as this ledger has them: a record each, or one text with a line each."""
        # The API server encodes and copies one long string much cheaper than many small objects.
        if self.reads_text:
            text = "\n".join(entry.text for entry in entries)
            return [text] if text else []
        return [entry.json for entry in entries]

    def with_entries(self, entries: Iterable[Entry]) -> GpuNode:
        """Return the ledger with other entries."""
        return replace(self, entries=tuple(entries))

    def gpu_time_by_container(self) -> dict[tuple[str, str], GpuTime]:
        """By container, the GPU time that its agent reported last, if it is measured."""
        spent = {}
        for use in self.slots:
            if use.spent is not None:
                spent[use.key] = use.spent
        return spent

    @cached_property
    def unaccounted_uses(self) -> tuple[SlotUse, ...]:
        """Containers with cards and without an entry: the ledger was deleted or restored."""
        # Which cards they have is unknown, so they may be any of the node.
        known = {entry.key for entry in self.entries}
        unaccounted = []
        for use in self.slots:
            if not use.released and use.key not in known:
                unaccounted.append(use)
        return tuple(unaccounted)

    def free_amounts(self) -> dict[str, Seat]:
        """By card, its free amounts; negative if more is held than the card has."""
        left = {card.uuid: Seat(card.uuid, WHOLE, card.memory_bytes) for card in self.cards}
        for entry in self.entries:
            for seat in entry.seats:
                was = left.get(seat.device)
                if was is not None:
                    left[seat.device] = Seat(
                        seat.device,
                        was.gpu_milli - seat.gpu_milli,
                        was.memory_bytes - seat.memory_bytes,
                    )
        return left

    def slots_by_card(self) -> dict[str, tuple[PartitionSlot, ...]]:
        """Return the partitions that entries hold, lowest start first; only cards that have some."""
        found = dict[str, list[PartitionSlot]]()
        for entry in self.entries:
            for seat in entry.seats:
                if seat.partition is not None:
                    found.setdefault(seat.device, []).append(seat.partition)
        return {card: tuple(sorted(slots)) for card, slots in found.items()}

    @classmethod
    def from_json(cls, read: Json, known: tuple[Entry, ...] | None = None) -> GpuNode:
        """Read a GpuNode.

        Args:
            known: its entries if they are known to be unchanged; they are not parsed then.
        """
        meta = read["metadata"]
        spec = read.get("spec") or {}
        status = read.get("status") or {}
        return cls(
            name=meta["name"],
            mode=Mode(spec.get("mode", Mode.OBSERVE)),
            entries=read_entries(spec) if known is None else known,
            version=meta.get("generation", 0),
            cards=_read_cards(status.get("cards") or ()),
            topology=read_topology(status.get("topology") or {}),
            slots=tuple(SlotUse.from_json(one) for one in status.get("slots") or ()),
            others=ForeignUsage.from_json(status.get("others") or {}),
            slot_count=status.get("slotCount", 0),
            observed=status.get("observedGeneration", 0),
            ready=_has_ready_condition(status),
            ledger_ns=spec.get("ledgerNs", 0),
            ended=tuple(ClosedInterval.from_json(one) for one in spec.get("ended") or ()),
            metered_ns=_read_instant((meta.get("annotations") or {}).get(names.METERED, "")),
            owned=bool(meta.get("ownerReferences")),
            reads_text=bool(status.get("readsText")),
            tracked=managed_fields.is_unused(meta),
            written=meta.get("resourceVersion", ""),
        )


def read_entries(spec: Json) -> tuple[Entry, ...]:
    """Read the entries of a ledger's spec, in either form."""
    found: list[Entry] = []
    for one in spec.get("allocations") or ():
        found += map(Entry.from_json, one.split("\n") if isinstance(one, str) else (one,))
    return tuple(found)


def _has_ready_condition(status: Json) -> bool:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "Ready":
            return bool(condition.get("status") == "True")
    return False


def _read_cards(read: Iterable[Json]) -> tuple[ReportedCard, ...]:
    # Each card once. The schema does not forbid duplicates: the check would cost the API server
    # something at every write.
    return tuple({one["uuid"]: ReportedCard.from_json(one) for one in read}.values())


def _read_instant(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0
