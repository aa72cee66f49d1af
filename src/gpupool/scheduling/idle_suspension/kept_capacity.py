"""What cards keep for jobs that were suspended because they were idle.

The free amounts of a snapshot's cards are without it, so that every plan keeps it. A job that wants
to work again keeps its whole seats, until it is back on them. The memory of the others is kept as
far as it is above what the pool lends twice (decision 0088).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gpupool.model.suspension import IdleSuspensionRules
from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.scheduling.snapshot.claims import SuspendedJob
from gpupool.scheduling.snapshot.columns import Ints
from gpupool.scheduling.snapshot.snapshot import Snapshot


class KeptCapacity(NamedTuple):
    """By row of a card, what is kept of it: compute in milli-devices, and memory in bytes."""

    milli: Ints
    size: Ints


def sum_seats(cards: CardTable, jobs: Iterable[SuspendedJob]) -> KeptCapacity:
    """Sum by card what these jobs have while they run."""
    milli = np.zeros(len(cards), dtype=np.int64)
    size = np.zeros(len(cards), dtype=np.int64)
    for one in jobs:
        rows = list(one.rows)
        milli[rows] += one.milli
        size[rows] += one.sizes
    return KeptCapacity(milli, size)


def measure_kept(
    cards: CardTable, jobs: Iterable[SuspendedJob], rules: IdleSuspensionRules
) -> KeptCapacity:
    """Measure what the cards keep for these jobs."""
    every = list(jobs)
    woken = sum_seats(cards, [one for one in every if one.wanted_ns])
    return KeptCapacity(woken.milli, woken.size + measure_unlent(cards, every, rules))


def measure_unlent(
    cards: CardTable, jobs: Iterable[SuspendedJob], rules: IdleSuspensionRules
) -> Ints:
    """Measure by row the memory of jobs that do not want to work that is not lent twice; in bytes.

    What runs and what is suspended stay below the limit exactly if what runs leaves so much free.
    """
    asleep = sum_seats(cards, [one for one in jobs if not one.wanted_ns]).size
    unlent = np.zeros(len(cards), dtype=np.int64)
    for row in np.flatnonzero(asleep).tolist():
        total = int(cards.memory_bytes[row])
        lent = rules.compute_limit(total) - total
        unlent[row] = max(int(asleep[row]) - lent, 0)
    return unlent


def measure_kept_before(snapshot: Snapshot, job: str) -> KeptCapacity:
    """Measure what the cards keep from a job that is resumed, or that grows.

    From a suspended job it is what those keep that come back before it: its own memory only changes
    from suspended to running, so the factor does not limit it.
    """
    cards = snapshot.cards
    mine = next((one for one in snapshot.suspended if one.job == job), None)
    if mine is None:
        return measure_kept(cards, snapshot.suspended, snapshot.idle_rules)
    return sum_seats(cards, [one for one in snapshot.suspended if one.is_before(mine)])


def replace_suspended(snapshot: Snapshot, jobs: tuple[SuspendedJob, ...]) -> Snapshot:
    """Return the snapshot whose cards keep what these suspended jobs need, and no others."""
    cards = snapshot.cards
    before = measure_kept(cards, snapshot.suspended, snapshot.idle_rules)
    after = measure_kept(cards, jobs, snapshot.idle_rules)
    unlent = measure_unlent(cards, jobs, snapshot.idle_rules)
    changed = replace(
        cards,
        free_milli=cards.free_milli + before.milli - after.milli,
        free_bytes=cards.free_bytes + before.size - after.size,
        # None where nothing is: pools are compared by identity first.
        unlent_bytes=unlent if unlent.any() else None,
    )
    return replace(snapshot, cards=changed, suspended=jobs)
