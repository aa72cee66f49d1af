"""Adds intervals of use to the histograms of their jobs. Idempotent: an interval counts once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from gpupool.base.units import NANOS_PER_MILLISECOND, WHOLE
from gpupool.metering.job_use.pending import UseInterval
from gpupool.metering.job_use.tables import use_histograms
from gpupool.metering.tables import intervals
from gpupool.rightsizing.histogram import UseHistogram
from gpupool.rightsizing.runs import is_at_limit
from gpupool.store.database import WriteTransaction

#: Nanoseconds that a histogram stays after its job was last measured.
KEPT_NS = 180 * 86400 * 10**9

_FACTS = ("device_id", "cards", "gpu_milli", "memory_mib")


def write_job_use(write: WriteTransaction, pending: Mapping[int, Sequence[UseInterval]]) -> None:
    """Add what is pending of jobs, by their row ids. A job that holds no card any more is left out.

    The share of now judges whether a job was at its limit: intervals are written before a resize is
    older than a few minutes.
    """
    wanted = {job: found for job, found in pending.items() if found}
    if not wanted:
        return
    held = _read_held(write, wanted)
    stored = {row.job_id: row for row in write.execute(_select_rows(list(held)))}
    rows = list[dict[str, Any]]()
    for job, facts in held.items():
        made = _add_intervals(job, facts, stored.get(job), wanted[job])
        if made is not None:
            rows.append(made)
    if rows:
        ids = [row["job_id"] for row in rows]
        write.execute(use_histograms.delete().where(use_histograms.c.job_id.in_(ids)))
        write.execute(use_histograms.insert(), rows)


def update_shares(write: WriteTransaction, jobs: Collection[int]) -> None:
    """Note another size of running jobs, by their row ids, where something was measured."""
    rows = use_histograms
    for job, facts in _read_held(write, jobs).items():
        values = dict(zip(_FACTS, facts, strict=True))
        write.execute(rows.update().where(rows.c.job_id == job).values(**values))


def _read_held(
    write: WriteTransaction, jobs: Collection[int]
) -> dict[int, tuple[int, int, int, int]]:
    """Read what each job holds: a device, the number of its cards, milli and MiB of one."""
    i = intervals.c
    query = (
        sa.select(
            i.job_id,
            sa.func.min(i.device_id).label("device_id"),
            sa.func.count().label("cards"),
            sa.func.max(i.gpu_milli).label("gpu_milli"),
            sa.func.max(i.memory_mib).label("memory_mib"),
        )
        .where(i.job_id.in_(list(jobs)), i.end_s.is_(None))
        .group_by(i.job_id)
    )
    found: dict[int, tuple[int, int, int, int]] = {}
    for row in write.execute(query):
        found[row.job_id] = (row.device_id, row.cards, row.gpu_milli, row.memory_mib)
    return found


def _select_rows(jobs: list[int]) -> sa.Select[Any]:
    return sa.select(use_histograms).where(use_histograms.c.job_id.in_(jobs))


def _add_intervals(
    job: int, facts: tuple[int, int, int, int], stored: Any, found: Sequence[UseInterval]
) -> dict[str, Any] | None:
    """Return the row with what is new; None: nothing is."""
    counted_ns = 0 if stored is None else stored.until_ns
    new = [one for one in found if one.until_ns > counted_ns]
    if not new:
        return None
    use = (
        UseHistogram()
        if stored is None
        else UseHistogram.from_milliseconds(stored.bins, stored.highest_milli)
    )
    limited = 0 if stored is None else stored.limited_milliseconds
    limited_milli = 0 if stored is None else stored.limited_gpu_milli
    peaks = [] if stored is None or stored.peak_bytes is None else [stored.peak_bytes]
    _, cards, held, _ = facts
    for one in new:
        if one.peak_bytes is not None:
            peaks.append(one.peak_bytes)
        if one.milli is None:
            continue
        milli = min(WHOLE, one.milli // cards if one.whole_job else one.milli)
        use.add(milli, one.milliseconds / 1000)
        waited = None if one.waited_milli is None else one.waited_milli / WHOLE
        if is_at_limit(milli, held, waited):
            limited += one.milliseconds
            limited_milli = max(limited_milli, held)
    first = new[0]
    since_ns = first.until_ns - first.milliseconds * NANOS_PER_MILLISECOND
    return {
        "job_id": job,
        **dict(zip(_FACTS, facts, strict=True)),
        "bins": use.to_milliseconds(),
        "highest_milli": use.highest_milli,
        "limited_milliseconds": limited,
        "limited_gpu_milli": limited_milli,
        "peak_bytes": max(peaks, default=None),
        "since_ns": since_ns if stored is None else stored.since_ns,
        "until_ns": new[-1].until_ns,
    }


def forget_old_use(write: WriteTransaction, at_most: int) -> bool:
    """Drop some of the histograms of jobs that were last measured long ago; False without any."""
    old = (
        sa.select(use_histograms.c.job_id)
        .where(use_histograms.c.until_ns < write.now_ns - KEPT_NS)
        .limit(at_most)
    )
    ids = write.execute(old).scalars().all()
    write.execute(use_histograms.delete().where(use_histograms.c.job_id.in_(ids)))
    return bool(ids)
