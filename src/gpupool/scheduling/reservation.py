"""Named reservations: when they come, which cards they hold, and whether a new one has its place beside the others.

A calendar here is instants and fixed periods in nanoseconds: a day is 24 hours and a week seven of them, whatever
clocks are moved. Cards are not part of a reservation: they are picked anew each time, from what is free throughout, so
that a failed card or a better place costs nothing. Pure: now is an argument.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gpupool.model.reservation import Reservation, ReservationState
from gpupool.scheduling.columns import Columns, Taken, empty_columns, free_columns
from gpupool.scheduling.ends import expected_end, owner_of
from gpupool.scheduling.feasible import Fit
from gpupool.scheduling.free import Free
from gpupool.scheduling.seating import claims_in, pick
from gpupool.scheduling.snapshot import Ints, Running
from gpupool.scheduling.timeline import NEVER, Hold, Jobs, Timeline

LOOKED_AHEAD = 64
"""So many occurrences of one reservation are kept free at once, at most."""


@dataclass(frozen=True)
class Occurrence:
    start_ns: int
    end_ns: int


def occurrences(asked: Reservation, since_ns: int, until_ns: int) -> Iterator[Occurrence]:
    """Those that are not over at `since_ns` and start before `until_ns`, in order."""
    if asked.state is ReservationState.ENDED:
        return
    length = NEVER if asked.end_ns is None else asked.end_ns - asked.start_ns
    over = asked.start_ns + length <= since_ns
    first = (since_ns - asked.start_ns - length) // asked.every_ns + 1 if over and asked.every_ns else 0
    last = min(until_ns, NEVER if asked.until_ns is None else asked.until_ns)
    start = asked.start_ns + first * (asked.every_ns or 0)
    while start < last and start + length > since_ns:
        yield Occurrence(start, min(start + length, NEVER))
        if asked.every_ns is None:
            return
        start += asked.every_ns


def horizon(reservations: Iterable[Reservation], now_ns: int) -> int:
    """Until when occurrences are looked at: the next one of each, and one more of the longest period.

    So whatever comes together at some time of a period has been seen together before anything else gets its cards.
    """
    known = list(reservations)
    starts = [found.start_ns for one in known for found in _few(one, now_ns, NEVER, 1)]
    return max([now_ns, *starts]) + max([0, *(one.every_ns or 0 for one in known)]) + 1


def upcoming(asked: Reservation, now_ns: int, until_ns: int) -> list[Occurrence]:
    return _few(asked, now_ns, until_ns, LOOKED_AHEAD)


def _few(asked: Reservation, since_ns: int, until_ns: int, number: int) -> list[Occurrence]:
    return [found for found, _ in zip(occurrences(asked, since_ns, until_ns), range(number), strict=False)]


def hold_all(
    timeline: Timeline,
    free: Free,
    reservations: Sequence[Reservation],
    running: Sequence[Running],
    until_ns: int | None = None,
) -> None:
    """Put every reservation's coming occurrences on the timeline, the earliest asked for first.

    One whose cards are late (a job runs longer than it should) or gone gets what there is, and beyond that cards that
    are still in use: what comes back on them is kept for it.
    """
    until = horizon(reservations, timeline.now_ns) if until_ns is None else until_ns
    for asked in sorted(reservations, key=lambda one: (one.start_ns, one.id)):
        own = [job for job in running if job.tenant == asked.tenant and job.reservation == (asked.name or asked.id)]
        fit = Fit(asked.shape, free)
        for occurrence, taken in seats(timeline, free, fit, asked, upcoming(asked, timeline.now_ns, until), own):
            hold(timeline, asked, occurrence, taken, own)


def seats(
    timeline: Timeline,
    free: Free,
    fit: Fit,
    asked: Reservation,
    coming: Sequence[Occurrence],
    own: Sequence[Running] = (),
) -> list[tuple[Occurrence, Taken]]:
    """Cards for each occurrence: the same for all where some are free in all, else for each by itself."""
    base, first = _given_back(free, own)
    windows = [base.plus(_low(timeline, asked, occurrence, Jobs.OTHERS)) for occurrence in coming]
    if len(windows) > 1:
        always = Columns(*(np.minimum.reduce(columns) for columns in zip(*windows, strict=True)))
        taken = pick(fit, free, always, asked.replicas, first)
        if enough(taken, asked):
            return [(occurrence, taken) for occurrence in coming]
    found = []
    for occurrence, window in zip(coming, windows, strict=True):
        taken = pick(fit, free, window, asked.replicas, first)
        if not enough(taken, asked):
            emptied = empty_columns(free).plus(_low(timeline, asked, occurrence, Jobs.NONE))
            taken = pick(fit, free, emptied, asked.replicas, np.maximum(window.milli, 0))
        found.append((occurrence, taken))
    return found


def enough(taken: Taken, asked: Reservation) -> bool:
    return claims_in(taken, asked.shape.count) >= asked.replicas


def hold(
    timeline: Timeline, asked: Reservation, occurrence: Occurrence, taken: Taken, own: Sequence[Running] = ()
) -> None:
    """Keep the cards for the occurrence; what its own jobs have of them already is not kept a second time."""
    owner = owner_of(asked.tenant, asked.name or asked.id)
    timeline.hold(Hold(taken, occurrence.start_ns, occurrence.end_ns, owner))
    left = {int(row): (int(m), int(s)) for row, m, s in zip(taken.rows, taken.milli, taken.sizes, strict=True)}
    for job in own:
        end = expected_end(job, timeline.now_ns)
        if end > occurrence.start_ns and (part := _part(left, job)) is not None:
            timeline.used(Hold(part, occurrence.start_ns, min(end, occurrence.end_ns), owner))


def _part(left: dict[int, tuple[int, int]], job: Running) -> Taken | None:
    """What of a job's seats is inside what is held; what is left of that is written down."""
    parts = []
    for row, milli, size in zip(job.rows, job.milli, job.sizes, strict=True):
        if row in left:
            part = min(milli, left[row][0]), min(size, left[row][1])
            left[row] = left[row][0] - part[0], left[row][1] - part[1]
            parts.append((row, *part))
    if not parts:
        return None
    columns = [np.array(column, dtype=np.int64) for column in zip(*parts, strict=True)]
    return Taken(columns[0], columns[1], columns[2])


def _given_back(free: Free, own: Sequence[Running]) -> tuple[Columns, Ints]:
    """What is free now with the reservation's own jobs away, and how many of their seats each card has."""
    columns, first = free_columns(free), np.zeros(len(free.cards), dtype=np.int64)
    for job in own:
        rows = np.array(job.rows, dtype=np.int64)
        columns = columns.given(Taken(rows, np.array(job.milli), np.array(job.sizes)))
        np.add.at(first, rows, 1)
    return columns, first


def _low(timeline: Timeline, asked: Reservation, occurrence: Occurrence, jobs: Jobs) -> Columns:
    owner = owner_of(asked.tenant, asked.name or asked.id)
    return timeline.low(max(occurrence.start_ns, timeline.now_ns), occurrence.end_ns, owner, jobs)
