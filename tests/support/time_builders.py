"""Running jobs and reservations for tests of the time axis; times are in seconds after an
origin."""

from __future__ import annotations

import numpy as np

from gpupool.base.units import NANOS_PER_SECOND as SECOND
from gpupool.base.units import WHOLE
from gpupool.model.claim import Shape
from gpupool.model.reservation import Reservation
from gpupool.scheduling.filtering.capacity_columns import SeatAmounts
from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.scheduling.snapshot.claims import RunningJob
from gpupool.scheduling.timeline.timeline import Hold
from tests.support.scheduling_builders import MODELS, whole

HOUR = 3600


def running(
    job: str,
    cards: CardTable,
    *names: str,
    ends: int | None = None,
    milli: int = WHOLE,
    size: int | None = None,
    tenant: str = "nlp",
    reservation: str | None = None,
    started: int = 0,
) -> RunningJob:
    """A job on these cards of the pool; by default it has them whole."""
    rows = tuple(cards.uuids.index(name) for name in names)
    sizes = tuple(int(cards.memory_bytes[row]) if size is None else size for row in rows)
    shape = Shape(milli, size, len(rows))
    at = None if ends is None else ends * SECOND
    return RunningJob(
        job,
        tenant,
        0,
        rows,
        (milli,) * len(rows),
        sizes,
        shape,
        started * SECOND,
        at,
        reservation=reservation,
    )


def used_by(*names: str, model: str = "T4", milli: int = WHOLE) -> dict[str, tuple[int, int]]:
    """The same for `cards(..., used=...)`: these cards are wholly taken."""
    return dict.fromkeys(names, (milli, MODELS[model]))


def reserved(
    name: str,
    start: int,
    end: int | None,
    *,
    want: Shape | None = None,
    replicas: int = 1,
    tenant: str = "nlp",
    every: int | None = None,
    until: int | None = None,
) -> Reservation:
    return Reservation(
        f"id-{name}",
        tenant,
        want or whole(),
        start * SECOND,
        None if end is None else end * SECOND,
        name=name,
        replicas=replicas,
        every_ns=None if every is None else every * SECOND,
        until_ns=None if until is None else until * SECOND,
    )


def taken(milli: int, size: int, *rows: int) -> SeatAmounts:
    """So much on each of these cards."""
    each = np.ones(len(rows), dtype=np.int64)
    return SeatAmounts(np.array(rows, dtype=np.int64), milli * each, size * each)


def hold(milli: int, size: int, *rows: int, start: int, end: int, owner: str = "") -> Hold:
    return Hold(taken(milli, size, *rows), start * SECOND, end * SECOND, owner)
