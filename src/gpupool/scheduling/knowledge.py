"""What is likely to be asked for next, learnt from claims that come, start and give back what they held.

One learner for every host of the scheduler: the ledger of one machine, the simulator and the cluster's cache tell it
the same three events, and put `expected` into their snapshots. It has no clock and no store. Age is counted in claims
and in compute, so that the same events in the same order teach the same, whether they happen or are read again.
Measured in docs/concepts/placement.md, decided in docs/decisions/0026-the-policy-learns-online.md.
"""

from __future__ import annotations

from collections import deque
from math import exp2
from typing import Any

import numpy as np

from gpupool.model.claim import Shape
from gpupool.scheduling.snapshot import Bools, Expected

REMEMBERED = 4096
"""Claims that are kept, and whose start is read again: four half-lives."""

HALF_LIFE = 1024
"""After so many later claims one weighs half. With 250 too little is known, 4096 is slow to follow another mix."""

MOST_JOBS = 256
"""So many jobs of one array count at most: one submission must not say alone what is likely to come."""

FIRST = 8
"""After so many claims something is expected; until then the default policy is binpack."""

LEAST, MOST = 16, 256
"""Afterwards it is handed out anew whenever a quarter more is known, but after so many claims at least and at most. A
policy begins anew with each handing out."""

ENDING_PCT, FILLING_PCT = 60, 40
"""Claims end from so much on that comes back of what is given out, and a pool fills from so little on; in between it
stays what it was. 70 and 90, or 15 and 25, differ by 0.3 points at most."""

ENDING, FILLING = 100, 0
"""What `Expected.returned_pct` is told of the two."""

_PRIOR_PARTS = 50
"""One part of the span in so many counts as given out and kept before anything is known."""

_FINE = 1000


class Knowledge:
    """Not thread-safe: whoever owns it calls it under its own lock."""

    def __init__(self, capacity_milli: int = 0) -> None:
        self._expected = Expected()
        self._due = False
        self._numbers: dict[Shape, int] = {}
        self._came: deque[int] = deque(maxlen=REMEMBERED)
        """By claim its shape's number; looking up a shape costs too much to do it for all of them each time."""
        self._jobs: deque[int] = deque(maxlen=REMEMBERED)
        self._since = 0
        self._next = FIRST
        self._given = 0.0
        self._returned = 0.0
        self._ending = False
        self.set_capacity(capacity_milli)

    def set_capacity(self, milli: int) -> None:
        """How much compute the pool has. What was given out counts half once half of that was given out after it."""
        self._span = max(1.0, milli / 2)

    def claim_came(self, shape: Shape, jobs: int = 1) -> None:
        """A claim was accepted, for so many jobs alike."""
        self._came.append(self._numbers.setdefault(shape, len(self._numbers)))
        self._jobs.append(min(jobs, MOST_JOBS))
        self._since += 1
        self._due |= self._since >= self._next

    def claim_started(self, shape: Shape) -> None:
        """One job got what it asked for."""
        milli = shape.count * shape.held_milli
        fades = exp2(-milli / self._span)
        self._given = self._given * fades + milli
        self._returned *= fades
        self._look()

    def claim_gave_back(self, shape: Shape) -> None:
        """One job gave it back, whatever the reason: for the node it is room that came back."""
        self._returned += shape.count * shape.held_milli
        self._look()

    @property
    def returned_pct(self) -> float:
        """How much came back of what was given out lately."""
        return 100 * self._returned / (self._given + self._span / _PRIOR_PARTS)

    @property
    def expected(self) -> Expected:
        """What is likely to come: the same object until it is due to be handed out anew.

        It is worked out when it is asked for, and once for many claims that came in between: a pool that reads its
        past, or takes in a burst, does not work out what nobody sees.
        """
        if self._due:
            self._hand_out()
        return self._expected

    def hand_out(self) -> None:
        """Let `expected` say all that is known, whether that is due or not."""
        self._due = True

    def _hand_out(self) -> None:
        self._due = False
        known = len(self._came)
        if known < FIRST:
            return
        self._since = 0
        self._next = min(max(LEAST, known // 4), MOST)
        ordered = sorted(self._weights(), key=_most_first)
        self._expected = Expected(
            tuple(shape for shape, _ in ordered),
            tuple(weight / _FINE for _, weight in ordered),
            returned_pct=ENDING if self._ending else FILLING,
        )

    def _weights(self) -> list[tuple[Shape, int]]:
        """Every shape that is remembered, and how much it weighs: exact, whatever the order of adding."""
        of = np.array(self._came, dtype=np.int64)
        weights = np.zeros(len(self._numbers), dtype=np.int64)
        np.add.at(weights, of, _WEIGHTS[len(of) - 1 :: -1] * np.array(self._jobs, dtype=np.int64))
        remembered = np.zeros(len(weights), dtype=np.bool_)
        remembered[of] = True
        if not remembered.all():
            self._forget(remembered)
        return list(zip(self._numbers, weights[remembered].tolist(), strict=True))

    def _forget(self, remembered: Bools) -> None:
        """Number the shapes that are remembered anew, so that forgotten ones cost nothing."""
        later = np.cumsum(remembered) - 1
        self._came = deque(later[np.array(self._came)].tolist(), maxlen=REMEMBERED)
        shapes = [shape for shape, number in self._numbers.items() if remembered[number]]
        self._numbers = {shape: number for number, shape in enumerate(shapes)}

    def _look(self) -> None:
        """A pool that fills and one whose claims end want different worths (`score_stream`): tell when it changes."""
        ending = self.returned_pct >= (FILLING_PCT if self._ending else ENDING_PCT)
        if ending != self._ending:
            self._ending = ending
            self._due = True


_WEIGHTS = np.array([round(_FINE * exp2(-age / HALF_LIFE)) for age in range(REMEMBERED)], dtype=np.int64)
"""In thousandths, by how many claims came after. Whole numbers, so that no order of adding them matters."""


def _most_first(item: tuple[Shape, int]) -> tuple[Any, ...]:
    shape, weight = item
    return -weight, shape.gpu_milli, shape.count, shape.memory_bytes or 0, shape.model or "", repr(shape)
