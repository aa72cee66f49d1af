"""EASY backfill: the head of the queue that finds no room gets a start, and what is behind it must not delay that.

The head's start is the earliest instant at which what is known to end leaves room for all of it, for as long as it
runs. From then on its cards are held. A claim behind it may start now where it ends before that, or where the cards
have room for both. So with run times that are exact or too long, no promised start moves later for a claim of lower
rank (Lifka 1995 for whole machines; here by card, compute and memory, for shares and gangs alike).

Knows no queue and no policy: who is a head, and how it would be placed at an instant, is told by the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, reduce
from typing import NamedTuple

import numpy as np

from gpupool.model.partition import Placement as Place
from gpupool.scheduling.columns import Columns, Taken, beyond, free_columns
from gpupool.scheduling.ends import SECOND, UNTOLD
from gpupool.scheduling.feasible import Fit
from gpupool.scheduling.free import Free, Recut
from gpupool.scheduling.looks import Look, Looks
from gpupool.scheduling.seating import most
from gpupool.scheduling.snapshot import Bools, Ints, Start
from gpupool.scheduling.timeline import NEVER, Hold, Timeline

Parts = Sequence[tuple[Fit, int]]
"""What starts together: so many claims of each shape. A single claim is one part of one."""

Attempt = Callable[[int], Taken | None]
"""Places the head on the working copy as it is made for that instant, by the rules of every placement; what it took."""


class Trial(NamedTuple):
    """An attempt, and a cheap question before it: at an instant at which the head `may` not start, none succeeds."""

    attempt: Attempt
    may: Callable[[int], bool] = lambda _instant: True
    alike: Hashable = None
    """Heads for which it is equal take the same at an instant at which both may start; None: like no other."""


class Promise(NamedTuple):
    """A start that a head was promised, which from UNTOLD on nobody knows, and the cards held for it, if any."""

    at_ns: int
    taken: Taken
    hold: Hold | None


class Backfill:
    """A working copy of what is free, with what is held kept out of sight of those who may not have it."""

    def __init__(self, free: Free, timeline: Timeline) -> None:
        self.free, self.timeline = free, timeline
        self._promised: list[tuple[int, Bools]] = []
        self._lacked: dict[str, int] = {}
        self._screen: tuple[int, str] | None = None
        self._hidden: Taken | None = None
        self._looks = Looks()

    def show(self, until_ns: int, owner: str = "") -> None:
        """Leave on the working copy what a claim may take that starts now, runs until then and may use this hold."""
        window = self._window(until_ns, owner)
        if window != self._screen:
            self.lift()
            self._screen = window
            if self.timeline.held.any():
                self._hide(until_ns, owner)

    def lift(self) -> None:
        """Show everything that is free again."""
        self._screen = None
        if self._hidden is not None:
            self._add(self._hidden, 1)
            self._hidden = None

    @contextmanager
    def only(self, start: Start, until_ns: int, owner: str = "") -> Iterator[None]:
        """For now, what that start keeps is all that is in sight, without what is held for others until then."""
        self.lift()
        now = free_columns(self.free)
        kept = self.timeline.spare(now, until_ns, owner).only(kept_by(start))
        milli, sizes = np.maximum(now.milli - kept.milli, 0), np.maximum(now.sizes - kept.sizes, 0)
        rows = np.flatnonzero((milli > 0) | (sizes > 0))
        self._hidden = Taken(rows, milli[rows], sizes[rows], pieces=self._held_pieces(until_ns))
        self._add(self._hidden, -1)
        try:
            yield
        finally:
            self.lift()

    def took(self, taken: Taken, until_ns: int) -> None:
        """A claim that was just placed on the working copy ends then."""
        self.timeline.ends(taken, until_ns)
        if self.timeline.held[taken.rows].any():
            self.lift()

    def promise(
        self,
        parts: Parts,
        seconds: int | None,
        trial: Trial,
        owner: str = "",
        *,
        collects: bool = True,
        before: Start | None = None,
        lacks: str = "",
        priority: int = 0,
        unless: Trial | None = None,
    ) -> Promise | None:
        """The head's start and cards, held from then on; None where it could not start however much ended.

        Where it waits for jobs of unknown end and `collects`, its cards are held from now on, without end: what those
        that have run longest give back is kept for it, so that nothing smaller can keep it waiting. `before` is what it
        was promised last: where the search finds nothing as early, the cards of that promise are tried alone. A head
        that `lacks` something else than cards holds none while nobody knows when it comes. None also where nobody knows
        and this other trial (`unless`) finds seats earlier.
        """
        if collects and unless and self._only_known_to(unless, parts, seconds, trial, owner, before):
            return None
        found = self._search(parts, seconds, trial, owner, before, NEVER if collects else UNTOLD)
        if found is None:
            return None
        start, taken = found
        other = self._search(parts, seconds, unless, owner, None, start) if unless and start >= UNTOLD else None
        if other is not None:
            return None
        if lacks:
            self._lacked[lacks] = max(priority, self._lacked.get(lacks, priority))
        else:
            self._promised.append((priority, _could_use(parts)))
        return Promise(start, taken, self._held(start, taken, seconds) if start < UNTOLD or not lacks else None)

    def due(self, parts: Parts, depth: int = 1, lacks: str = "", priority: int = 0) -> bool:
        """Whether this head gets a promise: fewer than `depth` before it wait for any of the cards it could use.

        Of those that lack something else, the first gets one. Heads of lower priority are before it only because theirs
        was promised earlier: they are not counted.
        """
        if lacks:
            return self._lacked.get(lacks, priority - 1) < priority
        mine = _could_use(parts)
        return sum(bool((mine & theirs).any()) for rank, theirs in self._promised if rank >= priority) < depth

    def _only_known_to(
        self, other: Trial, parts: Parts, seconds: int | None, trial: Trial, owner: str, before: Start | None
    ) -> bool:
        """Whether the other trial has a start that is known, and this one has none."""
        mine = self._search(parts, seconds, trial, owner, before, UNTOLD)
        return mine is None and self._search(parts, seconds, other, owner, None, UNTOLD) is not None

    def _search(
        self, parts: Parts, seconds: int | None, trial: Trial, owner: str, before: Start | None, end_ns: int
    ) -> tuple[int, Taken] | None:
        self.lift()
        look = None
        if trial.alike is not None:
            look = self._looks.of((trial.alike, seconds, owner), self.free, self.timeline)
        found = earliest(self.timeline, self.free, parts, seconds, trial, owner, end_ns, look)
        if before is not None and before.at_ns > self.timeline.now_ns and (found is None or found[0] > before.at_ns):
            found = self._as_before(before, parts, seconds, trial, owner) or found
        return found

    def _held(self, start_ns: int, taken: Taken, seconds: int | None) -> Hold:
        hold = Hold(taken, start_ns, self.timeline.until(seconds, start_ns))
        if start_ns >= UNTOLD:
            hold = Hold(taken, self.timeline.now_ns)
        self.timeline.hold(hold)
        return hold

    def _as_before(
        self, before: Start, parts: Parts, seconds: int | None, trial: Trial, owner: str
    ) -> tuple[int, Taken] | None:
        at = before.at_ns
        if not trial.may(at):
            return None
        then = free_columns(self.free).plus(self.timeline.low(at, self.timeline.until(seconds, at), owner))
        recut = self.timeline.recut(at, self.timeline.until(seconds, at))
        taken = tried_on(self.free, then.only(kept_by(before)), lambda: trial.attempt(at), _could_use(parts), recut)
        return None if taken is None else (at, taken)

    def _window(self, until_ns: int, owner: str) -> tuple[int, str]:
        starts = sum(1 for hold in self.timeline.holds if hold.start_ns < until_ns)
        return (starts, owner)

    def _hide(self, until_ns: int, owner: str) -> None:
        now = free_columns(self.free)
        spare = self.timeline.spare(now, until_ns, owner)
        cards = beyond(now.milli, spare.milli, now.sizes, spare.sizes)
        nodes = beyond(now.cpu_milli, spare.cpu_milli, now.host_bytes, spare.host_bytes)
        self._hidden = Taken(*cards, *nodes, pieces=self._held_pieces(until_ns))
        self._add(self._hidden, -1)

    def _held_pieces(self, until_ns: int) -> tuple[tuple[int, Place], ...]:
        return tuple((row, piece) for row, piece, _ in self.timeline.recut(self.timeline.now_ns, until_ns))

    def _add(self, some: Taken, sign: int) -> None:
        free, rows, nodes = self.free, some.rows, some.nodes
        free.set(rows, free.milli[rows] + sign * some.milli, free.size[rows] + sign * some.sizes)
        if len(nodes):
            cpu, host = free.cpu_milli[nodes] + sign * some.cpu_milli, free.host_bytes[nodes] + sign * some.host_bytes
            free.set_hosts(nodes, cpu, host)
        free.recut((row, piece, sign < 0) for row, piece in some.pieces)


def start_of(hold: Hold) -> Start:
    """What is told, and remembered, of a head's hold."""
    taken = hold.taken
    columns = (tuple(column.tolist()) for column in (taken.rows, taken.milli, taken.sizes))
    rows, milli, sizes = columns
    return Start(hold.start_ns, rows, True, milli, sizes)


