"""What jobs that run already may take when they are moved, or when they grow where they are: what is free and held for
nobody else.

The holds are those of a cycle (reservations, promised starts) on the same time axis, so nothing gets by moving or by
growing what it would not have got by waiting. A job may use the reservation that it names. Reads the working copy of
its caller and changes nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpupool.base.units import format_duration, format_instant, format_share
from gpupool.scheduling.backfill import kept_by
from gpupool.scheduling.columns import Columns, free_columns
from gpupool.scheduling.ends import GRACE_NS, SECOND, expected_end, owner_of, whom
from gpupool.scheduling.feasible import Fit
from gpupool.scheduling.free import Free
from gpupool.scheduling.reservation import hold_all
from gpupool.scheduling.snapshot import Bools, ClassKey, Ints, Running, Snapshot
from gpupool.scheduling.timeline import NEVER, Hold, Timeline


class Reserved(NamedTuple):
    """On how many cards reservations hold something, now or later, and how much of what is free there now."""

    cards: int
    gpu_milli: int
    memory_bytes: int


NOTHING = Reserved(0, 0, 0)


class Spare:
    """`free` is what nobody has and no move keeps, as it is when this is made; holds are chosen on it once."""

    def __init__(self, snapshot: Snapshot, free: Free, now_ns: int) -> None:
        self._free, self._now_ns = free, now_ns
        held = bool(snapshot.reservations or snapshot.promised)
        self._timeline = Timeline(snapshot.cards, snapshot.running if held else (), now_ns)
        hold_all(self._timeline, free, snapshot.reservations, snapshot.running)
        self.reserved: Bools = self._timeline.held.copy()
        """Cards of which a reservation holds something, now or later."""
        self.promises: list[tuple[ClassKey, Hold]] = []
        """Starts that claims were promised, and what is held for them."""
        for key, start in snapshot.promised.items():
            hold = Hold(kept_by(start), start.at_ns, self._timeline.until(key.seconds, start.at_ns))
            self._timeline.hold(hold)
            self.promises.append((key, hold))
        self._held: dict[tuple[int, str], Columns] = {}

    def after_move(self, job: Running) -> int:
        """Until when a job that is moved now runs at most: it begins again, once it has left."""
        return NEVER if job.ends_ns is None else self._now_ns + GRACE_NS + max(0, job.ends_ns - job.started_ns)

    def stays(self, job: Running) -> int:
        """Until when a job that is not moved runs at most."""
        return NEVER if job.ends_ns is None else expected_end(job, self._now_ns)

    def held_from(self, job: Running | None, until_ns: int = NEVER) -> Columns:
        """How much of each card, and of each node's host, is held for others than the job until then."""
        owner = "" if job is None else owner_of(job.tenant, job.reservation)
        window = sum(1 for hold in self._timeline.holds if hold.start_ns < until_ns), owner
        if window not in self._held:
            nothing = Columns(*(np.zeros_like(column) for column in free_columns(self._free)))
            less = self._timeline.spare(nothing, until_ns, owner)
            self._held[window] = Columns(*(-column for column in less))
        return self._held[window]

    def leaves_held(self, job: Running, fit: Fit) -> Bools:
        """Cards of which a seat of the job, if it is moved there, takes nothing that is held for others."""
        free, shape = self._free, fit.shape
        if not self._timeline.holds:
            return np.ones(len(free.cards), dtype=np.bool_)
        held = self.held_from(job, self.after_move(job))
        cards = (free.milli - held.milli >= shape.held_milli) & (free.size - held.sizes >= fit.need)
        if shape.whole:
            cards &= (held.milli == 0) & (held.sizes == 0)
        hosts = (free.cpu_milli - held.cpu_milli >= shape.cpu_milli) | (shape.cpu_milli == 0)
        hosts &= (free.host_bytes - held.host_bytes >= shape.host_bytes) | (shape.host_bytes == 0)
        leaves: Bools = cards & hosts[free.cards.node]
        return leaves

    def kept_now(self) -> Reserved:
        rows = np.flatnonzero(self.reserved)
        return Reserved(len(rows), *self.free_but_held(None, rows)) if len(rows) else NOTHING

    def free_but_held(self, job: Running | None, rows: Ints, until_ns: int = NEVER) -> tuple[int, int]:
        """Compute and memory of these cards that is free now and held for others than the job until then."""
        held, free = self.held_from(job, until_ns), self._free
        milli = np.minimum(held.milli[rows], np.maximum(free.milli[rows], 0))
        sizes = np.minimum(held.sizes[rows], np.maximum(free.size[rows], 0))
        return int(milli.sum()), int(sizes.sum())

    def said(self, job: Running, row: int, until_ns: int) -> str:
        """What of the card is held for others than the job: how much, for whom and from when on; empty if nothing."""
        milli, size = self.free_but_held(job, np.array([row]), until_ns)
        met = self._met(job, row, until_ns)
        if met is None or not (milli or size):
            return ""
        since = "" if met.start_ns <= self._now_ns else f" from {format_instant(met.start_ns)} on"
        run = f", and the job may run for {format_duration((until_ns - self._now_ns) // SECOND)}"
        known = run if since and until_ns != NEVER else ", and the job has no known end" if since else ""
        return f"{format_share(milli, size)} of it is kept for {whom(met.owner, job.tenant)}{since}{known}"

    def _met(self, job: Running, row: int, until_ns: int) -> Hold | None:
        """The earliest hold of others that the job would meet on that card."""
        mine = owner_of(job.tenant, job.reservation)
        met = [
            hold
            for hold in self._timeline.holds
            if hold.start_ns < until_ns and row in hold.taken.rows and not (mine and hold.owner == mine)
        ]
        return min(met, key=lambda hold: hold.start_ns, default=None)
