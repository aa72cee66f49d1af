"""The cards of a snapshot as columns, with hosts, topology levels and partition layouts.

Cards are NumPy arrays of one length, so that one operation covers ten thousand of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from gpupool.model.isolation.mechanism_offer import CardOffers
from gpupool.model.partition import PartitionProfile, PartitionSlot
from gpupool.model.topology import Topology
from gpupool.scheduling.snapshot.columns import Ints
from gpupool.scheduling.snapshot.numa_nodes import NumaNodes


class CardStatus(StrEnum):
    """Whether a card can be given out; only OPEN ones can."""

    OPEN = "open"
    NOT_ADOPTED = "not adopted"
    DRAINING = "draining"
    UNHEALTHY = "unhealthy"


#: `Cards.status` holds indices into this.
CARD_STATUS = tuple(CardStatus)


@dataclass(frozen=True)
class HostColumns:
    """Processors and main memory, one entry per node."""

    cpu_milli: Ints
    memory_bytes: Ints
    free_cpu_milli: Ints
    free_memory_bytes: Ints
    numa: NumaNodes | None = None


@dataclass(frozen=True)
class TopologyLevel:
    """One level above the node; `of_node` is an index into `domains`, -1 without a label."""

    name: str
    domains: tuple[str, ...]
    of_node: Ints


@dataclass(frozen=True)
class PartitionLayout:
    """A card in partition mode: the profiles it can be cut into, and the slots in use.

    `profiles` is empty if partitions cannot be made on this card.
    """

    profiles: tuple[PartitionProfile, ...]
    #: A valid set, lowest start first.
    slots: tuple[PartitionSlot, ...] = ()

    def with_slot(self, more: PartitionSlot) -> PartitionLayout:
        """Return the layout with one more slot in use."""
        return replace(self, slots=tuple(sorted((*self.slots, more))))

    def without_slot(self, less: PartitionSlot) -> PartitionLayout:
        """Return the layout without that slot.

        Raises:
            ValueError: The slot is not in use.
        """
        at = self.slots.index(less)
        return replace(self, slots=self.slots[:at] + self.slots[at + 1 :])


@dataclass(frozen=True)
class CardTable:
    """Every card of the pool, one column per fact, in a stable order (node, then index)."""

    uuids: tuple[str, ...]
    #: Distinct canonical models; `model` holds indices into it.
    models: tuple[str, ...]
    #: Node names; `node` holds indices into it.
    nodes: tuple[str, ...]
    node_labels: tuple[Mapping[str, str], ...]
    model: Ints
    node: Ints
    status: Ints
    memory_bytes: Ints
    free_milli: Ints
    free_bytes: Ints
    #: Of each card's row in the ledger: what a plan must name to be applied.
    generation: Ints
    hosts: HostColumns | None = None
    #: From the widest to the narrowest (block, rack).
    levels: tuple[TopologyLevel, ...] = ()
    #: By node, what joins its cards; a node that is not in it has no known links.
    links: Mapping[int, Topology] = field(default_factory=dict)
    #: Of each of `models`, its vendor; nothing: as the catalogue has it, `""` where that does not
    #: know.
    vendors: tuple[str, ...] = ()
    #: By row, the cards in partition mode: they take partitions alone, and no other card takes one.
    layouts: Mapping[int, PartitionLayout] = field(default_factory=dict)
    #: By row, what the mechanisms of the card's node offer; a card that is not in it offers nothing
    #: to claims that demand isolation.
    offers: Mapping[int, CardOffers] = field(default_factory=dict)
    #: By row, the owner of the MPS shares on a card: until the last of them ends, the card serves
    #: that owner's claims for MPS alone.
    owners: Mapping[int, str] = field(default_factory=dict)
    #: Memory that is neither free nor in use: it is kept for suspended jobs, as it is not lent
    #: twice. None: nothing of any card is.
    unlent_bytes: Ints | None = None

    @property
    def untouched_bytes(self) -> Ints:
        """What is free of each card while nothing of it is in use."""
        if self.unlent_bytes is None:
            return self.memory_bytes
        return self.memory_bytes - self.unlent_bytes

    def __len__(self) -> int:
        return len(self.uuids)
