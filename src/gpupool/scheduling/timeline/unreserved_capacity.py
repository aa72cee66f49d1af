"""Capacity that running jobs may take when they move or grow: free and held for no other claim.

The holds are those of a cycle (reservations, promised starts) on the same time axis, so a job gets
nothing by moving or growing that it would not get by waiting. A job may use the reservation that it
names. This module reads the caller's working copy and changes nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpupool.base.units import NANOS_PER_SECOND, format_duration, format_instant, format_share
from gpupool.scheduling.filtering.capacity_columns import CapacityColumns, get_free_columns
from gpupool.scheduling.filtering.feasibility import ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.snapshot.claims import ClassKey, RunningJob
from gpupool.scheduling.snapshot.columns import Bools, Ints
from gpupool.scheduling.snapshot.snapshot import Snapshot
from gpupool.scheduling.timeline.backfill import make_seats_of_start
from gpupool.scheduling.timeline.job_end_times import (
    GRACE_NS,
    compute_expected_end,
    describe_owner,
    name_owner,
)
from gpupool.scheduling.timeline.reservations import hold_all
from gpupool.scheduling.timeline.timeline import NEVER, Hold, Timeline


class ReservedAmounts(NamedTuple):
    """On how many cards reservations hold something, and how much of what is free there now."""

    cards: int
    gpu_milli: int
    memory_bytes: int


NOTHING = ReservedAmounts(0, 0, 0)


class UnreservedCapacity:
    """Free capacity less holds.

    `free` is what no job has and no move keeps when this is made; holds choose their cards on it
    once.
    """

    def __init__(self, snapshot: Snapshot, free: FreeCapacity, now_ns: int) -> None:
        self._free = free
        self._now_ns = now_ns
        held = bool(snapshot.reservations or snapshot.previous_starts)
        self._timeline = Timeline(snapshot.cards, snapshot.running if held else (), now_ns)
        hold_all(self._timeline, free, snapshot.reservations, snapshot.running)
        #: Cards of which a reservation holds something, now or later.
        self.reserved: Bools = self._timeline.held.copy()
        #: Starts that claims were promised, and what is held for them.
        self.promises: list[tuple[ClassKey, Hold]] = []
        for key, start in snapshot.previous_starts.items():
            hold = Hold(
                make_seats_of_start(start),
                start.at_ns,
                self._timeline.compute_end(key.seconds, start.at_ns),
            )
            self._timeline.hold(hold)
            self.promises.append((key, hold))
        self._held: dict[tuple[int, str], CapacityColumns] = {}

    def compute_end_after_move(self, job: RunningJob) -> int:
        """Compute until when a job runs at most that moves now: it starts again once it has left."""
        return (
            NEVER
            if job.ends_ns is None
            else self._now_ns + GRACE_NS + max(0, job.ends_ns - job.started_ns)
        )

    def compute_end_in_place(self, job: RunningJob) -> int:
        """Compute until when a job runs at most that does not move."""
        return NEVER if job.ends_ns is None else compute_expected_end(job, self._now_ns)

    def get_held_from(self, job: RunningJob | None, until_ns: int = NEVER) -> CapacityColumns:
        """Return how much of each card and host is held for others than the job until then."""
        owner = "" if job is None else name_owner(job.tenant, job.reservation)
        window = sum(1 for hold in self._timeline.holds if hold.start_ns < until_ns), owner
        if window not in self._held:
            nothing = CapacityColumns(*map(np.zeros_like, get_free_columns(self._free)))
            # What holds leave of nothing is what they hold, below 0.
            less = self._timeline.subtract_holds(nothing, until_ns, owner)
            self._held[window] = CapacityColumns(*map(np.negative, less))
        return self._held[window]

    def find_unheld_cards(self, job: RunningJob, fit: ClaimFit) -> Bools:
        """Return the cards on which a moved seat of the job takes nothing that is held for others."""
        free = self._free
        shape = fit.shape
        if not self._timeline.holds:
            return np.ones(len(free.cards), dtype=np.bool_)
        held = self.get_held_from(job, self.compute_end_after_move(job))
        cards = (free.milli - held.milli >= shape.held_milli) & (free.size - held.sizes >= fit.need)
        if shape.owner:
            # What is held starts without MPS; a card that it needs cannot serve both.
            cards &= (held.milli == 0) & (held.sizes == 0)
        if shape.is_whole:
            cards &= (held.milli == 0) & (held.sizes == 0)
        hosts = (free.cpu_milli - held.cpu_milli >= shape.cpu_milli) | (shape.cpu_milli == 0)
        hosts &= (free.host_bytes - held.host_bytes >= shape.host_bytes) | (shape.host_bytes == 0)
        leaves: Bools = cards & hosts[free.cards.node]
        return leaves

    def measure_reserved(self) -> ReservedAmounts:
        """Measure what reservations hold of what is free now."""
        rows = np.flatnonzero(self.reserved)
        return ReservedAmounts(len(rows), *self.sum_held_free(None, rows)) if len(rows) else NOTHING

    def sum_held_free(
        self, job: RunningJob | None, rows: Ints, until_ns: int = NEVER
    ) -> tuple[int, int]:
        """Add up what of these cards is free now and held for others than the job until then.

        Returns:
            Compute in milli-devices and memory in bytes.
        """
        held = self.get_held_from(job, until_ns)
        free = self._free
        milli = np.minimum(held.milli[rows], np.maximum(free.milli[rows], 0))
        sizes = np.minimum(held.sizes[rows], np.maximum(free.size[rows], 0))
        return int(milli.sum()), int(sizes.sum())

    def describe_hold(self, job: RunningJob, row: int, until_ns: int) -> str:
        """Describe what of the card is held for others: how much, the owner and from when; empty if
        nothing.
        """
        milli, size = self.sum_held_free(job, np.array([row]), until_ns)
        met = self._find_met_hold(job, row, until_ns)
        if met is None or not (milli or size):
            return ""
        since = "" if met.start_ns <= self._now_ns else f" from {format_instant(met.start_ns)} on"
        allowed_seconds = (until_ns - self._now_ns) // NANOS_PER_SECOND
        run = f", and the job may run for {format_duration(allowed_seconds)}"
        known = (
            run
            if since and until_ns != NEVER
            else ", and the job has no known end"
            if since
            else ""
        )
        return f"{format_share(milli, size)} of it is kept for {describe_owner(met.owner, job.tenant)}{since}{known}"

    def _find_met_hold(self, job: RunningJob, row: int, until_ns: int) -> Hold | None:
        """The earliest hold of others that the job would meet on that card."""
        mine = name_owner(job.tenant, job.reservation)
        met = list[Hold]()
        for hold in self._timeline.holds:
            is_mine = mine and hold.owner == mine
            if not is_mine and hold.start_ns < until_ns and row in hold.taken.rows:
                met.append(hold)
        return min(met, key=lambda hold: hold.start_ns, default=None)
