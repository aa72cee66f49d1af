"""What is free on each card from now on: what running jobs give back when they end, and what is held for later.

Time is a set of steps: at an instant an amount comes or goes at a place. What may be taken by a claim that starts now
is what is free on a card during its whole run. Where nothing is held, amounts only come: then this is what is free
now, and nothing is computed at all. This module adds and compares numbers; it knows no queue, no policy and no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import chain

import numpy as np

from gpupool.scheduling.columns import Columns, Taken
from gpupool.scheduling.snapshot import Bools, Cards, Ints, Running
from gpupool.scheduling.steps import Steps

NEVER = int(np.iinfo(np.int64).max)
"""An instant after all others: the end of what is not known to end."""

UNTOLD = 1 << 61
"""From here on jobs of unknown end are put, the one that runs longest first: after all that is known, before NEVER."""

SECOND = 10**9
GRACE_NS = 60 * SECOND
"""A job whose end has passed is expected to end within this, or in as long as it is late, whichever is longer."""


class Kind(IntEnum):
    """What a step comes from."""

    END = 0
    """A job ends."""
    HOLD = 1
    USED = 2
    """A job of the owner has a part of a hold already, which is so not kept a second time."""


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


def owner_of(tenant: str, reservation: str | None) -> str:
    """Names of reservations are a tenant's own."""
    return f"{tenant}/{reservation}" if reservation is not None else ""


class Timeline:
    """Jobs' ends and holds over the cards of one snapshot, as changes against what is free now."""

    def __init__(self, cards: Cards, running: Iterable[Running], now_ns: int) -> None:
        self.now_ns = now_ns
        self.cards = cards
        self.held: Bools = np.zeros(len(cards), dtype=np.bool_)
        """Cards of which something is held, now or later."""
        self.holds: list[Hold] = []
        self._cards = Steps(len(cards))
        self._nodes = Steps(len(cards.nodes))
        self._ends: list[Ints] = []
        self._marks: dict[str, int] = {}
        self._add_running(list(running))

    def ends(self, taken: Taken, end_ns: int) -> None:
        """What was just taken is given back then (NEVER: nobody knows)."""
        end_ns = min(end_ns, UNTOLD + self.now_ns)
        self._ends.append(np.array([end_ns], dtype=np.int64))
        self._cards.add(end_ns, taken.rows, taken.milli, taken.sizes)
        self._nodes.add(end_ns, taken.nodes, taken.cpu_milli, taken.host_bytes)

    def hold(self, hold: Hold) -> None:
        """From now on these cards are not free during the hold, whoever asks but its owner."""
        self.holds.append(hold)
        self.held[hold.taken.rows] = True
        self._span(hold, -1, Kind.HOLD)

    def used(self, part: Hold) -> None:
        """So much of a hold of this owner has a running job of the owner, until its end or that of the hold."""
        self._span(part, 1, Kind.USED)

    def low(self, since_ns: int, until_ns: int, owner: str = "", jobs: Jobs = Jobs.ALL) -> Columns:
        """What there is during all of the window, against now, for a claim that may use the holds of `owner`."""
        counts = self._counting(self._marks.get(owner, -1) if owner else -1, jobs)
        cards = self._cards.low(since_ns, until_ns, counts)
        return Columns(*cards, *self._nodes.low(since_ns, until_ns, counts))

    def spare(self, free: Columns, until_ns: int, owner: str = "") -> Columns:
        """What a claim that starts now and runs until then may take; what is free now where nothing is held."""
        if not self.held.any():
            return free
        low = self.low(self.now_ns, until_ns, owner)
        return Columns(*(now + np.minimum(change, 0) for now, change in zip(free, low, strict=True)))

    def instants(self) -> Ints:
        """When something comes back, in order, after now; what a search for a start has to look at.

        From UNTOLD on it is no time but an order: which jobs of unknown end would have to end first.
        """
        ends = [hold.end_ns for hold in self.holds if self.now_ns < hold.end_ns < NEVER]
        return np.unique(np.concatenate([*self._ends, np.array(ends, dtype=np.int64)]))

    def until(self, seconds: int | None, since_ns: int | None = None) -> int:
        """The end of a run of so many seconds; of unknown length, NEVER."""
        since = self.now_ns if since_ns is None else since_ns
        return NEVER if seconds is None else min(since + seconds * SECOND, NEVER)

    def _mark(self, owner: str, kind: Kind) -> int:
        return len(Kind) * (self._marks.setdefault(owner, len(self._marks) + 1) if owner else 0) + kind

    def _span(self, hold: Hold, sign: int, kind: Kind) -> None:
        taken, mark = hold.taken, self._mark(hold.owner, kind)
        for at, way in ((max(hold.start_ns, self.now_ns), sign), (hold.end_ns, -sign)):
            if at < NEVER:
                self._cards.add(at, taken.rows, way * taken.milli, way * taken.sizes, mark)
                self._nodes.add(at, taken.nodes, way * taken.cpu_milli, way * taken.host_bytes, mark)

    def _counting(self, owner: int, jobs: Jobs) -> Callable[[Ints], Bools] | None:
        if owner < 0 and jobs is not Jobs.NONE:
            return None

        def counts(mark: Ints) -> Bools:
            kind, whose = mark % len(Kind), mark // len(Kind)
            if jobs is Jobs.NONE:
                counted: Bools = (kind == Kind.HOLD) & (whose != owner)
            else:
                counted = (whose != owner) | ((kind == Kind.END) & (jobs is Jobs.ALL))
            return counted

        return counts

    def _add_running(self, jobs: list[Running]) -> None:
        ends = expected_ends(jobs, self.now_ns)
        marks = np.array(
            [self._mark(owner_of(j.tenant, j.reservation), Kind.END) if j.reservation else 0 for j in jobs]
        )
        self._ends.append(ends)
        counts = [len(job.rows) for job in jobs]
        rows, milli, sizes = (_flat(values) for values in _columns_of(jobs))
        self._cards.add(np.repeat(ends, counts), rows, milli, sizes, np.repeat(marks, counts).astype(np.int64))
        if self.cards.hosts is None:
            return
        hosted = np.array([i for i, job in enumerate(jobs) if job.rows], dtype=np.int64)
        nodes = self.cards.node[np.array([jobs[i].rows[0] for i in hosted], dtype=np.int64)]
        cpu = np.array([jobs[i].shape.cpu_milli for i in hosted], dtype=np.int64)
        memory = np.array([jobs[i].shape.host_bytes for i in hosted], dtype=np.int64)
        self._nodes.add(ends[hosted], nodes, cpu, memory, marks[hosted])


def expected_ends(jobs: Sequence[Running], now_ns: int) -> Ints:
    """When each job is expected to end; one that should have ended already is late by about as long again."""
    ends = np.array([UNTOLD + j.started_ns if j.ends_ns is None else j.ends_ns for j in jobs], dtype=np.int64)
    late = now_ns - ends
    return np.where(late < 0, ends, now_ns + np.maximum(GRACE_NS, late))


def _columns_of(jobs: Sequence[Running]) -> tuple[Iterable[tuple[int, ...]], ...]:
    return [job.rows for job in jobs], [job.milli for job in jobs], [job.sizes for job in jobs]


def _flat(values: Iterable[tuple[int, ...]]) -> Ints:
    return np.fromiter(chain.from_iterable(values), dtype=np.int64)
