"""`GpuNode`, one per node of the cluster: the ledger of its cards (`spec`) and what its agent says of it (`status`).

`spec.allocations` is the truth about who has which card. The controller alone writes it, naming the generation that it
read; people write `spec.mode`; the node's agent writes `status` and nothing else. Here are the shapes and their JSON,
no rules and no requests. Sizes are bytes, compute is thousandths of a card.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

from gpupool.base.units import WHOLE
from gpupool.kubernetes import names, tracking
from gpupool.kubernetes.ended import Ended, cards_of, seats_of
from gpupool.kubernetes.entry_text import as_text, of_text
from gpupool.kubernetes.reported import Card, Others, SlotUse
from gpupool.model.allocation import Seat
from gpupool.model.claim import Sharing
from gpupool.model.topology import Topology, read_topology

Json = Mapping[str, Any]


class Mode(StrEnum):
    """What gpupool does with a node: looks at it, hands out shares and cards there, or whole cards alone."""

    OBSERVE = "observe"
    SLOT = "slot"
    WHOLE = "whole"


class EntryState(StrEnum):
    """How far an entry of the ledger has come. Its cards are held in every one of them."""

    RESERVED = "reserved"
    """Written before the pod's gate goes."""
    ACTIVE = "active"
    """The node's agent has prepared it."""
    DRAINING = "draining"
    """The pod is gone; its agent has not said yet that the cards are free."""


ENTRY_TRANSITIONS: Mapping[EntryState, frozenset[EntryState]] = {
    EntryState.RESERVED: frozenset({EntryState.ACTIVE, EntryState.DRAINING}),
    EntryState.ACTIVE: frozenset({EntryState.DRAINING}),
    EntryState.DRAINING: frozenset(),
}


class Order(NamedTuple):
    """To leave. It is given by the ledger alone, and an eviction names the version of the pod that stands in it."""

    whom: str = ""
    """The claim or gang for which the pod goes; empty where its card has failed."""
    at: str = ""
    """The pod's version when it was given."""


@dataclass(frozen=True)
class Entry:
    """One container's cards. `uid` is its pod's; `generation` goes up whenever the entry is written anew.

    What is as it mostly is does not stand in a ledger: each field costs the API server at every write of it.
    """

    uid: str
    namespace: str
    pod: str
    container: str
    seats: tuple[Seat, ...]
    tenant: str
    sharing: Sharing = Sharing.FIXED
    priority: int = 0
    gang: str = ""
    leaving_for: str = ""
    """The claim or gang for which its pod is evicted; written before the eviction is asked for."""
    state: EntryState = EntryState.RESERVED
    generation: int = 1
    account: str = ""
    """The service account of its pod, for the books."""
    held_ns: int = 0
    """Since when these seats are held, by the ledger's own clock; 0: not written yet."""
    reservation: str = ""
    """The reservation that its pod named."""
    leaving_at: str = ""
    """The version of its pod that the eviction names: one that was touched since then stays."""

    @property
    def key(self) -> tuple[str, str]:
        return self.uid, self.container

    @property
    def order(self) -> Order:
        return Order(self.leaving_for, self.leaving_at)

    @cached_property
    def json(self) -> Json:
        """`to_json`, made once: a ledger is written with all its entries, of which mostly one is another."""
        return self.to_json()

    @cached_property
    def text(self) -> str:
        """The same as one line, made once as well."""
        return as_text(self.json)

    def to_json(self) -> dict[str, Any]:
        found = {
            "uid": self.uid,
            "namespace": self.namespace,
            "pod": self.pod,
            "container": self.container,
            "cards": cards_of(self.seats),
            "tenant": self.tenant,
            "state": self.state.value,
            "generation": self.generation,
        }
        more = {"gang": self.gang, "leavingFor": self.leaving_for, "account": self.account, "heldNs": self.held_ns}
        more |= {"reservation": self.reservation, "leavingAt": self.leaving_at, "priority": self.priority}
        more |= {} if self.sharing is Sharing.FIXED else {"sharing": self.sharing.value}
        return {**found, **{name: value for name, value in more.items() if value}}

    @classmethod
    def from_json(cls, found: Json | str) -> Entry:
        """Of a record, or of a line as `entry_text` writes it."""
        read = of_text(found) if isinstance(found, str) else found
        return cls(
            uid=read["uid"],
            namespace=read["namespace"],
            pod=read["pod"],
            container=read["container"],
            seats=seats_of(read["cards"]),
            tenant=read["tenant"],
            sharing=Sharing(read.get("sharing", Sharing.FIXED)),
            priority=read.get("priority", 0),
            gang=read.get("gang", ""),
            leaving_for=read.get("leavingFor", ""),
            leaving_at=read.get("leavingAt", ""),
            reservation=read.get("reservation", ""),
            state=EntryState(read["state"]),
            generation=read["generation"],
            account=read.get("account", ""),
            held_ns=read.get("heldNs", 0),
        )


