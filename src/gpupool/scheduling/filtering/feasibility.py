"""The filter: which cards and nodes can take a shape, and the reason for every other card.

It works on columns and knows no preference, queue or quota. What is fixed while a pool lives
(model, labels, status, size) is checked once per shape. Free amounts are checked again only on
nodes that changed.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpupool.base.units import WHOLE
from gpupool.model.catalogue import find_vendor, vendor_of
from gpupool.model.claim import RejectionReason, Shape
from gpupool.scheduling.filtering.card_owners import NO_OWNER
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.filtering.isolation import find_serving_cards
from gpupool.scheduling.filtering.native_abi import NativeFit
from gpupool.scheduling.filtering.native_library import NativeLibrary
from gpupool.scheduling.filtering.partition_fit import (
    compute_partition_bytes,
    count_partitions,
    find_publishing_cards,
)
from gpupool.scheduling.snapshot.cards import CARD_STATUS, CardStatus, CardTable
from gpupool.scheduling.snapshot.columns import Bools, Ints

Codes = npt.NDArray[np.int8]

#: The code of a card against which nothing speaks; reasons count from 1.
FITS = 0
#: The order of the tests: a card has the first reason that holds, a later one is nearer to fitting.
ORDER = (
    RejectionReason.VENDOR,
    RejectionReason.MODEL,
    RejectionReason.EXCLUDED,
    RejectionReason.LABELS,
    RejectionReason.PARTITIONED,
    RejectionReason.PROFILE,
    RejectionReason.ISOLATION,
    RejectionReason.CARD_TOO_SMALL,
    RejectionReason.UNHEALTHY,
    RejectionReason.NOT_ADOPTED,
    RejectionReason.DRAINING,
    RejectionReason.SERVES_MPS,
    RejectionReason.NOT_MPS,
    RejectionReason.NOT_WHOLE,
    RejectionReason.PLACE,
    RejectionReason.COMPUTE,
    RejectionReason.MEMORY,
    RejectionReason.CPU,
    RejectionReason.HOST_MEMORY,
)

#: What stands in `Fit.why`; FITS where nothing speaks against the card.
CODE = {reason: code for code, reason in enumerate(ORDER, start=1)}

#: Up to this code no emptying of the pool helps.
NEVER = CODE[RejectionReason.CARD_TOO_SMALL]

_STATUS: dict[CardStatus, int] = {
    CardStatus.OPEN: FITS,
    CardStatus.NOT_ADOPTED: CODE[RejectionReason.NOT_ADOPTED],
    CardStatus.DRAINING: CODE[RejectionReason.DRAINING],
    CardStatus.UNHEALTHY: CODE[RejectionReason.UNHEALTHY],
}
_STATUS_CODES = np.array([_STATUS[status] for status in CARD_STATUS], dtype=np.int8)


def is_model_match(asked: str, model: str) -> bool:
    """Return whether a model is one of those that were asked for.

    A name matches the whole model or its part before a dash, in any case. `|` separates
    alternatives.

    >>> is_model_match("a100", "A100-40G"), is_model_match("A10", "A100-40G")
    (True, False)
    >>> is_model_match("T4|A10", "A10")
    True
    """
    model = model.lower()
    return any(model == name or model.startswith(name + "-") for name in asked.lower().split("|"))


class CardKind(NamedTuple):
    """Model and vendor of a card: what quotas and limits distinguish."""

    model: str
    vendor: str

    def is_of(self, named: str) -> bool:
        """Return whether the card is of the vendor or model that a limit names.

        >>> CardKind("MI300X", "amd").is_of("AMD"), CardKind("A100-40G", "nvidia").is_of("A100")
        (True, True)
        >>> CardKind("AMD-X", "").is_of("AMD")
        False
        """
        meant = find_vendor(named)
        return is_model_match(named, self.model) if meant is None else self.vendor == meant


class ClaimFit:
    """The result of the filter for one shape, kept up to date while capacity changes.

    `why` holds a code per card, `fitting` the number of fitting cards per node, `roomy` the nodes
    that take the whole claim, and `need` the bytes of one seat on each card. Call `refresh` before
    reading after a change. A node that lacks processors or main memory has no fitting card; the
    codes of its cards name which of the two it lacks.
    """

    def __init__(self, shape: Shape, free: FreeCapacity) -> None:
        self.shape = shape
        self.need = compute_needed_bytes(shape, free)
        self.wanted = judge_kind(shape, free)
        self.fixed = self._judge_fixed(free)
        self.why = np.zeros(len(free.cards), dtype=np.int8)
        self.fitting = np.zeros(len(free.cards.nodes), dtype=np.int64)
        self.roomy = np.zeros(len(free.cards.nodes), dtype=np.bool_)
        #: Nodes that a claim without a card may use: one on which no card is open takes no work.
        self._usable = None
        if shape.count == 0:
            self._usable = free.count_cards_by_node(self.fixed == FITS) > 0
        self._read = free.get_cursor()
        #: As `fixed`, and closed to the claim by the owners of cards: what the library reads.
        self._judged = self.fixed
        # The library knows amounts, and neither slots nor which cards are empty: partitions and
        # claims for MPS are judged in NumPy.
        kernel = free.kernel if shape.profile is None and not shape.owner else None
        self._compiled = None if kernel is None else self._build_native_fit(kernel, free)
        nodes = np.arange(len(free.cards.nodes))
        if self._compiled is None:
            self._judge_nodes(free, nodes)
        else:
            self._judge_owners(free)
            free.examined_cards += self._compiled(
                nodes.ctypes.data, len(nodes), free.get_next_look()
            )
        self._close_unusable_nodes()

    def refresh(self, free: FreeCapacity) -> ClaimFit:
        """Check the nodes again that changed since the last call."""
        if self._compiled is not None:
            listed = free.locate_changed_nodes(self._read)
            if listed.number:
                self._judge_owners(free)
                free.examined_cards += self._compiled(*listed, free.get_next_look())
                self._read = free.get_cursor()
        elif len(nodes := free.list_changed_nodes(self._read)):
            self._judge_nodes(free, nodes)
            self._read = free.get_cursor()
        self._close_unusable_nodes()
        return self

    def _close_unusable_nodes(self) -> None:
        if self._usable is not None:
            self.roomy &= self._usable

    @cached_property
    def possible(self) -> Bools:
        """Mask of the cards that could take a seat if they were open and empty."""
        possible: Bools = (self.fixed == FITS) | (self.fixed > NEVER)
        return possible

    @cached_property
    def least_bytes(self) -> int:
        """The least memory of the whole claim, on the smallest cards that could take it."""
        needs = self.need[self.possible]
        return int(needs.min()) * self.shape.count if len(needs) else 0

    def _judge_fixed(self, free: FreeCapacity) -> Codes:
        why = _STATUS_CODES[free.cards.status]
        why[self.need > free.cards.memory_bytes] = CODE[RejectionReason.CARD_TOO_SMALL]
        # Written over the status: a card of the wrong model stays wrong when it becomes healthy,
        # and the message should name what no repair changes.
        np.copyto(why, self.wanted, where=self.wanted != FITS)
        return why

    def _judge_nodes(self, free: FreeCapacity, nodes: Ints) -> None:
        rows, there = free.get_row_table(nodes)
        cpu = free.cpu_milli[nodes] < self.shape.cpu_milli
        host = free.host_bytes[nodes] < self.shape.host_bytes
        if len(free.cards):
            why = self._judge_cards(free, rows)
            _mark_fitting(why, cpu, CODE[RejectionReason.CPU])
            _mark_fitting(why, host, CODE[RejectionReason.HOST_MEMORY])
            self.why[rows[there]] = why[there]
            self.fitting[nodes] = ((why == FITS) & there).sum(axis=1)
            free.examined_cards += int(np.count_nonzero(there))
        self.roomy[nodes] = (self.fitting[nodes] >= self.shape.count) & ~(cpu | host)

    def _judge_owners(self, free: FreeCapacity) -> None:
        """Close the cards of MPS owners to the library, and open those that are empty again."""
        owners = free.owners
        if not owners.is_used or free.kernel is None:
            return
        if self._judged is self.fixed:
            self._judged = self.fixed.copy()
            self._compiled = self._build_native_fit(free.kernel, free)
        rows = owners.rows
        judged = np.zeros(len(rows), dtype=np.int8)
        self._close_owned_cards(free, rows, judged)
        np.copyto(judged, self.fixed[rows], where=self.fixed[rows] != FITS)
        self._judged[rows] = judged

    def _close_owned_cards(self, free: FreeCapacity, rows: Ints, why: Codes) -> None:
        closed = free.owners.find_closed(self.shape.owner, rows, free.milli[rows], free.size[rows])
        has_owner = free.owners.column[rows] != NO_OWNER
        why[closed] = CODE[RejectionReason.NOT_MPS]
        why[closed & has_owner] = CODE[RejectionReason.SERVES_MPS]

    def _build_native_fit(self, kernel: NativeLibrary, free: FreeCapacity) -> NativeFit:
        """Return `_judge_nodes` of the native library: it uses the same columns and codes."""
        shape = self.shape
        return NativeFit(
            kernel,
            free.places,
            self.need,
            milli=free.milli,
            size=free.size,
            memory=free.untouched_bytes,
            cpu=free.cpu_milli,
            host=free.host_bytes,
            fixed=self._judged,
            count=shape.count,
            held=shape.held_milli,
            asked_cpu=shape.cpu_milli,
            asked_host=shape.host_bytes,
            whole=int(shape.is_whole),
            not_whole=CODE[RejectionReason.NOT_WHOLE],
            compute=CODE[RejectionReason.COMPUTE],
            no_memory=CODE[RejectionReason.MEMORY],
            no_cpu=CODE[RejectionReason.CPU],
            no_host=CODE[RejectionReason.HOST_MEMORY],
            why=self.why,
            fitting=self.fitting,
            roomy=self.roomy,
            looked=free.last_look,
        )

    def _judge_cards(self, free: FreeCapacity, rows: Ints) -> Codes:
        milli = free.milli[rows]
        size = free.size[rows]
        why = np.where(size < self.need[rows], np.int8(CODE[RejectionReason.MEMORY]), np.int8(FITS))
        if self.shape.is_whole:
            in_use = (milli < WHOLE) | (size < free.untouched_bytes[rows])
            # Before `fixed` below, and after MEMORY above: the last write is the nearest to never.
            why[in_use] = CODE[RejectionReason.NOT_WHOLE]
        elif self.shape.held_milli:
            why[milli < self.shape.held_milli] = CODE[RejectionReason.COMPUTE]
        if self.shape.profile is not None:
            why[~self._has_free_slot(free, rows)] = CODE[RejectionReason.PLACE]
        if self.shape.owner or free.owners.is_used:
            self._close_owned_cards(free, rows, why)
        fixed = self.fixed[rows]
        np.copyto(why, fixed, where=fixed != FITS)
        return why

    def _has_free_slot(self, free: FreeCapacity, rows: Ints) -> Bools:
        """Return a mask of the cards that have a free slot for the partition."""
        name = self.shape.profile or ""
        found = (count_free_slots(free, row, name) > 0 for row in rows.reshape(-1).tolist())
        return np.fromiter(found, dtype=np.bool_, count=rows.size).reshape(rows.shape)


def count_free_slots(free: FreeCapacity, row: int, profile: str) -> int:
    """Return how many more partitions of a profile the card can hold beside its current ones."""
    cut = free.layouts.get(row)
    return 0 if cut is None else count_partitions(cut.profiles, cut.slots, profile)


def _mark_fitting(why: Codes, lacking: Bools, code: int) -> None:
    """Give a code to cards that would fit, on the nodes that lack something."""
    if lacking.any():
        why[lacking[:, None] & (why == FITS)] = code


def compute_needed_bytes(shape: Shape, free: FreeCapacity) -> Ints:
    """Return the bytes of one seat on each card.

    The array is a broadcast view of one number if the shape names an amount of memory.
    """
    if shape.profile is not None:
        return compute_partition_bytes(shape.profile, free.cards)
    if shape.memory_bytes is not None:
        # Stride 0: no column of a hundred thousand equal numbers per shape (`NativeFit` reads the
        # stride).
        return np.broadcast_to(np.int64(shape.memory_bytes), len(free.cards))
    # The formula is elementwise: a column goes through it as one number does.
    column: Ints = shape.memory_on(free.cards.memory_bytes)  # type: ignore[arg-type,assignment]
    return column


def judge_kind(shape: Shape, free: FreeCapacity) -> Codes:
    """Return per card the code of the first mismatch of model, vendor, labels or mode, or FITS."""
    cards = free.cards
    why = np.zeros(len(cards), dtype=np.int8)
    # A log of a simulation says nothing of offers.
    if shape.needs.is_demanding or (shape.owner and cards.offers):
        why[~find_serving_cards(shape, cards)] = CODE[RejectionReason.ISOLATION]
    if shape.profile is not None:
        why[~find_publishing_cards(shape, cards)] = CODE[RejectionReason.PROFILE]
    elif cards.layouts and shape.count:
        why[np.fromiter(cards.layouts, dtype=np.int64)] = CODE[RejectionReason.PARTITIONED]
    # Later tests overwrite earlier ones, so the order is the reverse of ORDER.
    for label in shape.labels:
        why[~free.has_label(label)[cards.node]] = CODE[RejectionReason.LABELS]
    selector = shape.selector
    if selector.uuids or selector.not_uuids:
        wanted = set(selector.uuids or cards.uuids)
        unwanted = set(selector.not_uuids)
        chosen = wanted - unwanted
        taken = np.fromiter(map(chosen.__contains__, cards.uuids), dtype=np.bool_)
        why[~taken] = CODE[RejectionReason.EXCLUDED]
    if selector.not_models:
        excluded = "|".join(selector.not_models)
        of_them = np.array(
            [is_model_match(excluded, model) for model in cards.models], dtype=np.bool_
        )
        why[of_them[cards.model]] = CODE[RejectionReason.MODEL]
    if shape.model is not None:
        named = np.array(
            [is_model_match(shape.model, model) for model in cards.models], dtype=np.bool_
        )
        why[~named[cards.model]] = CODE[RejectionReason.MODEL]
    if selector.vendor is not None:
        ours = np.array(
            [vendor == selector.vendor for vendor in list_model_vendors(cards)], dtype=np.bool_
        )
        why[~ours[cards.model]] = CODE[RejectionReason.VENDOR]
    return why


def list_model_vendors(cards: CardTable) -> tuple[str, ...]:
    """Return the vendor of each of `cards.models`."""
    return cards.vendors or tuple(vendor_of(model) for model in cards.models)


def list_card_kinds(cards: CardTable) -> tuple[CardKind, ...]:
    """Return each of `cards.models` with its vendor."""
    return tuple(map(CardKind, cards.models, list_model_vendors(cards)))
