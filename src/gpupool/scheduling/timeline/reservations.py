"""Named reservations: when they occur, which cards they hold, and whether a new one fits.

Times are instants and fixed periods in nanoseconds: a day is 24 hours and a week seven days, also
when clocks change. A reservation names no cards. They are chosen anew each time from what is free
throughout, so a failed card or a better place costs nothing. Pure: now is an argument.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from gpupool.model.reservation import Reservation, ReservationState
from gpupool.scheduling.filtering.capacity_columns import (
    CapacityColumns,
    SeatAmounts,
    build_empty_columns,
    get_free_columns,
)
from gpupool.scheduling.filtering.feasibility import ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.filtering.seat_count import count_claims, pick_cards
from gpupool.scheduling.snapshot.claims import RunningJob
from gpupool.scheduling.snapshot.columns import Ints
from gpupool.scheduling.timeline.job_end_times import compute_expected_end, name_owner
from gpupool.scheduling.timeline.timeline import NEVER, Hold, JobFilter, Timeline

#: At most so many occurrences of one reservation are kept free at once.
LOOKED_AHEAD = 64


@dataclass(frozen=True)
class ReservationOccurrence:
    """One occurrence of a reservation, in nanoseconds."""

    start_ns: int
    end_ns: int


def iterate_occurrences(
    asked: Reservation, since_ns: int, until_ns: int
) -> Iterator[ReservationOccurrence]:
    """Yield the occurrences not over at `since_ns` that start before `until_ns`, in order."""
    if asked.state is ReservationState.ENDED:
        return
    length = NEVER if asked.end_ns is None else asked.end_ns - asked.start_ns
    # Jumps over what has passed: a reservation of each hour that began years ago costs no loop.
    over = asked.start_ns + length <= since_ns
    first = (
        (since_ns - asked.start_ns - length) // asked.every_ns + 1 if over and asked.every_ns else 0
    )
    last = min(until_ns, NEVER if asked.until_ns is None else asked.until_ns)
    start = asked.start_ns + first * (asked.every_ns or 0)
    while start < last and start + length > since_ns:
        yield ReservationOccurrence(start, min(start + length, NEVER))
        if asked.every_ns is None:
            return
        start += asked.every_ns


def compute_horizon(reservations: Iterable[Reservation], now_ns: int) -> int:
    """Compute until when occurrences are looked at.

    The next occurrence of each reservation, and one more of the longest period: so all occurrences
    that meet at some time of a period are seen together before other claims get their cards.
    """
    known = list(reservations)
    latest = now_ns
    period = 0
    for one in known:
        for found in _list_first(one, now_ns, NEVER, 1):
            latest = max(latest, found.start_ns)
        period = max(period, one.every_ns or 0)
    return latest + period + 1


def list_upcoming(asked: Reservation, now_ns: int, until_ns: int) -> list[ReservationOccurrence]:
    """Return the next occurrences, at most LOOKED_AHEAD."""
    return _list_first(asked, now_ns, until_ns, LOOKED_AHEAD)


def _list_first(
    asked: Reservation, since_ns: int, until_ns: int, number: int
) -> list[ReservationOccurrence]:
    return list(islice(iterate_occurrences(asked, since_ns, until_ns), number))


def hold_all(
    timeline: Timeline,
    free: FreeCapacity,
    reservations: Sequence[Reservation],
    running: Sequence[RunningJob],
    until_ns: int | None = None,
) -> None:
    """Put the coming occurrences of all reservations on the timeline, the earliest first.

    A reservation whose cards are late (a job runs too long) or gone gets what there is, and beyond
    that cards still in use: what comes back on them is kept for it.
    """
    until = compute_horizon(reservations, timeline.now_ns) if until_ns is None else until_ns
    # The earliest first, then by id: what an earlier one holds is gone for a later one, in each
    # plan alike.
    for asked in sorted(reservations, key=lambda one: (one.start_ns, one.id)):
        name = asked.name or asked.id
        own = [job for job in running if job.tenant == asked.tenant and job.reservation == name]
        fit = ClaimFit(asked.shape, free)
        for occurrence, taken in choose_seats(
            timeline, free, fit, asked, list_upcoming(asked, timeline.now_ns, until), own
        ):
            hold_occurrence(timeline, asked, occurrence, taken, own)


def choose_seats(
    timeline: Timeline,
    free: FreeCapacity,
    fit: ClaimFit,
    asked: Reservation,
    coming: Sequence[ReservationOccurrence],
    own: Sequence[RunningJob] = (),
) -> list[tuple[ReservationOccurrence, SeatAmounts]]:
    """Choose cards for each occurrence: the same for all where some are free in all, else for each."""
    base, first = _return_own_seats(free, own)
    windows = list[CapacityColumns]()
    for occurrence in coming:
        low = _get_low(timeline, asked, occurrence, JobFilter.OTHERS)
        windows.append(base.add_columns(low))
    if len(windows) > 1:
        always = CapacityColumns(
            *(np.minimum.reduce(columns) for columns in zip(*windows, strict=True))
        )
        taken = pick_cards(fit, free, always, asked.replicas, first)
        if is_complete(taken, asked):
            return [(occurrence, taken) for occurrence in coming]
    found = []
    for occurrence, window in zip(coming, windows, strict=True):
        taken = pick_cards(fit, free, window, asked.replicas, first)
        if not is_complete(taken, asked):
            emptied = build_empty_columns(free).add_columns(
                _get_low(timeline, asked, occurrence, JobFilter.NONE)
            )
            taken = pick_cards(fit, free, emptied, asked.replicas, np.maximum(window.milli, 0))
        found.append((occurrence, taken))
    return found


def is_complete(taken: SeatAmounts, asked: Reservation) -> bool:
    """Whether the seats hold all replicas of the reservation."""
    return count_claims(taken, asked.shape.count) >= asked.replicas


def hold_occurrence(
    timeline: Timeline,
    asked: Reservation,
    occurrence: ReservationOccurrence,
    taken: SeatAmounts,
    own: Sequence[RunningJob] = (),
) -> None:
    """Hold the cards of an occurrence; what its own jobs already have of them is not kept twice."""
    owner = name_owner(asked.tenant, asked.name or asked.id)
    timeline.hold(Hold(taken, occurrence.start_ns, occurrence.end_ns, owner))
    left = {
        int(row): (int(m), int(s))
        for row, m, s in zip(taken.rows, taken.milli, taken.sizes, strict=True)
    }
    for job in own:
        end = compute_expected_end(job, timeline.now_ns)
        if end > occurrence.start_ns and (part := _split_used_part(left, job)) is not None:
            timeline.add_used_part(
                Hold(part, occurrence.start_ns, min(end, occurrence.end_ns), owner)
            )


def _split_used_part(left: dict[int, tuple[int, int]], job: RunningJob) -> SeatAmounts | None:
    """What of a job's seats is inside the hold; `left` is reduced by it."""
    parts = []
    for row, milli, size in zip(job.rows, job.milli, job.sizes, strict=True):
        if row in left:
            part = min(milli, left[row][0]), min(size, left[row][1])
            left[row] = left[row][0] - part[0], left[row][1] - part[1]
            parts.append((row, *part))
    if not parts:
        return None
    columns = [np.array(column, dtype=np.int64) for column in zip(*parts, strict=True)]
    return SeatAmounts(columns[0], columns[1], columns[2])


def _return_own_seats(
    free: FreeCapacity, own: Sequence[RunningJob]
) -> tuple[CapacityColumns, Ints]:
    """What is free without the reservation's own jobs, and how many of their seats each card has."""
    columns = get_free_columns(free)
    first = np.zeros(len(free.cards), dtype=np.int64)
    for job in own:
        rows = np.array(job.rows, dtype=np.int64)
        columns = columns.release_seats(SeatAmounts(rows, np.array(job.milli), np.array(job.sizes)))
        np.add.at(first, rows, 1)
    return columns, first


def _get_low(
    timeline: Timeline, asked: Reservation, occurrence: ReservationOccurrence, jobs: JobFilter
) -> CapacityColumns:
    owner = name_owner(asked.tenant, asked.name or asked.id)
    return timeline.get_low(
        max(occurrence.start_ns, timeline.now_ns), occurrence.end_ns, owner, jobs
    )
