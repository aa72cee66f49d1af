"""Keep what jobs really use: latest samples in memory, running sums in the books now and then.

A sample has what a job used since it started. The books add only what is new since the last sample
they have, so a sample that comes twice, late or after a restart of the server counts once. A sum
that went back counts nothing until it is past where it was.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import sqlalchemy as sa

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.metering.job_use.pending import PendingUse, UseInterval
from gpupool.metering.job_use.writing import write_job_use
from gpupool.metering.tables import (
    add_rows,
    allocations_view,
    delivered,
    intervals,
    job_usage,
    jobs_view,
)
from gpupool.metering.use_history import UseHistory, UsePoint
from gpupool.store.database import WriteTransaction
from gpupool.wire.samples import CardUse, JobSample

SLOT_S = 300
#: What of a card's use only grows.
SUMMED = ("gpu_nanoseconds", "wait_nanoseconds", "throttled_nanoseconds", "launches", "refusals")
WRITE_EVERY_S = 300


class RunningSums(NamedTuple):
    """What a job used since it started, in milliseconds; None is unknown.

    `kept` is GPU time within the job's promise and `borrowed` what is beyond it; `denied` is
    promised time that passed while the job waited for a card.
    """

    gpu: int | None = None
    cpu: int | None = None
    kept: int | None = None
    borrowed: int | None = None
    denied: int | None = None


UNKNOWN_SUMS = RunningSums()
#: Columns of the books, in the order of `RunningSums`.
SUM_COLUMNS = (
    "gpu_milliseconds",
    "cpu_milliseconds",
    "kept_milliseconds",
    "borrowed_milliseconds",
    "denied_milliseconds",
)


def read_sums(sample: JobSample) -> RunningSums:
    """Read the running sums of a sample; what is within the promise follows from two of them."""
    gpu = sample.gpu_milliseconds
    borrowed = sample.borrowed_milliseconds
    kept = compute_kept(gpu, borrowed)
    return RunningSums(gpu, sample.cpu_milliseconds, kept, borrowed, sample.denied_milliseconds)


def compute_kept(gpu: int | None, borrowed: int | None) -> int | None:
    """Compute the GPU time within a promise; None if a part is unknown.

    >>> compute_kept(100, 30)
    70
    """
    return None if gpu is None or borrowed is None else max(0, gpu - borrowed)


@dataclass(frozen=True, slots=True)
class LatestSample:
    """A job's newest sample, the one before it, and when it was last due to be written."""

    sample: JobSample
    at_ns: int
    before: JobSample | None = None
    before_ns: int = 0
    written_ns: int | None = None


class SampleCache:
    """The newest sample of every running job. Thread-safe.

    Lost with the server: the next samples of the agents fill it again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latest: dict[str, LatestSample] = {}
        self._histories: dict[str, UseHistory] = defaultdict(UseHistory)
        self._pending: dict[str, PendingUse] = defaultdict(PendingUse)
        self._sums: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)

    def add_samples(
        self,
        samples: Iterable[JobSample],
        now_ns: int,
        tenants: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Add samples; `tenants` says whose each job is, for the sums by tenant."""
        with self._lock:
            for sample in samples:
                old = self._latest.get(sample.job)
                if sample.job in tenants:
                    self._add_sums(tenants[sample.job], sample, old.sample if old else None)
                point = UsePoint(now_ns, sample.gpu_milliseconds, sample.gpu_memory_bytes)
                self._histories[sample.job].add_point(point)
                self._pending[sample.job].add_sample(sample, now_ns)
                if old is None:
                    self._latest[sample.job] = LatestSample(sample, now_ns)
                else:
                    self._latest[sample.job] = LatestSample(
                        sample, now_ns, old.sample, old.at_ns, old.written_ns
                    )

    def _add_sums(self, tenant: str, sample: JobSample, old: JobSample | None) -> None:
        """Add what is new since the job's last sample.

        The sums are Prometheus counters, which must never fall, though a restarted job's own do.
        """
        before = {card.uuid: card for card in (old.cards if old else None) or ()}
        for card in sample.cards or ():
            was = before.get(card.uuid, CardUse(uuid=card.uuid))
            sums = self._sums[tenant, card.uuid]
            for name in SUMMED:
                sums[name] += max(0, getattr(card, name) - getattr(was, name))

    def get_sums(self) -> dict[tuple[str, str], Mapping[str, int]]:
        """Return what the jobs used since this server started, by (tenant, card's uuid)."""
        with self._lock:
            return {key: dict(sums) for key, sums in self._sums.items()}

    def note_memory(self, job: str, used_bytes: int) -> None:
        """Update a job's memory between two samples."""
        with self._lock:
            entry = self._latest.get(job)
            if entry is not None:
                sample = entry.sample.model_copy(update={"gpu_memory_bytes": used_bytes})
                self._latest[job] = replace(entry, sample=sample)

    def get_latest(self) -> Mapping[str, LatestSample]:
        with self._lock:
            return dict(self._latest)

    def find_latest(self, job: str) -> LatestSample | None:
        with self._lock:
            return self._latest.get(job)

    def list_points(self, job: str) -> list[UsePoint]:
        """List the points of a job's history; none of a job that is not heard of."""
        with self._lock:
            history = self._histories.get(job)
            return [] if history is None else list(history.list_points())

    def find_sample(self, job: str) -> JobSample | None:
        found = self.find_latest(job)
        return found.sample if found else None

    def list_due(self, now_ns: int) -> list[JobSample]:
        """List samples that were never written, or that are newer than a long ago last write."""
        with self._lock:
            return [entry.sample for entry in self._latest.values() if _is_due(entry, now_ns)]

    def mark_written(self, jobs: Iterable[str], now_ns: int) -> None:
        with self._lock:
            for job in jobs:
                entry = self._latest.get(job)
                if entry is not None:
                    self._latest[job] = LatestSample(
                        entry.sample, entry.at_ns, entry.before, entry.before_ns, now_ns
                    )

    def list_pending(self, jobs: Iterable[str]) -> dict[str, list[UseInterval]]:
        """List what is not in the histograms of these jobs yet, by public id."""
        with self._lock:
            return {
                job: self._pending[job].list_intervals() for job in jobs if job in self._pending
            }

    def drop_pending(self, written: Mapping[str, list[UseInterval]]) -> None:
        """Drop intervals that `list_pending` returned and that are in the books now."""
        with self._lock:
            for job, found in written.items():
                if found and job in self._pending:
                    self._pending[job].drop_until(found[-1].until_ns)

    def forget_jobs(self, jobs: Iterable[str]) -> None:
        with self._lock:
            for job in jobs:
                self._latest.pop(job, None)
                self._histories.pop(job, None)
                self._pending.pop(job, None)