@dataclass(frozen=True)
class GpuNode:
    """A node's ledger. `version` is metadata.generation: it moves with the spec alone, so a status is no conflict."""

    name: str
    mode: Mode = Mode.OBSERVE
    entries: tuple[Entry, ...] = ()
    version: int = 0
    cards: tuple[Card, ...] = ()
    topology: Topology = field(default_factory=Topology)
    slots: tuple[SlotUse, ...] = ()
    others: Others = field(default_factory=Others)
    slot_count: int = 0
    ready: bool = False
    observed: int = 0
    """The newest version of the ledger that the agent has acted upon."""
    ledger_ns: int = 0
    """The instant of the ledger's latest write: its own clock, which only goes forward."""
    ended: tuple[Ended, ...] = ()
    """What was held and may not be in the books yet, oldest first."""
    metered_ns: int = 0
    """What ended up to then is in the books: the meter's word."""
    owned: bool = False
    """It goes with its Node, by the API server."""
    reads_text: bool = False
    """Its agent reads entries that are lines of text."""
    tracked: bool = field(default=False, compare=False)
    """The server keeps of it who wrote which field, for nobody."""
    written: str = field(default="", compare=False)
    """Which of its states this is (metadata.resourceVersion)."""
    assumed: bool = field(default=False, compare=False)
    """Made of what was known and of what we wrote: the watch is still to say what its agent reported meanwhile."""

    def written_as(self, entries: Iterable[Entry]) -> Sequence[Json | str]:
        """Entries as they are to stand in this ledger: a record each, or one text with a line each."""
        if self.reads_text:
            text = "\n".join(entry.text for entry in entries)
            return [text] if text else []
        return [entry.json for entry in entries]

    def with_entries(self, entries: Iterable[Entry]) -> GpuNode:
        return replace(self, entries=tuple(entries))

    def spent(self) -> dict[tuple[str, str], int]:
        """By container the GPU milliseconds that its agent told last, of those that something counts."""
        return {use.key: use.gpu_ms for use in self.slots if use.gpu_ms is not None}

    @cached_property
    def unaccounted(self) -> tuple[SlotUse, ...]:
        """Containers that the agent still holds cards for and of which no entry stands here: the ledger was deleted
        or restored while they ran. Which cards they have is not known, so any of the node may be theirs."""
        known = {entry.key for entry in self.entries}
        return tuple(use for use in self.slots if not use.released and use.key not in known)

    def free(self) -> dict[str, Seat]:
        """By card what is left of it; less than nothing where more is held than there is."""
        left = {card.uuid: Seat(card.uuid, WHOLE, card.memory_bytes) for card in self.cards}
        for entry in self.entries:
            for seat in entry.seats:
                was = left.get(seat.device)
                if was is not None:
                    left[seat.device] = Seat(
                        seat.device, was.gpu_milli - seat.gpu_milli, was.memory_bytes - seat.memory_bytes
                    )
        return left

    @classmethod
    def from_json(cls, read: Json, known: tuple[Entry, ...] | None = None) -> GpuNode:
        """`known`: its entries, where they are known to be what stands there."""
        meta, spec, status = read["metadata"], read.get("spec") or {}, read.get("status") or {}
        return cls(
            name=meta["name"],
            mode=Mode(spec.get("mode", Mode.OBSERVE)),
            entries=entries_of(spec) if known is None else known,
            version=meta.get("generation", 0),
            cards=_cards(status.get("cards") or ()),
            topology=read_topology(status.get("topology") or {}),
            slots=tuple(SlotUse.from_json(one) for one in status.get("slots") or ()),
            others=Others.from_json(status.get("others") or {}),
            slot_count=status.get("slotCount", 0),
            observed=status.get("observedGeneration", 0),
            ready=any(c.get("type") == "Ready" and c.get("status") == "True" for c in status.get("conditions") or ()),
            ledger_ns=spec.get("ledgerNs", 0),
            ended=tuple(Ended.from_json(one) for one in spec.get("ended") or ()),
            metered_ns=_instant((meta.get("annotations") or {}).get(names.METERED, "")),
            owned=bool(meta.get("ownerReferences")),
            reads_text=bool(status.get("readsText")),
            tracked=tracking.is_useless(meta),
            written=meta.get("resourceVersion", ""),
        )


def entries_of(spec: Json) -> tuple[Entry, ...]:
    """As they stand in a ledger."""
    found: list[Entry] = []
    for one in spec.get("allocations") or ():
        found += map(Entry.from_json, one.split("\n") if isinstance(one, str) else (one,))
    return tuple(found)


def _cards(read: Iterable[Json]) -> tuple[Card, ...]:
    """Each once: that an agent names one twice is not checked by the API server, which it would cost at each write."""
    return tuple({one["uuid"]: Card.from_json(one) for one in read}.values())


def _instant(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0
