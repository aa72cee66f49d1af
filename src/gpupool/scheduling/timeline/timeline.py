"""Free capacity of each card over time: what running jobs return at their ends, and what is held.

Time is a set of steps: at an instant an amount comes or goes at a place. A claim that starts now
may take what is free on a card during its whole run. Where nothing is held, amounts only come: then
this is what is free now, and nothing is computed. Processors and main memory are counted by node,
because the NUMA node of what comes back is not known in advance. This module adds and compares
numbers; it knows no queue, no policy and no clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.model.partition import PartitionSlot
from gpupool.scheduling.filtering.capacity_change import SlotChange
from gpupool.scheduling.filtering.capacity_columns import CapacityColumns, SeatAmounts
from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.scheduling.snapshot.claims import RunningJob
from gpupool.scheduling.snapshot.columns import Bools, Ints
from gpupool.scheduling.timeline.job_end_times import KINDS, UNKNOWN_END, JobEndTimes, StepKind
from gpupool.scheduling.timeline.step_function import AT, StepFilter, StepFunction

#: An instant after all others, in nanoseconds: the end of a job without a known end.
NEVER = int(np.iinfo(np.int64).max)


class JobFilter(IntEnum):
    """Which running jobs count in a search for capacity."""

    ALL = 0
    #: All but those of the owner: the question is what they and the rest of the hold have together.
    OTHERS = 1
    #: No job, as if all of them ended.
    NONE = 2


@dataclass(frozen=True)
class Hold:
    """Capacity kept from start to end; `owner` is that of a reservation, empty for a queue's head."""

    taken: SeatAmounts
    start_ns: int
    end_ns: int = NEVER
    owner: str = ""
    #: Its owner's start is not known: seats are kept from now on, as jobs on them end.
    collects: bool = False


