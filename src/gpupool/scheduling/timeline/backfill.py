"""EASY backfill: the head of the queue gets a start, and claims behind it must not delay that
start.

The head's start is the earliest instant at which known ends leave capacity for all of it, for its
whole run. From then on its cards are held. A claim behind it may start now where it ends before
that, or where the cards have capacity for both. So with run times that are exact or too long, no
claim of lower rank delays a promised start (Lifka 1995 for whole machines; here by card, compute
and memory, for shares and gangs alike).

This module knows no queue and no policy: the caller says which claim is a head and how to place it
at an instant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import NamedTuple

import numpy as np

from gpupool.model.partition import PartitionSlot
from gpupool.scheduling.filtering.capacity_columns import (
    SeatAmounts,
    find_excess,
    get_free_columns,
)
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.snapshot.columns import Bools
from gpupool.scheduling.snapshot.plan import PlannedStart
from gpupool.scheduling.timeline.earliest_start import (
    StartParts,
    StartTrial,
    find_earliest_start,
    find_usable_cards,
    try_on_columns,
)
from gpupool.scheduling.timeline.job_end_times import UNKNOWN_END
from gpupool.scheduling.timeline.start_searches import StartSearchCache
from gpupool.scheduling.timeline.timeline import NEVER, Hold, Timeline


class PromisedStart(NamedTuple):
    """The start promised to a head, and the hold of its cards; from UNKNOWN_END on no time is
    known.
    """

    at_ns: int
    taken: SeatAmounts
    hold: Hold | None


class Backfill:
    """A working copy of free capacity that hides what is held from claims that may not have it."""

    def __init__(self, free: FreeCapacity, timeline: Timeline) -> None:
        self.free = free
        self.timeline = timeline
        self._promised: list[tuple[int, Bools]] = []
        self._lacked: dict[str, int] = {}
        self._screen: tuple[int, str] | None = None
        self._hidden: SeatAmounts | None = None
        self._searches = StartSearchCache()

    def hide_holds_for(self, until_ns: int, owner: str = "") -> None:
        """Hide what a claim may not take that starts now, runs until then and may use this owner's
        holds.
        """
        # Claims whose runs meet the same holds see the same capacity, so a queue of thousands
        # changes the working copy a few times. Windows are told apart by how many holds begin
        # inside the run.
        window = self._find_window(until_ns, owner)
        if window != self._screen:
            self.restore_holds()
            self._screen = window
            if self.timeline.held.any():
                self._hide_holds(until_ns, owner)

    def restore_holds(self) -> None:
        """Show everything that is free again."""
        self._screen = None
        if self._hidden is not None:
            self._change_free(self._hidden, 1)
            self._hidden = None

    @contextmanager
    def show_only(self, start: PlannedStart, until_ns: int, owner: str = "") -> Iterator[None]:
        """Show for now only what that start keeps, less what is held for others until then."""
        self.restore_holds()
        now = get_free_columns(self.free)
        kept = self.timeline.subtract_holds(now, until_ns, owner).limit_to(
            make_seats_of_start(start)
        )
        milli = np.maximum(now.milli - kept.milli, 0)
        sizes = np.maximum(now.sizes - kept.sizes, 0)
        rows = np.flatnonzero((milli > 0) | (sizes > 0))
        self._hidden = SeatAmounts(
            rows, milli[rows], sizes[rows], pieces=self._list_held_pieces(until_ns)
        )
        self._change_free(self._hidden, -1)
        try:
            yield
        finally:
            self.restore_holds()

    def add_taken(self, taken: SeatAmounts, until_ns: int) -> None:
        """Record that a claim just placed on the working copy ends then."""
        self.timeline.add_end(taken, until_ns)
        # What was hidden was computed from what was free before this claim.
        if self.timeline.held[taken.rows].any():
            self.restore_holds()

    def promise_start(
        self,
        parts: StartParts,
        seconds: int | None,
        trial: StartTrial,
        owner: str = "",
        *,
        collects: bool = True,
        before: PlannedStart | None = None,
        lacks: str = "",
        priority: int = 0,
        unless: StartTrial | None = None,
    ) -> PromisedStart | None:
        """Promise the head a start and hold its cards from then on.

        Args:
            parts: what starts together.
            seconds: the run time; None where it is not known.
            trial: how to place the head at an instant.
            owner: the reservation whose holds it may use.
            collects: where it waits for jobs of unknown end, hold its cards from now on without
                end. What the longest-running of those jobs return is kept for it, so no smaller
                claim can keep it waiting.
            before: its last promised start. Where the search finds nothing as early, the cards of
                that promise are tried alone.
            lacks: what it lacks besides cards. Such a head holds no cards while nothing tells when
                that comes.
            priority: its priority.
            unless: no promise without a known start where this other trial finds seats earlier.

        Returns:
            None where the head could not start however much ended.
        """
        if (
            collects
            and unless
            and self._is_start_known_only_to(unless, parts, seconds, trial, owner, before)
        ):
            return None
        found = self._find_start(
            parts, seconds, trial, owner, before, NEVER if collects else UNKNOWN_END
        )
        if found is None:
            return None
        start, taken = found
        other = (
            self._find_start(parts, seconds, unless, owner, None, start)
            if unless and start >= UNKNOWN_END
            else None
        )
        if other is not None:
            return None
        if lacks:
            # One head per quota: it collects what comes back. A second one would only make it wait
            # longer.
            self._lacked[lacks] = max(priority, self._lacked.get(lacks, priority))
        else:
            self._promised.append((priority, find_usable_cards(parts)))
        return PromisedStart(
            start,
            taken,
            self._hold_start(start, taken, seconds) if start < UNKNOWN_END or not lacks else None,
        )

    def is_due(self, parts: StartParts, depth: int = 1, lacks: str = "", priority: int = 0) -> bool:
        """Whether this head gets a promise: fewer than `depth` earlier heads wait for cards it
        could use.

        Of the heads that lack something else, the first gets one. Heads of lower priority that are
        before it only have an earlier promise: they are not counted.
        """
        if lacks:
            return self._lacked.get(lacks, priority - 1) < priority
        mine = find_usable_cards(parts)
        return (
            sum(bool((mine & theirs).any()) for rank, theirs in self._promised if rank >= priority)
            < depth
        )

    def _is_start_known_only_to(
        self,
        other: StartTrial,
        parts: StartParts,
        seconds: int | None,
        trial: StartTrial,
        owner: str,
        before: PlannedStart | None,
    ) -> bool:
        """Whether the other trial has a known start and this one has none."""
        mine = self._find_start(parts, seconds, trial, owner, before, UNKNOWN_END)
        return (
            mine is None
            and self._find_start(parts, seconds, other, owner, None, UNKNOWN_END) is not None
        )

    def _find_start(
        self,
        parts: StartParts,
        seconds: int | None,
        trial: StartTrial,
        owner: str,
        before: PlannedStart | None,
        end_ns: int,
    ) -> tuple[int, SeatAmounts] | None:
        self.restore_holds()
        look = None
        if trial.alike is not None:
            look = self._searches.get_search(
                (trial.alike, seconds, owner), self.free, self.timeline
            )
        found = find_earliest_start(
            self.timeline, self.free, parts, seconds, trial, owner, end_ns, look
        )
        if (
            before is not None
            and before.at_ns > self.timeline.now_ns
            and (found is None or found[0] > before.at_ns)
        ):
            found = self._retry_last_promise(before, parts, seconds, trial, owner) or found
        return found

    def _hold_start(self, start_ns: int, taken: SeatAmounts, seconds: int | None) -> Hold:
        hold = Hold(taken, start_ns, self.timeline.compute_end(seconds, start_ns))
        if start_ns >= UNKNOWN_END:
            # No known start: its seats are collected from now on, as jobs on them end.
            hold = Hold(taken, self.timeline.now_ns, collects=True)
        self.timeline.hold(hold)
        return hold

    def _retry_last_promise(
        self,
        before: PlannedStart,
        parts: StartParts,
        seconds: int | None,
        trial: StartTrial,
        owner: str,
    ) -> tuple[int, SeatAmounts] | None:
        at = before.at_ns
        if not trial.may(at):
            return None
        then = get_free_columns(self.free).add_columns(
            self.timeline.get_low(at, self.timeline.compute_end(seconds, at), owner)
        )
        recut = self.timeline.list_recuts(at, self.timeline.compute_end(seconds, at))
        taken = try_on_columns(
            self.free,
            then.limit_to(make_seats_of_start(before)),
            lambda: trial.attempt(at),
            find_usable_cards(parts),
            recut,
        )
        return None if taken is None else (at, taken)

    def _find_window(self, until_ns: int, owner: str) -> tuple[int, str]:
        starts = sum(1 for hold in self.timeline.holds if hold.start_ns < until_ns)
        return (starts, owner)

    def _hide_holds(self, until_ns: int, owner: str) -> None:
        now = get_free_columns(self.free)
        spare = self.timeline.subtract_holds(now, until_ns, owner)
        cards = find_excess(now.milli, spare.milli, now.sizes, spare.sizes)
        nodes = find_excess(now.cpu_milli, spare.cpu_milli, now.host_bytes, spare.host_bytes)
        self._hidden = SeatAmounts(*cards, *nodes, pieces=self._list_held_pieces(until_ns))
        self._change_free(self._hidden, -1)

    def _list_held_pieces(self, until_ns: int) -> tuple[tuple[int, PartitionSlot], ...]:
        recuts = self.timeline.list_recuts(self.timeline.now_ns, until_ns)
        return tuple((row, piece) for row, piece, _ in recuts)

    def _change_free(self, some: SeatAmounts, sign: int) -> None:
        free = self.free
        rows = some.rows
        nodes = some.nodes
        free.set_cards(
            rows, free.milli[rows] + sign * some.milli, free.size[rows] + sign * some.sizes
        )
        if len(nodes):
            cpu = free.cpu_milli[nodes] + sign * some.cpu_milli
            host = free.host_bytes[nodes] + sign * some.host_bytes
            free.set_hosts(nodes, cpu, host)
        free.change_slots((row, piece, sign < 0) for row, piece in some.pieces)


def make_start(hold: Hold) -> PlannedStart:
    """Make the start of a head's hold, as plans report it."""
    taken = hold.taken
    return PlannedStart(
        hold.start_ns,
        tuple(taken.rows.tolist()),
        reserved=True,
        milli=tuple(taken.milli.tolist()),
        sizes=tuple(taken.sizes.tolist()),
    )


def make_seats_of_start(start: PlannedStart) -> SeatAmounts:
    """Make the seats that a start keeps."""
    return SeatAmounts(
        np.array(start.rows, dtype=np.int64),
        np.array(start.milli, dtype=np.int64),
        np.array(start.sizes, dtype=np.int64),
    )


def join_seats(parts: Sequence[SeatAmounts]) -> SeatAmounts:
    """Join seats into one value; a card or a node may then be named more than once."""
    if not parts:
        none = np.empty(0, dtype=np.int64)
        return SeatAmounts(none, none, none)
    *columns, pieces = zip(*parts, strict=True)
    joined = map(np.concatenate, columns)
    return SeatAmounts._make([*joined, tuple(chain.from_iterable(pieces))])
