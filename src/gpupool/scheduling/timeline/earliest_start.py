"""The earliest start of a head: a search over the instants at which capacity comes back."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cache, reduce
from typing import NamedTuple

import numpy as np

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.scheduling.filtering.capacity_change import SlotChange
from gpupool.scheduling.filtering.capacity_columns import (
    CapacityColumns,
    SeatAmounts,
    get_free_columns,
)
from gpupool.scheduling.filtering.feasibility import ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.filtering.seat_count import count_claims_by_node
from gpupool.scheduling.snapshot.columns import Bools, Ints
from gpupool.scheduling.timeline.start_searches import StartSearch
from gpupool.scheduling.timeline.timeline import NEVER, Timeline

#: What starts together: so many claims of each shape. A single claim is one part of one.
StartParts = Sequence[tuple[ClaimFit, int]]


#: Places the head on the working copy as of that instant, by the rules of every placement; returns
#: what it took.
StartAttempt = Callable[[int], SeatAmounts | None]


class StartTrial(NamedTuple):
    """An attempt, and a cheap question before it: where the head `may` not start, no attempt
    succeeds.
    """

    attempt: StartAttempt
    may: Callable[[int], bool] = lambda _instant: True
    #: Heads with an equal key take the same at an instant at which both may start; None: no such
    #: key.
    alike: Hashable = None


def find_earliest_start(
    timeline: Timeline,
    free: FreeCapacity,
    parts: StartParts,
    seconds: int | None,
    trial: StartTrial,
    owner: str = "",
    end_ns: int = NEVER,
    look: StartSearch | None = None,
) -> tuple[int, SeatAmounts] | None:
    """Find the first instant after now at which all parts have capacity for their whole run.

    Between two instants at which a hold enters the run, capacity only grows with time: so each such
    stretch is searched by halving. Where the head `may` not start at the last instant, it may at
    none. Seats are counted first; the head is placed for a test only where they suffice, once per
    instant, because nothing changes during the search.

    Args:
        timeline: ends and holds.
        free: the working copy, unchanged on return.
        parts: what starts together.
        seconds: the run time; None where it is not known.
        trial: how to place the head at an instant.
        owner: the reservation whose holds it may use.
        end_ns: only instants before it are looked at.
        look: what is already known of heads alike.

    Returns:
        The instant and what the head takes; None where there is none. From UNKNOWN_END on the
        instant is only an order.
    """
    now = get_free_columns(free)
    usable = find_usable_cards(parts)
    known = look or StartSearch()

    @cache
    def at(instant: int) -> CapacityColumns:
        return now.add_columns(
            timeline.get_low(instant, timeline.compute_end(seconds, instant), owner)
        )

    def enough(instant: int) -> bool:
        if instant not in known.enough:
            columns = at(instant)
            known.enough[instant] = _have_seats(parts, free, columns)
        return known.enough[instant]

    may = cache(trial.may)

    @cache
    def try_at(instant: int) -> SeatAmounts | None:
        if not may(instant):
            return None
        if instant not in known.takes:
            recut = timeline.list_recuts(instant, timeline.compute_end(seconds, instant))
            known.takes[instant] = try_on_columns(
                free, at(instant), lambda: trial.attempt(instant), usable, recut
            )
        return known.takes[instant]

    for instants in _split_stretches(timeline, seconds, end_ns):
        # Where the last instant of a stretch does not work, none does: no halving is needed.
        last = instants[-1]
        if (
            may(last)
            and enough(last)
            and (found := _find_first(instants, enough, may, try_at)) is not None
        ):
            return found
    return None


def _have_seats(parts: StartParts, free: FreeCapacity, columns: CapacityColumns) -> bool:
    """Whether each part alone finds as many seats; together they may still be too few."""
    for fit, claims in parts:
        seats = int(count_claims_by_node(fit, free, columns).sum())
        if seats < claims:
            return False
    return True


def try_on_columns(
    free: FreeCapacity,
    columns: CapacityColumns,
    attempt: Callable[[], SeatAmounts | None],
    usable: Bools,
    recut: Sequence[SlotChange] = (),
) -> SeatAmounts | None:
    """Place the head for a test as if these columns were free and these pieces cut.

    The working copy is unchanged on return. Cards that the head could not use stay as they are: a
    head that asks for one node does not move the pool.
    """
    mark = free.begin_trial()
    try:
        free.change_slots(recut)
        changed = np.flatnonzero(
            usable & ((columns.milli != free.milli) | (columns.sizes != free.size))
        )
        free.set_cards(changed, columns.milli[changed], columns.sizes[changed])
        other = (columns.cpu_milli != free.cpu_milli) | (columns.host_bytes != free.host_bytes)
        hosts = np.flatnonzero(other & (free.count_cards_by_node(usable) > 0))
        then = (
            columns.cpu_milli[hosts] - free.cpu_milli[hosts],
            columns.host_bytes[hosts] - free.host_bytes[hosts],
        )
        # Before the hosts, and an upper bound: which NUMA node gets it back is not known. A start
        # that depends on it is never promised (`StartCertainty`).
        free.add_numa(free.numa.estimate_released(hosts, *then))
        free.set_hosts(hosts, columns.cpu_milli[hosts], columns.host_bytes[hosts])
        return attempt()
    finally:
        free.rollback_trial(mark)


def _split_stretches(timeline: Timeline, seconds: int | None, end_ns: int) -> Iterator[list[int]]:
    """The instants after now at which something comes back, cut where a run would begin to meet a
    hold.
    """
    instants = timeline.list_instants()
    instants = instants[instants < end_ns]
    cuts: Ints = np.empty(0, dtype=np.int64)
    if seconds is not None:
        starts = [hold.start_ns - seconds * NANOS_PER_SECOND for hold in timeline.holds]
        cuts = np.unique(np.array(starts, dtype=np.int64))
    for part in np.split(instants, np.searchsorted(instants, cuts, side="right")):
        if len(part):
            yield part.tolist()


def _find_first(
    instants: list[int],
    enough: Callable[[int], bool],
    may: Callable[[int], bool],
    try_at: Callable[[int], SeatAmounts | None],
) -> tuple[int, SeatAmounts] | None:
    """The earliest instant that works; where seats suffice but placing fails, halving from there
    on.

    Quotas are asked first: their answer costs less than a placement.
    """
    # Both conditions only become true with time within a stretch, so the later of both is the first
    # instant at which both hold.
    low = _bisect(instants, _bisect(instants, 0, enough), may)
    taken = try_at(instants[low])
    if taken is not None:
        return instants[low], taken
    if try_at(instants[-1]) is None:
        return None
    # Placing is not monotone (a policy may choose other nodes), so this finds an instant that
    # works, not always the first. Trying every instant would cost thousands of placements.
    at = _bisect(instants, low + 1, lambda instant: try_at(instant) is not None)
    last = try_at(instants[at])
    return None if last is None else (instants[at], last)


def _bisect(instants: list[int], low: int, works: Callable[[int], bool]) -> int:
    """The index from which on it works, if it does so at the last."""
    high = len(instants) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if works(instants[middle]) else (middle + 1, high)
    return low


def find_usable_cards(parts: StartParts) -> Bools:
    return reduce(np.logical_or, (fit.possible for fit, _ in parts))
