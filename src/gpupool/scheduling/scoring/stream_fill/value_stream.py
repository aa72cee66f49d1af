"""The value of a node: how much compute a stream of future claims would still place on it.

Streams are drawn once from the expected classes by a generator of our own, so they are equal on
every machine. Each stream is run once on a copy of the node: a claim that fits is placed (shares on
the tightest cards), one that does not fit is skipped. The value is the sum over all streams. The
module knows numbers only: no waiting shapes and no prices.

Claims that do not fit are skipped without looking at each. For every threshold of host amount and
of card width, a bit set holds the positions of the stream that ask for no more. The intersection of
two bit sets gives the next claim that fits.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpupool.base.units import WHOLE
from gpupool.model.claim import Shape
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.scoring.expected_demand import DemandClasses, NodeKinds
from gpupool.scheduling.scoring.stream_fill.partial_card_value import PartialCardValues
from gpupool.scheduling.scoring.stream_fill.splitmix import generate_numbers
from gpupool.scheduling.snapshot.columns import Ints

#: Streams. 64 would be 0.1 points better and take NumPy four times as long (decision 0007).
NUMBER = 16
#: Streams, and claims in each. Lengths from 50 to 400 do as well; beyond it rare claims look
#: likelier than they are.
LENGTH = 200

#: Values kept; when there are more all are forgotten, which costs time and changes nothing.
REMEMBERED = 1 << 17

_NOT_HERE = -1


class NodeState(NamedTuple):
    """What the value of a node depends on.

    Kind of node (`menu`), grains of its host, free cards, and the parts of other cards, ascending.
    """

    menu: int
    host: int
    whole: int
    parts: tuple[int, ...]


class _StreamClaim(NamedTuple):
    """A claim in a stream; `host` is in grains."""

    host: int
    cards: int
    milli: int


@dataclass(frozen=True)
class _ClaimStream:
    """The claims of a stream, and per threshold the bit set of positions that ask for no more."""

    claims: tuple[_StreamClaim, ...]
    below_host: tuple[int, ...]
    below_width: tuple[int, ...]
    #: Claims of several shares sit on no line of cards: cards, milli, places.
    several: tuple[tuple[int, int, int], ...]


class StreamMenu:
    """The streams for the nodes on which the same classes may run."""

    def __init__(
        self,
        streams: npt.NDArray[np.int16],
        classes: DemandClasses,
        listed: Sequence[bool],
        grain: int,
    ) -> None:
        host = (-(-classes.host // grain)).tolist()
        entries = list(map(_StreamClaim, host, classes.count.tolist(), classes.milli.tolist()))
        known = list(compress(entries, listed))
        self.least = min((one.milli for one in known), default=WHOLE)
        self.hosts = sorted({one.host for one in known})
        self.widths = sorted({_compute_width(one) for one in known if not _is_several(one)})
        lines = []
        for stream in streams.tolist():
            line = [entries[number] for number in stream if listed[number]]
            lines.append(self._build_stream(line))
        self.streams = tuple(lines)

    def _build_stream(self, entries: Sequence[_StreamClaim]) -> _ClaimStream:
        below_host = list[int]()
        for height in self.hosts:
            below_host.append(_build_bit_set([one.host <= height for one in entries]))
        # A claim of several shares has no width: the bit sets of `several` stand for it.
        too_wide = self.widths[-1] + 1 if self.widths else 0
        widths = [too_wide if _is_several(one) else _compute_width(one) for one in entries]
        below_width = list[int]()
        for height in self.widths:
            below_width.append(_build_bit_set([width <= height for width in widths]))
        kinds = sorted({(one.cards, one.milli) for one in entries if _is_several(one)})
        several = []
        for count, milli in kinds:
            places = _build_bit_set(one[1:] == (count, milli) for one in entries)
            several.append((count, milli, places))
        # The leading 0 is for an amount below the smallest threshold.
        return _ClaimStream(tuple(entries), (0, *below_host), (0, *below_width), tuple(several))

    def compute_value(self, state: NodeState) -> int:
        """Return the milli-devices that all streams together place on the node."""
        return sum(self._fill_node(stream, state) for stream in self.streams)

    def _fill_node(self, stream: _ClaimStream, state: NodeState) -> int:
        hosts = self.hosts
        widths = self.widths
        least = self.least
        below_host = stream.below_host
        below_width = stream.below_width
        host = state.host
        whole = state.whole
        parts = list(state.parts)
        after = -1
        filled = 0
        while True:
            # Whole cards join into one line for claims of several cards; else the widest part
            # decides.
            width = whole * WHOLE if whole else parts[-1] if parts else 0
            places = below_width[bisect_right(widths, width)]
            if stream.several:
                places |= _find_fitting_places(stream, whole, parts)
            places &= below_host[bisect_right(hosts, host)] & after
            if not places:
                return filled
            # The lowest set bit: the next claim of the stream that fits.
            first = places & -places
            # All bits above it, in two's complement. Amounts only shrink along a stream, so what
            # did not fit before does not fit later, and no claim is looked at twice.
            after = -(first << 1)
            need, count, milli = stream.claims[first.bit_length() - 1]
            host -= need
            filled += count * milli
            if milli == WHOLE:
                whole -= count
            elif count == 1:
                whole -= cut_share(parts, milli, least)
            else:
                whole -= cut_shares(parts, count, milli, least)


class NodeValueModel:
    """Values of node states, cached; subclasses define the value."""

    #: A worth is in milli-devices times this.
    scale: int

    def __init__(
        self, classes: DemandClasses, kinds: NodeKinds, cuts: PartialCardValues | None = None
    ) -> None:
        self._grain = kinds.resource.grain
        needs = (
            kinds.compute_needs(classes)
            if kinds.by_memory
            else np.zeros((len(classes), len(kinds)), dtype=np.int64)
        )
        runs = kinds.find_allowed(classes.models) & (classes.count > 0)[:, None] & (needs <= WHOLE)
        columns = list(map(tuple, np.where(runs, needs, _NOT_HERE).T.tolist()))
        #: By class thousandths of a card's memory that a seat takes, for nodes to which it is the
        #: same.
        self._menus = tuple(dict.fromkeys(columns))
        self._menu_of = [self._menus.index(column) for column in columns]
        self._runs = [np.array(menu) != _NOT_HERE for menu in self._menus]
        self._least = list[int]()
        self._modest = list[int]()
        self._cuts = list[list[int]]()
        for number, mine in enumerate(self._runs):
            self._least.append(int(min(classes.milli[mine], default=WHOLE)))
            self._modest.append(int(min(-(-classes.host[mine] // self._grain), default=0)))
            # Any kind of the menu will do: parts have the same value where the same classes run.
            kind = self._menu_of.index(number)
            self._cuts.append([] if cuts is None else (self.scale * cuts.worth[kind]).tolist())
        self._known: dict[NodeState, int] = {}

    def get_cells(self, free: FreeCapacity, nodes: Ints) -> Ints:
        """Return the free parts of these nodes' cards, below 0 where no open card is."""
        return free.cells[nodes]

    def get_sizes(self, free: FreeCapacity, rows: Ints) -> Ints:
        """Return the free parts of these cards, which are open."""
        return np.minimum(free.milli[rows], WHOLE)

    def is_bare(self, size: int) -> bool:
        """Return whether no compute of a card with that free part is in use."""
        return size >= WHOLE

    def count_bare(self, state: NodeState) -> int:
        """Return the number of such cards."""
        return state.whole

    def measure_seat(self, shape: Shape, kind: int) -> int:
        """Return what one seat of the shape takes of a card on that kind of node."""
        return shape.held_milli

    def build_state(self, kind: int, host: int, cells: Sequence[int]) -> NodeState:
        """Return the state of a node; parts that no share can use are left out.

        Args:
            kind: The kind of the node.
            host: Its free amount of the host's resource.
            cells: The free parts of its cards.
        """
        number = self._menu_of[kind]
        least = self._least[number]
        # Sorted and without parts that no class can use, so that more nodes share a state.
        parts = sorted(cell for cell in cells if least <= cell < WHOLE)
        return NodeState(
            number, host // self._grain, sum(cell >= WHOLE for cell in cells), tuple(parts)
        )

    def place_claim(
        self, state: NodeState, asked: int, host: int, count: int, seat: int
    ) -> NodeState:
        """Return the state after a claim took the tightest cards.

        Args:
            state: The state before.
            asked: Amount of the host's resource that the claim takes.
            host: Free amount of it before.
            count: Cards of the claim.
            seat: What one seat takes of a card.
        """
        parts = list(state.parts)
        whole = state.whole
        if seat == WHOLE:
            whole -= count
        elif count:
            whole -= cut_shares(parts, count, seat, self._least[state.menu])
        return NodeState(state.menu, (host - asked) // self._grain, whole, tuple(parts))

    def cut_card(self, state: NodeState, asked: int, host: int, size: int, seat: int) -> NodeState:
        """Return the state after a share took a part of that size; a seat of 0 takes nothing."""
        left = (host - asked) // self._grain
        least = self._least[state.menu]
        if not seat:
            return state._replace(host=left)
        parts = list(state.parts)
        if size < WHOLE and size >= least:
            del parts[bisect_left(parts, size)]
        if size - seat >= least:
            insort(parts, size - seat)
        return NodeState(state.menu, left, state.whole - (size >= WHOLE), tuple(parts))

    def get_value(self, state: NodeState) -> int:
        """Return the value of a state in milli-devices times `scale`."""
        found = self._known.get(state)
        if found is None:
            if len(self._known) >= REMEMBERED:
                # All at once: an order of use would cost more than values that are computed again.
                self._known.clear()
            found = self._known[state] = self._compute_value(state)
        return found

    def _compute_value(self, state: NodeState) -> int:
        """Return the value; 0 if the host has too little for every class."""
        if state.host < self._modest[state.menu]:
            return 0
        cuts = self._cuts[state.menu]
        return self._compute_worth(state) + (self._value_parts(state, cuts) if cuts else 0)

    def _value_parts(self, state: NodeState, cuts: Sequence[int]) -> int:
        return state.whole * cuts[WHOLE] + sum(cuts[part] for part in state.parts)

    def _compute_worth(self, state: NodeState) -> int:
        raise NotImplementedError


class StreamValueModel(NodeValueModel):
    """What streams of claims fill."""

    scale = NUMBER

    def __init__(
        self, classes: DemandClasses, kinds: NodeKinds, cuts: PartialCardValues | None = None
    ) -> None:
        super().__init__(classes, kinds, cuts)
        streams = draw_streams(classes)
        self._listed = list[StreamMenu]()
        for listed in self._runs:
            self._listed.append(StreamMenu(streams, classes, listed.tolist(), self._grain))

    def _compute_worth(self, state: NodeState) -> int:
        return self._listed[state.menu].compute_value(state)


def draw_streams(classes: DemandClasses) -> npt.NDArray[np.int16]:
    """Return one line of class numbers per stream, drawn by frequency (splitmix64)."""
    # The bias of the remainder is below 2^-44 for weights of 2^20: no class notices.
    numbers = generate_numbers(NUMBER * LENGTH) % np.uint64(max(classes.total, 1))
    found = np.searchsorted(np.cumsum(classes.weight), numbers.astype(np.int64), side="right")
    return found.astype(np.int16).reshape(NUMBER, LENGTH)


def cut_share(parts: list[int], milli: int, least: int) -> int:
    """Place a share on the tightest part or on a free card; return how many free cards were used."""
    at = bisect_left(parts, milli)
    fresh = at == len(parts)
    left = (WHOLE if fresh else parts.pop(at)) - milli
    # A smaller part is dropped: it has no value, and the state stays short.
    if left >= least:
        insort(parts, left)
    return int(fresh)


def cut_shares(parts: list[int], count: int, milli: int, least: int) -> int:
    """Place shares of one claim on distinct cards, tightest first; return the free cards used."""
    at = bisect_left(parts, milli)
    taken = parts[at : at + count]
    del parts[at : at + count]
    fresh = count - len(taken)
    for size in [*taken, *[WHOLE] * fresh]:
        if size - milli >= least:
            insort(parts, size - milli)
    return fresh


def _find_fitting_places(stream: _ClaimStream, whole: int, parts: list[int]) -> int:
    places = 0
    for count, milli, mine in stream.several:
        if whole + len(parts) - bisect_left(parts, milli) >= count:
            places |= mine
    return places


def _is_several(entry: _StreamClaim) -> bool:
    return entry.cards > 1 and entry.milli < WHOLE


def _compute_width(entry: _StreamClaim) -> int:
    """Return how wide the line of cards must be: the share, or the whole cards together."""
    return entry.milli if entry.milli < WHOLE else entry.milli * entry.cards


def _build_bit_set(chosen: Iterable[bool]) -> int:
    bits = "".join("1" if one else "0" for one in chosen)
    return int(bits[::-1] or "0", 2)
