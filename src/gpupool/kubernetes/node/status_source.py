"""Gathers what the status of a node's GpuNode says: cards with foreign pieces, slots in use, and the
Node's default."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gpupool.kubernetes.metering.gpu_time import GpuTimeRecord
from gpupool.kubernetes.node.card_health import CardHealth
from gpupool.kubernetes.node.status import build_status
from gpupool.kubernetes.resources.gpu_node import Entry
from gpupool.kubernetes.resources.gpu_node_status import ShareIsolation, SlotUse
from gpupool.mechanisms.contract import FenceLevel
from gpupool.mechanisms.foreign_pieces import ForeignPieces
from gpupool.model.device import Device
from gpupool.model.topology import Topology

PieceFinder = Callable[[Iterable[Device]], ForeignPieces]
Key = tuple[str, str]


class StatusSource:
    """The sources of one node's status.

    Args:
        spending: GPU time of the node's containers.
        slot_count: slots that the node's device plugin has.
        find_pieces: what other tools have made of cards.
        is_limited: whether the driver holds the memory of a container.
        describe_share: what is enforced in a share of a card. Blocks for the driver; asked once.
    """

    def __init__(
        self,
        health: CardHealth,
        spending: GpuTimeRecord,
        topology: Topology,
        slot_count: int,
        *,
        find_pieces: PieceFinder,
        is_limited: Callable[[str, str], bool],
        describe_share: Callable[[Device], ShareIsolation | None],
    ) -> None:
        self._health = health
        self._spending = spending
        self._topology = topology
        self._slot_count = slot_count
        self._find_pieces = find_pieces
        self._is_limited = is_limited
        self._describe_share = describe_share
        #: By card. Another driver or cgroup version needs another agent, too.
        self._shares: dict[str, ShareIsolation] = {}
        self._labels: Mapping[str, str] = {}
        self._foreign: ForeignPieces = {}

    def note_node(self, found: Mapping[str, Any], gone: bool) -> None:
        """Note the Node as it is now."""
        self._labels = {} if gone else found["metadata"].get("labels") or {}

    def look_for_pieces(self) -> bool:
        """Look for foreign pieces; return whether they have changed. Blocks for the driver."""
        before = self._foreign
        self._foreign = self._find_pieces(self._health.current_cards())
        return self._foreign != before

    def collect_uses(
        self, prepared: Mapping[Key, int], slots: Mapping[Key, str], entries: Iterable[Entry]
    ) -> list[SlotUse]:
        """Collect the containers to report, by what was prepared for them.

        Args:
            prepared: by container, the generation that was prepared.
            slots: by container, the slot that it was started with.
            entries: the node's ledger.
        """
        spent = self._spending.sums_so_far(prepared)
        uses = []
        for key, generation in sorted(prepared.items()):
            level = FenceLevel.HARD if self._is_limited(*key) else None
            slot = slots.get(key, "")
            uses.append(SlotUse(*key, slot, generation, spent=spent.get(key), memory_level=level))
        return uses + self._spending.closed_uses({entry.key for entry in entries}, prepared)

    def build_status(
        self, uses: Iterable[SlotUse], pods: Iterable[Mapping[str, Any]], observed: int
    ) -> dict[str, Any]:
        """Build the status. Blocks for as long as the driver does.

        Args:
            pods: the pods of the node.
            observed: the version of the ledger that `uses` belongs to.
        """
        cards = self._health.current_cards()
        return build_status(
            cards,
            self._topology,
            uses,
            pods,
            self._slot_count,
            observed,
            labels=self._labels,
            foreign=self._foreign,
            shares=self._find_shares(cards),
        )

    def _find_shares(self, cards: Iterable[Device]) -> Mapping[str, ShareIsolation]:
        found = dict[str, ShareIsolation]()
        for card in cards:
            share = self._shares.get(card.uuid)
            # A card may enter or leave partition mode.
            if share is None or card.partitioned:
                share = self._describe_share(card)
            if share is not None:
                found[card.uuid] = share
        self._shares = found
        return found
