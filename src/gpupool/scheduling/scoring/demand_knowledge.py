"""The expected demand, learned from claims that arrive, start and release their seats.

Every host of the scheduler (the ledger of one machine, the simulator, the Kubernetes cache) reports
the same three events and puts `expected_demand` into its snapshots. There is no clock and no store. Age is
counted in claims and in compute, so the same events in the same order teach the same, live or
replayed. Measured in docs/concepts/placement.md; see
docs/decisions/0026-the-policy-learns-online.md.
"""

from __future__ import annotations

from collections import deque
from math import exp2
from typing import Any

import numpy as np

from gpupool.model.claim import Shape
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from gpupool.scheduling.snapshot.columns import Bools

#: Claims that are kept, and whose start is read again: four half-lives.
REMEMBERED_CLAIMS = 4096

#: After so many later claims one weighs half. With 250 too little is known, 4096 is slow to follow
#: another mix.
HALF_LIFE = 1024

#: So many jobs of one array count at most: one submission must not say alone what is likely to
#: come.
MOST_JOBS = 256

#: After so many claims something is expected; until then the default policy is binpack.
FIRST_CLAIMS = 8

#: Afterwards it is handed out anew whenever a quarter more is known, but after so many claims at
#: least and at most. A policy begins anew with each handing out.
LEAST = 16
MOST = 256

#: Claims end from so much on that comes back of what is given out, and a pool fills from so little
#: on; in between it stays what it was. 70 and 90, or 15 and 25, differ by 0.3 points at most.
ENDING_PCT = 60
FILLING_PCT = 40

#: `ExpectedDemand.returned_pct` of the two modes.
ENDING = 100
FILLING = 0

#: One part of the span in so many counts as given out and kept before anything is known.
_PRIOR_PARTS = 50

#: Weights are in thousandths of a claim.
_FINE = 1000


class DemandKnowledge:
    """What was learned from the events of one pool. Not thread-safe: the owner holds a lock."""

    def __init__(self, capacity_milli: int = 0) -> None:
        self._expected = ExpectedDemand()
        self._due = False
        self._numbers: dict[Shape, int] = {}
        #: By claim its shape's number; looking up a shape costs too much to do it for all of them
        #: each time.
        self._came: deque[int] = deque(maxlen=REMEMBERED_CLAIMS)
        self._jobs: deque[int] = deque(maxlen=REMEMBERED_CLAIMS)
        self._since = 0
        self._next = FIRST_CLAIMS
        self._given = 0.0
        self._returned = 0.0
        self._ending = False
        self.set_capacity(capacity_milli)

    def set_capacity(self, milli: int) -> None:
        """Set the compute of the pool in milli-devices.

        A started claim counts half once half of that compute was given out after it.
        """
        self._span = max(1.0, milli / 2)

    def record_arrival(self, shape: Shape, jobs: int = 1) -> None:
        """Record that a claim for so many equal jobs was accepted."""
        self._came.append(self._numbers.setdefault(shape, len(self._numbers)))
        self._jobs.append(min(jobs, MOST_JOBS))
        self._since += 1
        self._due |= self._since >= self._next

    def record_start(self, shape: Shape) -> None:
        """Record that one job got its seats."""
        milli = shape.count * shape.held_milli
        # Age is compute handed out, not time: a pool that stands still forgets nothing, and a
        # replay of the ledger teaches the same as life did.
        fades = exp2(-milli / self._span)
        self._given = self._given * fades + milli
        self._returned *= fades
        self._detect_mode_change()

    def record_release(self, shape: Shape) -> None:
        """Record that one job released its seats, for whatever reason."""
        self._returned += shape.count * shape.held_milli
        self._detect_mode_change()

    @property
    def returned_pct(self) -> float:
        """The part of the recently given out compute that was released, in percent."""
        # The prior stands for compute that was given and kept, so that one early release does not
        # say that everything ends.
        return 100 * self._returned / (self._given + self._span / _PRIOR_PARTS)

    @property
    def expected_demand(self) -> ExpectedDemand:
        """The expected demand; the same object until an update is due.

        It is computed on access, once for all events since. A pool that replays its past or a burst
        of claims therefore does not compute intermediate results.
        """
        if self._due:
            self._update_expected()
        return self._expected

    def request_update(self) -> None:
        """Make the next access to `expected_demand` include all events, whether an update is due or not."""
        self._due = True

    def _update_expected(self) -> None:
        self._due = False
        known = len(self._came)
        if known < FIRST_CLAIMS:
            return
        self._since = 0
        self._next = min(max(LEAST, known // 4), MOST)
        ordered = sorted(self._compute_weights(), key=_build_sort_key)
        shapes = list[Shape]()
        counts = list[float]()
        for shape, weight in ordered:
            shapes.append(shape)
            counts.append(weight / _FINE)
        self._expected = ExpectedDemand(
            tuple(shapes),
            tuple(counts),
            returned_pct=ENDING if self._ending else FILLING,
        )

    def _compute_weights(self) -> list[tuple[Shape, int]]:
        """Return the remembered shapes with their weights; exact, whatever the order of adding."""
        of = np.array(self._came, dtype=np.int64)
        weights = np.zeros(len(self._numbers), dtype=np.int64)
        np.add.at(weights, of, _WEIGHTS[len(of) - 1 :: -1] * np.array(self._jobs, dtype=np.int64))
        remembered = np.zeros(len(weights), dtype=np.bool_)
        remembered[of] = True
        if not remembered.all():
            self._renumber_shapes(remembered)
        return list(zip(self._numbers, weights[remembered].tolist(), strict=True))

    def _renumber_shapes(self, remembered: Bools) -> None:
        """Number the remembered shapes anew, so that forgotten ones cost nothing."""
        later = np.cumsum(remembered) - 1
        self._came = deque(later[np.array(self._came)].tolist(), maxlen=REMEMBERED_CLAIMS)
        shapes = [shape for shape, number in self._numbers.items() if remembered[number]]
        self._numbers = dict(zip(shapes, range(len(shapes)), strict=True))

    def _detect_mode_change(self) -> None:
        """Make an update due when the pool changes between filling and turning over.

        Stream Fill values nodes differently in the two modes.
        """
        # Hysteresis: each change begins the policy anew, and every node is rated again.
        ending = self.returned_pct >= (FILLING_PCT if self._ending else ENDING_PCT)
        if ending != self._ending:
            self._ending = ending
            self._due = True


#: In thousandths, by how many claims came after. Whole numbers, so that no order of adding them
#: matters.
_WEIGHTS = np.array(
    [round(_FINE * exp2(-age / HALF_LIFE)) for age in range(REMEMBERED_CLAIMS)], dtype=np.int64
)


def _build_sort_key(item: tuple[Shape, int]) -> tuple[Any, ...]:
    shape, weight = item
    return (
        -weight,
        shape.gpu_milli,
        shape.count,
        shape.memory_bytes or 0,
        shape.model or "",
        # At last: whatever else a shape has, the order is total, and equal events teach the same.
        repr(shape),
    )
