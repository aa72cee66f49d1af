"""What is free on each card from now on: what running jobs give back when they end, and what is held for later.

Time is a set of steps: at an instant an amount comes or goes at a place. What may be taken by a claim that starts now
is what is free on a card during its whole run. Where nothing is held, amounts only come: then this is what is free
now, and nothing is computed at all. Processors and main memory are counted by node: of which NUMA node something will
come back is not foreseen. This module adds and compares numbers; it knows no queue, no policy and no clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from gpupool.model.partition import Placement as Place
from gpupool.scheduling.columns import Columns, Taken
from gpupool.scheduling.ends import KINDS, SECOND, UNTOLD, Ends, Kind
from gpupool.scheduling.free import Recut
from gpupool.scheduling.snapshot import Bools, Cards, Ints, Running
from gpupool.scheduling.steps import AT, Counts, Steps

NEVER = int(np.iinfo(np.int64).max)
"""An instant after all others: the end of what is not known to end."""


class Jobs(IntEnum):
    """Which running jobs count where room is looked for."""

    ALL = 0
    OTHERS = 1
    """Not those of the owner: it is asked what they and what is still held have together."""
    NONE = 2
    """None, as if all of them ended."""


@dataclass(frozen=True)
class Hold:
    """What is kept from start to end for somebody; `owner` is that of a reservation, empty for the queue's head."""

    taken: Taken
    start_ns: int
    end_ns: int = NEVER
    owner: str = ""


class Timeline:
    """Jobs' ends and holds over the cards of one snapshot, as changes against what is free now."""

    def __init__(self, cards: Cards, running: Iterable[Running] | Ends, now_ns: int) -> None:
        """`running` as a pool keeps their ends from one cycle to the next, or as they are in a snapshot."""
        ends = running if isinstance(running, Ends) else Ends(cards, running)
        self.now_ns = now_ns
        self.cards = cards
        self.held: Bools = np.zeros(len(cards), dtype=np.bool_)
        """Cards of which something is held, now or later."""
        self.holds: list[Hold] = []
        self.changes = 0
        """How often it was told of anything."""
        self._owners = ends.owners
        by_card, by_node = ends.at(now_ns)
        self._cards, self._nodes = Steps(len(cards), by_card), Steps(len(cards.nodes), by_node)
        self._ends = _distinct(by_card[AT])
        self._pieces: list[tuple[int, int, Place]] = ends.pieces(now_ns)
        """When each partition comes back, and its row."""

    def ends(self, taken: Taken, end_ns: int) -> None:
        """What was just taken is given back then (NEVER: nobody knows)."""
        self.changes += 1
        end_ns = min(end_ns, UNTOLD + self.now_ns)
        self._ends = _with(self._ends, [end_ns])
        self._pieces += [(end_ns, row, piece) for row, piece in taken.pieces]
        self._cards.add(end_ns, taken.rows, taken.milli, taken.sizes)
        self._nodes.add(end_ns, taken.nodes, taken.cpu_milli, taken.host_bytes)

    def hold(self, hold: Hold) -> None:
        """From now on these cards are not free during the hold, whoever asks but its owner."""
        self.holds.append(hold)
        self.held[hold.taken.rows] = True
        self._span(hold, -1, Kind.HOLD)

    def release(self, hold: Hold) -> None:
        """As if it had never been held."""
        self.holds = [one for one in self.holds if one is not hold]
        self._span(hold, 1, Kind.HOLD)
        self.held[:] = False
        for one in self.holds:
            self.held[one.taken.rows] = True

    def used(self, part: Hold) -> None:
        """So much of a hold of this owner has a running job of the owner, until its end or that of the hold."""
        self._span(part, 1, Kind.USED)

    def low(self, since_ns: int, until_ns: int, owner: str = "", jobs: Jobs = Jobs.ALL) -> Columns:
        """What there is during all of the window, against now, for a claim that may use the holds of `owner`."""
        counts = self._counting(self._owners.known(owner), jobs)
        cards = self._cards.low(since_ns, until_ns, counts)
        return Columns(*cards, *self._nodes.low(since_ns, until_ns, counts))

    def recut(self, since_ns: int, until_ns: int) -> list[Recut]:
        """Of cards in partition mode, the pieces that are back by then, and those held at some time of the window."""
        back = [(row, piece, False) for end_ns, row, piece in self._pieces if self.now_ns < end_ns <= since_ns]
        held = (hold.taken.pieces for hold in self.holds if hold.start_ns < until_ns and since_ns < hold.end_ns)
        return back + [(row, piece, True) for pieces in held for row, piece in pieces]

    def spare(self, free: Columns, until_ns: int, owner: str = "") -> Columns:
        """What a claim that starts now and runs until then may take; what is free now where nothing is held."""
        if not self.held.any():
            return free
        counts = self._counting(self._owners.known(owner))
        there = [*free]
        for first, steps in ((0, self._cards), (2, self._nodes)):
            if steps.goes:
                dips = steps.dip(self.now_ns, until_ns, counts)
                pairs = zip(there[first : first + 2], dips, strict=True)
                there[first : first + 2] = [now + np.minimum(dip, 0) for now, dip in pairs]
        return Columns(*there)

    def instants(self) -> Ints:
        """When something comes back, in order, after now; what a search for a start has to look at.

        From UNTOLD on it is no time but an order: which jobs of unknown end would have to end first.
        """
        ends = [hold.end_ns for hold in self.holds if self.now_ns < hold.end_ns < NEVER]
        return _distinct(_with(self._ends, ends))

    def until(self, seconds: int | None, since_ns: int | None = None) -> int:
        """The end of a run of so many seconds; of unknown length, NEVER."""
        since = self.now_ns if since_ns is None else since_ns
        return NEVER if seconds is None else min(since + seconds * SECOND, NEVER)

    def _span(self, hold: Hold, sign: int, kind: Kind) -> None:
        self.changes += 1
        taken, mark = hold.taken, self._owners.mark(hold.owner, kind)
        for at, way in ((max(hold.start_ns, self.now_ns), sign), (hold.end_ns, -sign)):
            if at < NEVER:
                self._cards.add(at, taken.rows, way * taken.milli, way * taken.sizes, mark)
                self._nodes.add(at, taken.nodes, way * taken.cpu_milli, way * taken.host_bytes, mark)

    def _counting(self, owner: int, jobs: Jobs = Jobs.ALL) -> Counts | None:
        if owner < 0 and jobs is not Jobs.NONE:
            return None

        def counts(mark: Ints) -> Bools:
            kind, whose = mark % KINDS, mark // KINDS
            if jobs is Jobs.NONE:
                counted: Bools = (kind == Kind.HOLD) & (whose != owner)
            else:
                counted = (whose != owner) | ((kind == Kind.END) & (jobs is Jobs.ALL))
            return counted

        return counts


def _with(instants: Ints, more: Sequence[int]) -> Ints:
    """In order."""
    return np.insert(instants, instants.searchsorted(sorted(more)), sorted(more)) if more else instants


def _distinct(instants: Ints) -> Ints:
    """Each once, of what is in order; `np.unique` would sort or hash it all again."""
    first = np.ones(len(instants), dtype=np.bool_)
    first[1:] = instants[1:] != instants[:-1]
    return instants[first]