class Timeline:
    """Ends of jobs and holds over the cards of one snapshot, as changes against what is free now."""

    def __init__(
        self, cards: CardTable, running: Iterable[RunningJob] | JobEndTimes, now_ns: int
    ) -> None:
        """Take the ends of running jobs.

        Args:
            cards: the cards of the snapshot.
            running: the jobs, or their ends as a pool keeps them between cycles.
            now_ns: the instant of the snapshot.
        """
        ends = running if isinstance(running, JobEndTimes) else JobEndTimes(cards, running)
        self.now_ns = now_ns
        self.cards = cards
        #: Cards on which something is held, now or later.
        self.held: Bools = np.zeros(len(cards), dtype=np.bool_)
        self.holds: list[Hold] = []
        #: Number of changes so far; a cached search is valid while it is the same.
        self.changes = 0
        self._owners = ends.owners
        by_card, by_node = ends.list_steps(now_ns)
        self._cards = StepFunction(len(cards), by_card)
        self._nodes = StepFunction(len(cards.nodes), by_node)
        # Where hosts are known, each job has a line there, also one without a card.
        self._ends = _select_distinct((by_node if by_node.shape[1] else by_card)[AT])
        #: When each partition comes back, and its row.
        self._pieces: list[tuple[int, int, PartitionSlot]] = ends.list_pieces(now_ns)

    def add_end(self, taken: SeatAmounts, end_ns: int) -> None:
        """Add the end of seats that were just taken; NEVER where it is not known."""
        self.changes += 1
        # A job that starts now ends after all other jobs of unknown end.
        end_ns = min(end_ns, UNKNOWN_END + self.now_ns)
        self._ends = _insert_sorted(self._ends, [end_ns])
        self._pieces += [(end_ns, row, piece) for row, piece in taken.pieces]
        self._cards.add_steps(end_ns, taken.rows, taken.milli, taken.sizes)
        self._nodes.add_steps(end_ns, taken.nodes, taken.cpu_milli, taken.host_bytes)

    def hold(self, hold: Hold) -> None:
        """Hold these cards: only the owner may take them during the hold."""
        self.holds.append(hold)
        self.held[hold.taken.rows] = True
        self._add_span(hold, -1, StepKind.HOLD)

    def release(self, hold: Hold) -> None:
        """Remove a hold, as if it had never been."""
        self.holds = [one for one in self.holds if one is not hold]
        self._add_span(hold, 1, StepKind.HOLD)
        # Anew from the holds that are left: cards have no count of their holds.
        self.held[:] = False
        for one in self.holds:
            self.held[one.taken.rows] = True

    def add_used_part(self, part: Hold) -> None:
        """Add the part of a hold that a running job of its owner already has, so it is not kept
        twice.
        """
        self._add_span(part, 1, StepKind.USED)

    def get_low(
        self, since_ns: int, until_ns: int, owner: str = "", jobs: JobFilter = JobFilter.ALL
    ) -> CapacityColumns:
        """Return the least capacity during a window, against now.

        Args:
            since_ns: first instant of the window.
            until_ns: end of the window, exclusive.
            owner: the claim may use the holds of this owner.
            jobs: the running jobs that count.
        """
        counts = self._make_filter(self._owners.find_number(owner), jobs)
        cards = self._cards.get_low(since_ns, until_ns, counts)
        return CapacityColumns(*cards, *self._nodes.get_low(since_ns, until_ns, counts))

    def list_recuts(self, since_ns: int, until_ns: int) -> list[SlotChange]:
        """Return partition pieces that are back by `since_ns`, and pieces held at some time of the
        window.
        """
        recuts = list[SlotChange]()
        for end_ns, row, piece in self._pieces:
            if self.now_ns < end_ns <= since_ns:
                recuts.append((row, piece, False))
        # Returns before holds: a hold may be for the place of a piece that is back by then.
        for hold in self.holds:
            if hold.start_ns < until_ns and since_ns < hold.end_ns:
                recuts += [(row, piece, True) for row, piece in hold.taken.pieces]
        return recuts

    def subtract_holds(
        self, free: CapacityColumns, until_ns: int, owner: str = ""
    ) -> CapacityColumns:
        """Return what a claim may take that starts now and runs until then.

        The same object as `free` where nothing is held.
        """
        if not self.held.any():
            return free
        counts = self._make_filter(self._owners.find_number(owner))
        there = [*free]
        for first, steps in ((0, self._cards), (2, self._nodes)):
            if steps.has_departures:
                dips = steps.get_dip(self.now_ns, until_ns, counts)
                pairs = zip(there[first : first + 2], dips, strict=True)
                there[first : first + 2] = [now + np.minimum(dip, 0) for now, dip in pairs]
        return CapacityColumns(*there)

    def list_instants(self) -> Ints:
        """Return the instants after now at which something comes back: the candidates for a start.

        From UNKNOWN_END on an instant is no time but an order: which jobs of unknown end must end
        first.
        """
        ends = [hold.end_ns for hold in self.holds if self.now_ns < hold.end_ns < NEVER]
        return _select_distinct(_insert_sorted(self._ends, ends))

    def compute_end(self, seconds: int | None, since_ns: int | None = None) -> int:
        """Compute the end of a run of so many seconds; NEVER where the length is not known."""
        since = self.now_ns if since_ns is None else since_ns
        return NEVER if seconds is None else min(since + seconds * NANOS_PER_SECOND, NEVER)

    def _add_span(self, hold: Hold, sign: int, kind: StepKind) -> None:
        self.changes += 1
        taken = hold.taken
        mark = self._owners.get_mark(hold.owner, kind)
        for at, way in ((max(hold.start_ns, self.now_ns), sign), (hold.end_ns, -sign)):
            if at < NEVER:
                self._cards.add_steps(at, taken.rows, way * taken.milli, way * taken.sizes, mark)
                self._nodes.add_steps(
                    at, taken.nodes, way * taken.cpu_milli, way * taken.host_bytes, mark
                )

    def _make_filter(self, owner: int, jobs: JobFilter = JobFilter.ALL) -> StepFilter | None:
        if owner < 0 and jobs is not JobFilter.NONE:
            return None

        def counts(mark: Ints) -> Bools:
            kind = mark % KINDS
            whose = mark // KINDS
            if jobs is JobFilter.NONE:
                counted: Bools = (kind == StepKind.HOLD) & (whose != owner)
            else:
                counted = (whose != owner) | ((kind == StepKind.END) & (jobs is JobFilter.ALL))
            return counted

        return counts


def _insert_sorted(instants: Ints, more: Sequence[int]) -> Ints:
    """In order."""
    return (
        np.insert(instants, instants.searchsorted(sorted(more)), sorted(more)) if more else instants
    )


def _select_distinct(instants: Ints) -> Ints:
    """Keep each instant once. The instants are in order; `np.unique` would sort or hash them again."""
    first = np.ones(len(instants), dtype=np.bool_)
    first[1:] = instants[1:] != instants[:-1]
    return instants[first]
