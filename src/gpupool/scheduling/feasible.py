"""Which cards and nodes can take a shape, and for every other card the reason why not.

A pure filter over columns: no order of preference, no queue, no quota. What cannot change while
a pool lives (model, labels, status, size) is judged once per shape; what is free is judged
again only on nodes where something was taken or given back.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpupool.base.units import WHOLE
from gpupool.model.catalogue import find_vendor, vendor_of
from gpupool.model.claim import Reason, Shape
from gpupool.scheduling.free import Free
from gpupool.scheduling.kernel import Kernel
from gpupool.scheduling.kernel_calls import Look
from gpupool.scheduling.partitions import named, room
from gpupool.scheduling.snapshot import CARD_STATUS, Bools, Cards, CardStatus, Ints

Codes = npt.NDArray[np.int8]

FITS = 0
ORDER = (
    Reason.VENDOR,
    Reason.MODEL,
    Reason.EXCLUDED,
    Reason.LABELS,
    Reason.PARTITIONED,
    Reason.PROFILE,
    Reason.CARD_TOO_SMALL,
    Reason.UNHEALTHY,
    Reason.NOT_ADOPTED,
    Reason.DRAINING,
    Reason.NOT_WHOLE,
    Reason.PLACE,
    Reason.COMPUTE,
    Reason.MEMORY,
    Reason.CPU,
    Reason.HOST_MEMORY,
)
"""The order of the tests: a card has the first reason that holds, a later one is nearer to fitting."""

CODE = {reason: code for code, reason in enumerate(ORDER, start=1)}
"""What stands in `Fit.why`; FITS where nothing speaks against the card."""

NEVER = CODE[Reason.CARD_TOO_SMALL]
"""Up to this code no emptying of the pool helps."""

_STATUS: dict[CardStatus, int] = {
    CardStatus.OPEN: FITS,
    CardStatus.NOT_ADOPTED: CODE[Reason.NOT_ADOPTED],
    CardStatus.DRAINING: CODE[Reason.DRAINING],
    CardStatus.UNHEALTHY: CODE[Reason.UNHEALTHY],
}
_STATUS_CODES = np.array([_STATUS[status] for status in CARD_STATUS], dtype=np.int8)


def model_matches(asked: str, model: str) -> bool:
    """Exact but for case, or the name up to a dash; any of several names joined by `|`.

    >>> model_matches("a100", "A100-40G"), model_matches("A10", "A100-40G"), model_matches("T4|A10", "A10")
    (True, False, True)
    """
    model = model.lower()
    return any(model == name or model.startswith(name + "-") for name in asked.lower().split("|"))


class Kind(NamedTuple):
    """What limits tell cards apart by."""

    model: str
    vendor: str

    def is_of(self, named: str) -> bool:
        """Whether such a card is of the vendor or the model that a limit names.

        >>> Kind("MI300X", "amd").is_of("AMD"), Kind("A100-40G", "nvidia").is_of("A100"), Kind("AMD-X", "").is_of("AMD")
        (True, True, False)
        """
        meant = find_vendor(named)
        return model_matches(named, self.model) if meant is None else self.vendor == meant


class Fit:
    """One shape against every card, kept up to date while cards are taken and given back.

    `why` holds a code per card, `fitting` the number of fitting cards per node, `roomy` the nodes that take the whole
    claim, `need` the bytes a seat takes on each card. Call `refresh` before reading after something was changed.
    A node that lacks processors or main memory has no fitting card; its cards say which of the two it is.
    """

    def __init__(self, shape: Shape, free: Free) -> None:
        self.shape = shape
        self.need = needed_bytes(shape, free)
        self.wanted = of_kind(shape, free)
        self.fixed = self._unchanging(free)
        self.why = np.zeros(len(free.cards), dtype=np.int8)
        self.fitting = np.zeros(len(free.cards.nodes), dtype=np.int64)
        self.roomy = np.zeros(len(free.cards.nodes), dtype=np.bool_)
        self._read = free.now()
        kernel = free.kernel if shape.profile is None else None  # it knows amounts, not places
        self._compiled = None if kernel is None else self._in_c(kernel, free)
        nodes = np.arange(len(free.cards.nodes))
        if self._compiled is None:
            self._look(free, nodes)
        else:
            free.rows += self._compiled(nodes.ctypes.data, len(nodes), free.next_look())

    def refresh(self, free: Free) -> Fit:
        """Judge again the nodes in which something was changed since the last look."""
        if self._compiled is not None:
            listed = free.listed(self._read)
            if listed.number:
                free.rows += self._compiled(*listed, free.next_look())
                self._read = free.now()
        elif len(nodes := free.changed(self._read)):
            self._look(free, nodes)
            self._read = free.now()
        return self

    @cached_property
    def possible(self) -> Bools:
        """Cards that could take a seat if they were open and empty."""
        possible: Bools = (self.fixed == FITS) | (self.fixed > NEVER)
        return possible

    @cached_property
    def least_bytes(self) -> int:
        """The least memory the whole claim can hold, on the smallest cards that could take it."""
        needs = self.need[self.possible]
        return int(needs.min()) * self.shape.count if len(needs) else 0

    def _unchanging(self, free: Free) -> Codes:
        why = _STATUS_CODES[free.cards.status]
        why[self.need > free.cards.memory_bytes] = CODE[Reason.CARD_TOO_SMALL]
        np.copyto(why, self.wanted, where=self.wanted != FITS)
        return why

    def _look(self, free: Free, nodes: Ints) -> None:
        rows, there = free.seats(nodes)
        cpu, host = free.cpu_milli[nodes] < self.shape.cpu_milli, free.host_bytes[nodes] < self.shape.host_bytes
        if len(free.cards):
            why = self._judge(free, rows)
            _say(why, cpu, CODE[Reason.CPU])
            _say(why, host, CODE[Reason.HOST_MEMORY])
            self.why[rows[there]] = why[there]
            self.fitting[nodes] = ((why == FITS) & there).sum(axis=1)
            free.rows += int(np.count_nonzero(there))
        self.roomy[nodes] = (self.fitting[nodes] >= self.shape.count) & ~(cpu | host)

    def _in_c(self, kernel: Kernel, free: Free) -> Look:
        """`_look` by the compiled kernel: the same columns, the same codes."""
        shape = self.shape
        return Look(
            kernel,
            free.places,
            self.need,
            milli=free.milli,
            size=free.size,
            memory=free.cards.memory_bytes,
            cpu=free.cpu_milli,
            host=free.host_bytes,
            fixed=self.fixed,
            count=shape.count,
            held=shape.held_milli,
            asked_cpu=shape.cpu_milli,
            asked_host=shape.host_bytes,
            whole=int(shape.whole),
            not_whole=CODE[Reason.NOT_WHOLE],
            compute=CODE[Reason.COMPUTE],
            no_memory=CODE[Reason.MEMORY],
            no_cpu=CODE[Reason.CPU],
            no_host=CODE[Reason.HOST_MEMORY],
            why=self.why,
            fitting=self.fitting,
            roomy=self.roomy,
            looked=free.looked,
        )

    def _judge(self, free: Free, rows: Ints) -> Codes:
        milli, size = free.milli[rows], free.size[rows]
        why = np.where(size < self.need[rows], np.int8(CODE[Reason.MEMORY]), np.int8(FITS))
        if self.shape.whole:
            in_use = (milli < WHOLE) | (size < free.cards.memory_bytes[rows])
            why[in_use] = CODE[Reason.NOT_WHOLE]
        elif self.shape.held_milli:
            why[milli < self.shape.held_milli] = CODE[Reason.COMPUTE]
        if self.shape.profile is not None:
            why[~self._placeable(free, rows)] = CODE[Reason.PLACE]
        fixed = self.fixed[rows]
        np.copyto(why, fixed, where=fixed != FITS)
        return why

    def _placeable(self, free: Free, rows: Ints) -> Bools:
        """Which of these cards have an open place for the partition; cards without the profile have none."""
        found = (places_on(free, row, self.shape.profile or "") > 0 for row in rows.reshape(-1).tolist())
        return np.fromiter(found, dtype=np.bool_, count=rows.size).reshape(rows.shape)


def places_on(free: Free, row: int, profile: str) -> int:
    """How many partitions of that profile the card could be cut into beside what is taken of it."""
    cut = free.cuts.get(row)
    return 0 if cut is None else room(cut.profiles, cut.taken, profile)


def _say(why: Codes, lacking: Bools, code: int) -> None:
    """Of nodes that lack something, the cards that would fit otherwise say so."""
    if lacking.any():
        why[lacking[:, None] & (why == FITS)] = code


def roomy_nodes(fit: Fit, free: Free, room: int | None) -> Bools:
    """Nodes with enough fitting cards for the whole claim, within `room` bytes of the tenant's quota."""
    if room is None or fit.shape.memory_bytes is not None:
        return fit.roomy
    within: Bools = fit.roomy & (cheapest_bytes(fit, free) <= room)
    return within


