"""What a node is worth: how much compute a stream of claims yet to come would still place on it.

Streams are drawn once from the expected classes, by a generator of our own so that they are the same everywhere. A
node's value is what they place on it in all, each walked once from a copy of the node: a claim that fits is placed
(shares on the tightest cards), one that does not is passed over. Knows numbers only: no shape that waits, no price.

Which claims of a stream still fit is found without looking at those that do not: per height of what is left of the
host, and of cards, a bit set says which places of the stream are below it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpupool.base.units import WHOLE
from gpupool.model.claim import Shape
from gpupool.scheduling.cutting import Cuts
from gpupool.scheduling.expected import Classes, Kinds
from gpupool.scheduling.free import Free
from gpupool.scheduling.snapshot import Ints

NUMBER, LENGTH = 16, 200
"""Streams, and claims in each. Lengths from 50 to 400 do as well; beyond it rare claims look likelier than they are."""

REMEMBERED = 1 << 17
"""Values kept; when there are more all are forgotten, which costs time and changes nothing."""

_SEED = 12345
_NOT_HERE = -1


class State(NamedTuple):
    """What a value depends on: who may run there, grains of its host, free cards, parts of others (ascending)."""

    menu: int
    host: int
    whole: int
    parts: tuple[int, ...]


class _Entry(NamedTuple):
    """A claim in a stream, what it asks for of its host in grains."""

    host: int
    cards: int
    milli: int


@dataclass(frozen=True)
class _Stream:
    """Per place the claim, and per height the places that ask for no more."""

    claims: tuple[_Entry, ...]
    below_host: tuple[int, ...]
    below_width: tuple[int, ...]
    several: tuple[tuple[int, int, int], ...]
    """Claims of several shares sit on no line of cards: cards, milli, places."""


class Menu:
    """The streams as nodes see them on which the same classes may run."""

    def __init__(self, streams: npt.NDArray[np.int16], classes: Classes, listed: Sequence[bool], grain: int) -> None:
        host = -(-classes.host // grain)
        entries = [
            _Entry(*one) for one in zip(host.tolist(), classes.count.tolist(), classes.milli.tolist(), strict=True)
        ]
        known = [one for one, there in zip(entries, listed, strict=True) if there]
        self.least = min((one.milli for one in known), default=WHOLE)
        self.hosts = sorted({one.host for one in known})
        self.widths = sorted({_width(one) for one in known if not _is_several(one)})
        lines = ([entries[number] for number in stream if listed[number]] for stream in streams.tolist())
        self.streams = tuple(self._laid_out(line) for line in lines)

    def _laid_out(self, entries: Sequence[_Entry]) -> _Stream:
        plain = [not _is_several(one) for one in entries]
        host = tuple(_places(one.host <= height for one in entries) for height in (-1, *self.hosts))
        width = tuple(
            _places(_width(one) <= height and line for one, line in zip(entries, plain, strict=True))
            for height in (-1, *self.widths)
        )
        kinds = sorted({(one.cards, one.milli) for one in entries if _is_several(one)})
        several = tuple((count, milli, _places(one[1:] == (count, milli) for one in entries)) for count, milli in kinds)
        return _Stream(tuple(entries), host, width, several)

    def value(self, state: State) -> int:
        """Milli-devices that all streams together place on the node."""
        return sum(self._walk(stream, state) for stream in self.streams)

    def _walk(self, stream: _Stream, state: State) -> int:
        hosts, widths, least, below_host, below_width = (
            self.hosts,
            self.widths,
            self.least,
            stream.below_host,
            stream.below_width,
        )
        host, whole, parts = state.host, state.whole, list(state.parts)
        after, filled = -1, 0
        while True:
            width = whole * WHOLE if whole else parts[-1] if parts else 0
            places = below_width[bisect_right(widths, width)]
            if stream.several:
                places |= _fitting(stream, whole, parts)
            places &= below_host[bisect_right(hosts, host)] & after
            if not places:
                return filled
            first = places & -places
            after = -(first << 1)
            need, count, milli = stream.claims[first.bit_length() - 1]
            host -= need
            filled += count * milli
            if milli == WHOLE:
                whole -= count
            elif count == 1:
                whole -= cut(parts, milli, least)
            else:
                whole -= cut_several(parts, count, milli, least)


class States:
    """Worths of node states, remembered: what a worth is depends on the kind of value."""

    scale: int
    """A worth is in milli-devices times this."""

    def __init__(self, classes: Classes, kinds: Kinds, cuts: Cuts | None = None) -> None:
        self._grain = kinds.resource.grain
        needs = kinds.needs(classes) if kinds.by_memory else np.zeros((len(classes), len(kinds)), dtype=np.int64)
        runs = kinds.allowed(classes.models) & (classes.count > 0)[:, None] & (needs <= WHOLE)
        columns = [tuple(column) for column in np.where(runs, needs, _NOT_HERE).T.tolist()]
        self._menus = tuple(dict.fromkeys(columns))
        """By class thousandths of a card's memory that a seat takes, for nodes to which it is the same."""
        self._menu_of = [self._menus.index(column) for column in columns]
        self._runs = [np.array(menu) != _NOT_HERE for menu in self._menus]
        self._least = [int(min(classes.milli[runs], default=WHOLE)) for runs in self._runs]
        self._modest = [int(min(-(-classes.host[runs] // self._grain), default=0)) for runs in self._runs]
        self._cuts: list[list[int]] = [
            [] if cuts is None else (self.scale * cuts.worth[self._menu_of.index(number)]).tolist()
            for number in range(len(self._menus))
        ]
        self._known: dict[State, int] = {}

    def cells(self, free: Free, nodes: Ints) -> Ints:
        """What is free of these nodes' cards, as states have it; below 0 where no open card is."""
        return free.cells[nodes]

    def sizes(self, free: Free, rows: Ints) -> Ints:
        """The same of these cards, which are open."""
        return np.minimum(free.milli[rows], WHOLE)

    def is_bare(self, size: int) -> bool:
        """Whether no compute of a card of that size is in use."""
        return size >= WHOLE

    def bare(self, state: State) -> int:
        """How many such cards there are."""
        return state.whole

    def seat(self, shape: Shape, kind: int) -> int:
        """What one seat of the shape takes of a card of such a node, in the same measure."""
        return shape.held_milli

    def state(self, kind: int, host: int, cells: Sequence[int]) -> State:
        """The state of a node of that kind, with `host` free of its resource; parts no share can use are left out."""
        number = self._menu_of[kind]
        least = self._least[number]
        parts = sorted(cell for cell in cells if least <= cell < WHOLE)
        return State(number, host // self._grain, sum(cell >= WHOLE for cell in cells), tuple(parts))

    def placed(self, state: State, asked: int, host: int, count: int, seat: int) -> State:
        """The state after a claim took the tightest cards and `asked` of the host, of which `host` was free before."""
        parts, whole = list(state.parts), state.whole
        if seat == WHOLE:
            whole -= count
        elif count:
            whole -= cut_several(parts, count, seat, self._least[state.menu])
        return State(state.menu, (host - asked) // self._grain, whole, tuple(parts))

    def cut(self, state: State, asked: int, host: int, size: int, seat: int) -> State:
        """The state after a share took a part of that size; one that holds nothing leaves the cards as they are."""
        left, least = (host - asked) // self._grain, self._least[state.menu]
        if not seat:
            return state._replace(host=left)
        parts = list(state.parts)
        if size < WHOLE and size >= least:
            del parts[bisect_left(parts, size)]
        if size - seat >= least:
            insort(parts, size - seat)
        return State(state.menu, left, state.whole - (size >= WHOLE), tuple(parts))

    def of(self, state: State) -> int:
        """Milli-devices times `scale`."""
        found = self._known.get(state)
        if found is None:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            found = self._known[state] = self._looked_at(state)
        return found

    def _looked_at(self, state: State) -> int:
        """A node whose host has too little for the least of its classes is worth nothing, whatever its cards are."""
        if state.host < self._modest[state.menu]:
            return 0
        cuts = self._cuts[state.menu]
        return self._worth(state) + (self._of_cuts(state, cuts) if cuts else 0)

    def _of_cuts(self, state: State, cuts: Sequence[int]) -> int:
        return state.whole * cuts[WHOLE] + sum(cuts[part] for part in state.parts)

    def _worth(self, state: State) -> int:
        raise NotImplementedError


class Values(States):
    """What streams of claims fill."""

    scale = NUMBER

    def __init__(self, classes: Classes, kinds: Kinds, cuts: Cuts | None = None) -> None:
        super().__init__(classes, kinds, cuts)
        streams = drawn(classes)
        self._listed = tuple(Menu(streams, classes, listed.tolist(), self._grain) for listed in self._runs)

    def _worth(self, state: State) -> int:
        return self._listed[state.menu].value(state)


def drawn(classes: Classes) -> npt.NDArray[np.int16]:
    """One line per stream: numbers of classes, each as likely as it is frequent (splitmix64)."""
    numbers = np.arange(1, NUMBER * LENGTH + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(_SEED)
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    drawn_milli = (numbers ^ (numbers >> np.uint64(31))) % np.uint64(max(classes.total, 1))
    found = np.searchsorted(np.cumsum(classes.weight), drawn_milli.astype(np.int64), side="right")
    return found.astype(np.int16).reshape(NUMBER, LENGTH)


def cut(parts: list[int], milli: int, least: int) -> int:
    """A share takes the tightest part, a free card where none is wide enough; how many free cards went is told."""
    at = bisect_left(parts, milli)
    fresh = at == len(parts)
    left = (WHOLE if fresh else parts.pop(at)) - milli
    if left >= least:
        insort(parts, left)
    return int(fresh)


def cut_several(parts: list[int], count: int, milli: int, least: int) -> int:
    """Shares of one claim take cards of their own, the tightest; how many free cards went is told."""
    at = bisect_left(parts, milli)
    taken = parts[at : at + count]
    del parts[at : at + count]
    fresh = count - len(taken)
    for size in [*taken, *[WHOLE] * fresh]:
        if size - milli >= least:
            insort(parts, size - milli)
    return fresh


def _fitting(stream: _Stream, whole: int, parts: list[int]) -> int:
    places = 0
    for count, milli, mine in stream.several:
        if whole + len(parts) - bisect_left(parts, milli) >= count:
            places |= mine
    return places


def _is_several(entry: _Entry) -> bool:
    return entry.cards > 1 and entry.milli < WHOLE


def _width(entry: _Entry) -> int:
    """How wide the line of cards must be for the claim: its share, or its whole cards together."""
    return entry.milli if entry.milli < WHOLE else entry.milli * entry.cards


def _places(chosen: Iterable[bool]) -> int:
    bits = "".join("1" if one else "0" for one in chosen)
    return int(bits[::-1] or "0", 2)