def _is_due(entry: LatestSample, now_ns: int) -> bool:
    if entry.written_ns is None:
        return True
    return (
        entry.at_ns > entry.written_ns
        and now_ns - entry.written_ns >= WRITE_EVERY_S * NANOS_PER_SECOND
    )


def rate_percent(new: int | None, old: int | None, new_ns: int, old_ns: int) -> float | None:
    """Compute the percent of one processor (or card) between two running sums of milliseconds.

    None if it is unknown, as after a restart, when a sum has gone back.

    >>> rate_percent(1500, 1000, 2_000_000_000, 1_000_000_000)
    50.0
    """
    if new is None or old is None or new < old or new_ns <= old_ns:
        return None
    return round((new - old) * 100 * 10**6 / (new_ns - old_ns), 1)


# Into the books ------------------------------------------------------------------------------


def write_samples(
    write: WriteTransaction,
    samples: Collection[JobSample],
    pending: Mapping[str, list[UseInterval]] = MappingProxyType({}),
) -> set[str]:
    """Add what is new in these samples; return the jobs (public ids) that hold nothing any more.

    `pending` is what their histograms lack.
    """
    by_job = {sample.job: sample for sample in samples}
    columns = (jobs_view.c.id, jobs_view.c.public_id, *_list_owner_columns())
    rows = write.execute(sa.select(*columns).where(jobs_view.c.public_id.in_(list(by_job)))).all()
    sums = {row.id: read_sums(by_job[row.public_id]) for row in rows}
    add_running_sums(write, rows, sums)
    write_job_use(write, {row.id: pending.get(row.public_id, []) for row in rows})
    open_seats = sa.select(intervals.c.job_id).where(
        intervals.c.end_s.is_(None), intervals.c.job_id.in_(list(sums))
    )
    # A claim without a card has no seat; the words are those of the index on allocations.
    without_card = sa.select(allocations_view.c.job_id).where(
        allocations_view.c.state != sa.literal_column("'released'"),
        allocations_view.c.job_id.in_(list(sums)),
    )
    held = set(write.execute(sa.union(open_seats, without_card)).scalars())
    over = set(by_job)
    for row in rows:
        if row.id in held:
            over.discard(row.public_id)
    return over


def _list_owner_columns() -> tuple[Any, ...]:
    return jobs_view.c.tenant_id, jobs_view.c.project_id, jobs_view.c.user_id


def add_running_sums(
    write: WriteTransaction,
    owners: Collection[Any],
    sums: Mapping[int, RunningSums],
) -> None:
    """Add what is new in each job's running sums to the slot of now.

    `owners` are rows with the job's id, tenant_id, project_id and user_id.
    """
    known: dict[int, RunningSums] = {}
    stored = sa.select(job_usage).where(job_usage.c.job_id.in_(list(sums)))
    for row in write.execute(stored):
        known[row.job_id] = RunningSums(*(row._mapping[name] for name in SUM_COLUMNS))
    now_s = write.now_ns // NANOS_PER_SECOND
    more = []
    totals = []
    for row in owners:
        old = known.get(row.id, UNKNOWN_SUMS)
        new = sums[row.id]
        added = RunningSums(*map(_compute_new_use, new, old))
        if added == UNKNOWN_SUMS:
            continue
        largest = map(_compute_largest, new, old)
        more.append(
            {
                "width_s": SLOT_S,
                "slot_s": now_s - now_s % SLOT_S,
                "tenant_id": row.tenant_id,
                "project_id": row.project_id,
                "user_id": row.user_id,
                "job_id": row.id,
                **dict(zip(SUM_COLUMNS, added, strict=True)),
            }
        )
        totals.append(
            {
                "job_id": row.id,
                **dict(zip(SUM_COLUMNS, largest, strict=True)),
                "at_s": now_s,
            }
        )
    _replace_sums(write, totals)
    add_rows(write.connection, delivered, more)


def forget_sums(write: WriteTransaction, job_ids: Collection[int]) -> None:
    """The next sample of these jobs counts from 0."""
    write.execute(job_usage.delete().where(job_usage.c.job_id.in_(job_ids)))


def _compute_new_use(now: int | None, before: int | None) -> int | None:
    if now is None:
        return None
    return now if before is None else max(0, now - before)


def _compute_largest(now: int | None, before: int | None) -> int | None:
    return max((value for value in (now, before) if value is not None), default=None)


def _replace_sums(write: WriteTransaction, totals: list[dict[str, Any]]) -> None:
    if totals:
        write.execute(
            job_usage.delete().where(job_usage.c.job_id.in_([row["job_id"] for row in totals]))
        )
        write.execute(job_usage.insert(), totals)