def cheapest_bytes(fit: Fit, free: Free) -> Ints:
    """Per node, the least memory that `count` of its fitting cards take together (fewer: what those take)."""
    rows = np.flatnonzero(fit.why == FITS)
    rows = rows[np.lexsort((fit.need[rows], free.cards.node[rows]))]
    nodes = free.cards.node[rows]
    starts = np.searchsorted(nodes, nodes)
    chosen = rows[np.arange(len(rows)) - starts < fit.shape.count]
    sums = np.bincount(free.cards.node[chosen], weights=fit.need[chosen], minlength=len(free.cards.nodes))
    return sums.astype(np.int64)


def needed_bytes(shape: Shape, free: Free) -> Ints:
    """Bytes a seat of the shape takes, per card; one number in disguise where it is given."""
    if shape.profile is not None:
        return _partition_bytes(shape.profile, free)
    if shape.memory_bytes is not None:
        return np.broadcast_to(np.int64(shape.memory_bytes), len(free.cards))
    # The formula is elementwise: a column goes through it as one number does.
    column: Ints = shape.memory_on(free.cards.memory_bytes)  # type: ignore[arg-type,assignment]
    return column


def _partition_bytes(profile: str, free: Free) -> Ints:
    """0 on cards that have no such profile."""
    need = np.zeros(len(free.cards), dtype=np.int64)
    for row, cut in free.cards.cuts.items():
        if (found := named(cut.profiles, profile)) is not None:
            need[row] = found.memory_bytes
    return need