def kept_by(start: Start) -> Taken:
    rows, milli, sizes = (np.array(column, dtype=np.int64) for column in (start.rows, start.milli, start.sizes))
    return Taken(rows, milli, sizes)


def earliest(
    timeline: Timeline,
    free: Free,
    parts: Parts,
    seconds: int | None,
    trial: Trial,
    owner: str = "",
    end_ns: int = NEVER,
    look: Look | None = None,
) -> tuple[int, Taken] | None:
    """The first instant after now at which all parts have room for their whole run, and where; None is never.

    From UNTOLD on nobody knows when that is. Only what comes before `end_ns` is looked at.

    Between two instants at which a hold comes into the run, room only grows with time: so each such stretch is
    searched by halving. Where the head `may` not start at the last of them, it may at none. Counting seats comes first;
    only where they are enough is the head tried in earnest, once for each instant: nothing changes while it is
    searched. `look` is what is known already of heads alike.
    """
    now, usable, known = free_columns(free), _could_use(parts), look or Look()

    @cache
    def at(instant: int) -> Columns:
        return now.plus(timeline.low(instant, timeline.until(seconds, instant), owner))

    def enough(instant: int) -> bool:
        if instant not in known.enough:
            columns = at(instant)
            known.enough[instant] = all(int(most(fit, free, columns).sum()) >= claims for fit, claims in parts)
        return known.enough[instant]

    may = cache(trial.may)

    @cache
    def tried(instant: int) -> Taken | None:
        if not may(instant):
            return None
        if instant not in known.takes:
            recut = timeline.recut(instant, timeline.until(seconds, instant))
            known.takes[instant] = tried_on(free, at(instant), lambda: trial.attempt(instant), usable, recut)
        return known.takes[instant]

    for instants in _stretches(timeline, seconds, end_ns):
        last = instants[-1]
        if may(last) and enough(last) and (found := _first(instants, enough, may, tried)) is not None:
            return found
    return None


