"""Pools with jobs on their cards, for tests of what moves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpupool.base.units import GIB, WHOLE
from gpupool.model.claim import Shape, SharingKind
from gpupool.scheduling.snapshot.claims import RunningJob
from gpupool.scheduling.snapshot.snapshot import Snapshot
from tests.support.scheduling_builders import snapshot

NOW = 10_000 * 10**9


def pool(layout: str, *jobs: RunningJob) -> Snapshot:
    """A pool with these jobs on its cards."""
    made = snapshot(layout)
    milli, size = made.cards.free_milli.copy(), made.cards.free_bytes.copy()
    for job in jobs:
        rows = np.array(job.rows)
        milli[rows] -= job.milli
        size[rows] -= job.sizes
    return replace(made, cards=replace(made.cards, free_milli=milli, free_bytes=size), running=jobs)


def job(
    name: str,
    *rows: int,
    milli: int = WHOLE,
    ran: int = 60,
    saved: int | None = None,
    stays: bool = False,
    gang: str = "",
    tenant: str = "nlp",
    model: str | None = None,
    sharing: SharingKind = SharingKind.FIXED,
) -> RunningJob:
    """A job on these cards that has run so many seconds, and last saved its state that many ago."""
    size = 140 * GIB if milli == WHOLE and sharing.promises_compute else GIB
    shape = Shape(milli, size, len(rows), model, sharing=sharing)
    saved_ns = None if saved is None else NOW - saved * 10**9
    sizes, held = (size,) * len(rows), (shape.held_milli,) * len(rows)
    began = NOW - ran * 10**9
    return RunningJob(
        name, tenant, 0, rows, held, sizes, shape, began, None, saved_ns, not stays, gang
    )