def of_kind(shape: Shape, free: Free) -> Codes:
    """Why a card is not of the kind that was asked for (model, labels, partitions), FITS elsewhere."""
    cards = free.cards
    why = np.zeros(len(cards), dtype=np.int8)
    if shape.profile is not None:
        why[~_publishing(shape, free)] = CODE[Reason.PROFILE]
    elif cards.cuts and shape.count:
        why[np.fromiter(cards.cuts, dtype=np.int64)] = CODE[Reason.PARTITIONED]
    for label in shape.labels:
        why[~free.labelled(label)[cards.node]] = CODE[Reason.LABELS]
    selector = shape.selector
    if selector.uuids or selector.not_uuids:
        wanted, unwanted = set(selector.uuids or cards.uuids), set(selector.not_uuids)
        taken = np.array([uuid in wanted and uuid not in unwanted for uuid in cards.uuids], dtype=np.bool_)
        why[~taken] = CODE[Reason.EXCLUDED]
    if selector.not_models:
        excluded = "|".join(selector.not_models)
        of_them = np.array([model_matches(excluded, model) for model in cards.models], dtype=np.bool_)
        why[of_them[cards.model]] = CODE[Reason.MODEL]
    if shape.model is not None:
        named = np.array([model_matches(shape.model, model) for model in cards.models], dtype=np.bool_)
        why[~named[cards.model]] = CODE[Reason.MODEL]
    if selector.vendor is not None:
        ours = np.array([vendor == selector.vendor for vendor in vendors_of(cards)], dtype=np.bool_)
        why[~ours[cards.model]] = CODE[Reason.VENDOR]
    return why


def vendors_of(cards: Cards) -> tuple[str, ...]:
    """The vendor of each of `cards.models`."""
    return cards.vendors or tuple(vendor_of(model) for model in cards.models)


def kinds_of(cards: Cards) -> tuple[Kind, ...]:
    """Each of `cards.models` with its vendor."""
    return tuple(Kind(*kind) for kind in zip(cards.models, vendors_of(cards), strict=True))


def _publishing(shape: Shape, free: Free) -> Bools:
    """Cards in partition mode with a profile of that name and as much compute."""
    found = np.zeros(len(free.cards), dtype=np.bool_)
    for row, cut in free.cards.cuts.items():
        profile = named(cut.profiles, shape.profile)
        found[row] = profile is not None and profile.gpu_milli == shape.gpu_milli
    return found