def tried_on(
    free: Free, columns: Columns, attempt: Callable[[], Taken | None], usable: Bools, recut: Sequence[Recut] = ()
) -> Taken | None:
    """What the head would take if these columns were free, and these pieces cut; the working copy is left as it was.

    Cards that it could not use stay as they are: who asks for one node does not move the pool.
    """
    mark = free.mark()
    try:
        free.recut(recut)
        changed = np.flatnonzero(usable & ((columns.milli != free.milli) | (columns.sizes != free.size)))
        free.set(changed, columns.milli[changed], columns.sizes[changed])
        other = (columns.cpu_milli != free.cpu_milli) | (columns.host_bytes != free.host_bytes)
        hosts = np.flatnonzero(other & (free.count_by_node(usable) > 0))
        then = columns.cpu_milli[hosts] - free.cpu_milli[hosts], columns.host_bytes[hosts] - free.host_bytes[hosts]
        free.set_numa(free.numa.widened(hosts, *then))
        free.set_hosts(hosts, columns.cpu_milli[hosts], columns.host_bytes[hosts])
        return attempt()
    finally:
        free.rollback(mark)


def joined(parts: Sequence[Taken]) -> Taken:
    """All of them as one; a card or a node may then be named more than once."""
    if not parts:
        none = np.empty(0, dtype=np.int64)
        return Taken(none, none, none)
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in Taken._fields[:-1]}
    return Taken(**columns, pieces=tuple(piece for part in parts for piece in part.pieces))


def _stretches(timeline: Timeline, seconds: int | None, end_ns: int) -> Iterator[list[int]]:
    """The instants after now at which something comes back, cut where a run would begin to meet a hold."""
    instants = timeline.instants()
    instants = instants[instants < end_ns]
    cuts: Ints = np.empty(0, dtype=np.int64)
    if seconds is not None:
        starts = [hold.start_ns - seconds * SECOND for hold in timeline.holds]
        cuts = np.unique(np.array(starts, dtype=np.int64))
    for part in np.split(instants, np.searchsorted(instants, cuts, side="right")):
        if len(part):
            yield part.tolist()


def _first(
    instants: list[int],
    enough: Callable[[int], bool],
    may: Callable[[int], bool],
    tried: Callable[[int], Taken | None],
) -> tuple[int, Taken] | None:
    """The earliest of the instants that works; where enough seats are not enough, halving by trials from there on.

    Quotas are asked first: an answer of theirs costs less than a trial.
    """
    low = _bisected(instants, _bisected(instants, 0, enough), may)
    taken = tried(instants[low])
    if taken is not None:
        return instants[low], taken
    if tried(instants[-1]) is None:
        return None
    at = _bisected(instants, low + 1, lambda instant: tried(instant) is not None)
    last = tried(instants[at])
    return None if last is None else (instants[at], last)


def _bisected(instants: list[int], low: int, works: Callable[[int], bool]) -> int:
    """The index from which on it works, if it does so at the last."""
    high = len(instants) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if works(instants[middle]) else (middle + 1, high)
    return low


def _could_use(parts: Parts) -> Bools:
    return reduce(np.logical_or, (fit.possible for fit, _ in parts))
