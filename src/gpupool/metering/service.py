"""Serve metering: open and close seats in the books, take samples, make reports.

Its time is the ledger's, as each transaction names it. It decides nothing about access to cards;
every report is limited to the caller's scope.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import BadDuration, BadOption
from gpupool.base.units import NANOS_PER_SECOND, format_instant
from gpupool.metering.energy.factor_service import EnergyFactorService
from gpupool.metering.energy.meter import EnergyMeter
from gpupool.metering.energy.writing import EnergyWriter
from gpupool.metering.job_use.writing import update_shares, write_job_use
from gpupool.metering.live import CardSample, read_live
from gpupool.metering.ownership import move_seats, read_other_jobs
from gpupool.metering.prices import PriceList
from gpupool.metering.reading import ReportQuery, check_grouping
from gpupool.metering.report import make_report
from gpupool.metering.reserved_time import ReservedReader, read_no_reserved_time
from gpupool.metering.rollup import read_marks, roll_up
from gpupool.metering.samples import (
    UNKNOWN_SUMS,
    LatestSample,
    RunningSums,
    SampleCache,
    add_running_sums,
    forget_sums,
    read_sums,
    write_samples,
)
from gpupool.metering.scope import find_scope
from gpupool.metering.tables import allocations_view, intervals, jobs_view, seats_view
from gpupool.metering.use import compute_job_use
from gpupool.model.tenant import Principal
from gpupool.store.database import Store, WriteTransaction
from gpupool.store.tables import pool
from gpupool.wire.jobs import JobUse
from gpupool.wire.report import LiveOut, ReportOut
from gpupool.wire.samples import DeviceSample, JobSample

#: The books fold by whole hours, so looking more often finds nothing.
ROLL_UP_EVERY_NS = 3600 * NANOS_PER_SECOND
#: Short transactions in one heartbeat: a long backlog is folded over several of them.
STEPS_PER_HEARTBEAT = 20
#: Jobs in one transaction, so that others that write wait only for a moment.
JOBS_PER_WRITE = 500
#: Rows of a live view, of cards and of jobs.
LIVE_LIMIT = 200

_OPEN = sa.and_(
    intervals.c.allocation_id.in_(sa.bindparam("ids", expanding=True)), intervals.c.end_s.is_(None)
)
#: An allocation without a card has no seat, so there is no interval of it at any time.
_WITHOUT_CARD = sa.and_(
    allocations_view.c.id.in_(sa.bindparam("ids", expanding=True)),
    ~sa.exists().where(seats_view.c.allocation_id == allocations_view.c.id),
)
_JOBS_OF_OPEN = sa.select(jobs_view).where(
    jobs_view.c.id.in_(
        sa.union(
            sa.select(intervals.c.job_id).where(_OPEN),
            sa.select(allocations_view.c.job_id).where(_WITHOUT_CARD),
        )
    )
)
_FORGET_EMPTY = intervals.delete().where(_OPEN, intervals.c.start_s >= sa.bindparam("now_s"))
_END_OPEN = intervals.update().where(_OPEN).values(end_s=sa.bindparam("now_s"))


class MeteringService:
    """Thread-safe. One per pool's server."""

    def __init__(self, store: Store, read_reserved: ReservedReader = read_no_reserved_time) -> None:
        self._store = store
        self._read_reserved = read_reserved
        self.samples = SampleCache()
        self.power = EnergyMeter()
        self.energy = EnergyWriter(store, self.power)
        self.factors = EnergyFactorService(store)
        self._upkeep = threading.Lock()
        self._rolled_ns = 0

    # The ledger ----------------------------------------------------------------------------

    def open_seats(
        self, write: WriteTransaction, rows: Sequence[Mapping[str, Any]], at_ns: int | None = None
    ) -> None:
        """Start counting seats from this transaction's second on; a cluster says from which.

        Each row: allocation_id, device_id, tenant_id, project_id, user_id, job_id, gpu_milli
        (what is held: 0 for shares without a promise), memory_mib.
        """
        if rows:
            start_s = (write.now_ns if at_ns is None else at_ns) // NANOS_PER_SECOND
            write.execute(
                intervals.insert(), [{**row, "start_s": start_s, "end_s": None} for row in rows]
            )

    def close_allocation(self, write: WriteTransaction, allocation_id: int) -> None:
        """Stop counting one allocation's seats. Idempotent."""
        self.close_allocations(write, [allocation_id])

    def close_allocations(
        self, write: WriteTransaction, allocation_ids: Collection[int], at_ns: int | None = None
    ) -> None:
        """Stop counting allocations' seats, and book what their jobs were measured to use.

        Idempotent.
        """
        ids = {"ids": list(allocation_ids)}
        now_s = (write.now_ns if at_ns is None else at_ns) // NANOS_PER_SECOND
        jobs = {row.id: row for row in write.execute(_JOBS_OF_OPEN, ids)}
        self._write_pending_use(write, jobs)
        write.execute(_FORGET_EMPTY, {**ids, "now_s": now_s})
        write.execute(_END_OPEN, {**ids, "now_s": now_s})
        self._book_last_sums(write, jobs)

    def change_owner(self, write: WriteTransaction, job_ids: Collection[int], user_id: int) -> None:
        """Count what jobs hold and use for another user from this second on. Idempotent.

        Call it before the jobs' rows change: what was before stays with the user that they name.
        """
        jobs = read_other_jobs(write, job_ids, user_id)
        self._write_pending_use(write, jobs)
        self._book_last_sums(write, jobs)
        move_seats(write, jobs, user_id)

    def _book_last_sums(self, write: WriteTransaction, jobs: Mapping[int, Any]) -> None:
        sums: dict[int, RunningSums] = {}
        for key, job in jobs.items():
            last = self._find_last_sums(job)
            if last != UNKNOWN_SUMS:
                sums[key] = last
        if sums:
            add_running_sums(write, [jobs[key] for key in sums], sums)

    def restart_sums(self, write: WriteTransaction, job_ids: Collection[int]) -> None:
        """Start the running sums of jobs again, which will run again; the books keep their use."""
        if job_ids:
            forget_sums(write, job_ids)

    def forget_samples(self, jobs: Iterable[str]) -> None:
        """Forget samples of jobs that start again: they are of an earlier run."""
        self.samples.forget_jobs(jobs)

    def _find_last_sums(self, job: Any) -> RunningSums:
        """Find a job's newest running sums.

        The supervisor reports processor time at the job's end, which is newer than any sample.
        """
        sample = self.samples.find_sample(job.public_id)
        sums = read_sums(sample) if sample else UNKNOWN_SUMS
        return sums if job.cpu_milliseconds is None else sums._replace(cpu=job.cpu_milliseconds)

    def resize_seats(
        self, write: WriteTransaction, allocation_id: int, sizes: Mapping[int, tuple[int, int]]
    ) -> None:
        """Count an allocation's seats anew from this second on; `sizes` is (held milli, MiB) by
        device.

        What was held up to now stays in the books as it was. The second in which it happens belongs
        to the new size, as a second in which a share ends belongs to the next holder.
        """
        now_s = write.now_ns // NANOS_PER_SECOND
        ids = {"ids": [allocation_id], "now_s": now_s}
        rows = [dict(row._mapping) for row in write.execute(sa.select(intervals).where(_OPEN), ids)]
        jobs = {row.id: row for row in write.execute(_JOBS_OF_OPEN, ids)}
        self._write_pending_use(write, jobs)
        write.execute(_FORGET_EMPTY, ids)
        write.execute(_END_OPEN, ids)
        for row in rows:
            del row["id"]
            row["gpu_milli"], row["memory_mib"] = sizes[row["device_id"]]
            row["start_s"] = now_s
        write.execute(intervals.insert(), rows)
        update_shares(write, jobs)

    def _write_pending_use(self, write: WriteTransaction, jobs: Mapping[int, Any]) -> None:
        """Count what is pending of jobs, by row id, while they hold what they used it under."""
        pending = self.samples.list_pending([job.public_id for job in jobs.values()])
        write_job_use(write, {key: pending.get(job.public_id, []) for key, job in jobs.items()})

    # Samples -------------------------------------------------------------------------------

    def record_samples(
        self, samples: Iterable[JobSample], tenants: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Take in what an agent measured; writes at most every five minutes, rolls up when due."""
        self.note_samples(samples, tenants)
        self.write_and_fold()

    def note_samples(
        self, samples: Iterable[JobSample], tenants: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Take them in and write nothing: what closes the books next finds them."""
        self.samples.add_samples(samples, self._store.clock.now_ns(), tenants)

    def note_power(
        self, cards: Mapping[str, int], samples: Iterable[DeviceSample], jobs: Iterable[JobSample]
    ) -> None:
        """Take in what cards drew, and what jobs used of them since; writes nothing.

        `cards` has the row ids of the agent's cards by uuid.
        """
        seen = [(cards[one.uuid], one.uuid, one.usage) for one in samples if one.uuid in cards]
        self.power.add_samples(seen, jobs, self._store.clock.now_ns())

    def note_memory(self, job: str, used_bytes: int) -> None:
        """A word on a job's memory between two samples."""
        self.samples.note_memory(job, used_bytes)

    def write_and_fold(self) -> None:
        """Write what is due, fold what is old."""
        self.write_due_samples()
        self.energy.write_due()
        self.fold_old_rows()

    def write_due_samples(self) -> None:
        """Put running sums into the books: first at once, then at most every five minutes."""
        due = self.samples.list_due(self._store.clock.now_ns())
        for start in range(0, len(due), JOBS_PER_WRITE):
            chunk = due[start : start + JOBS_PER_WRITE]
            pending = self.samples.list_pending([sample.job for sample in chunk])
            with self._store.write() as write:
                over = write_samples(write, chunk, pending)
                now_ns = write.now_ns
            # After the commit: a server that dies in between writes the samples again, of which
            # the books take nothing new.
            self.samples.mark_written([sample.job for sample in chunk], now_ns)
            self.samples.drop_pending(pending)
            self.samples.forget_jobs(over)

    def fold_old_rows(self) -> bool:
        """Fold what is old, at most once an hour and a little at a time; True: nothing is left now.

        Called with every heartbeat, so that it needs no wake-ups of its own.
        """
        now_ns = self._store.clock.now_ns()
        if now_ns - self._rolled_ns < ROLL_UP_EVERY_NS or not self._upkeep.acquire(blocking=False):
            return True
        try:
            done = roll_up(self._store, STEPS_PER_HEARTBEAT)
            self._rolled_ns = now_ns if done else self._rolled_ns
            return done
        finally:
            self._upkeep.release()

    def get_latest_samples(self) -> Mapping[str, LatestSample]:
        """The newest sample of every job that is heard of, by its public id."""
        return self.samples.get_latest()

    def compute_use(
        self, job: str, held_milli: int, held_bytes: int, *, processes: bool = False
    ) -> JobUse | None:
        """What a job that holds so much uses, by its newest sample; None: there is none."""
        seen = self.samples.find_latest(job)
        if seen is None:
            return None
        return compute_job_use(seen, held_milli, held_bytes, processes=processes)

    def get_fence_sums(self) -> dict[tuple[str, str], Mapping[str, int]]:
        """What the fences counted since this server began, by (tenant, card's uuid); it grows."""
        return self.samples.get_sums()

    # Reports -------------------------------------------------------------------------------

    def read_now_ns(self) -> int:
        """The ledger's now: the end of the latest report that can be made."""
        with self._store.read() as connection:
            return self._read_now_ns(connection)

    def _read_now_ns(self, connection: sa.Connection) -> int:
        written: int = connection.execute(sa.select(pool.c.ledger_ns)).scalar_one()
        return max(written, self._store.clock.now_ns())

    def make_report(
        self,
        principal: Principal,
        since_ns: int,
        until_ns: int,
        by: Sequence[str] = ("tenant",),
        *,
        tenant: str | None = None,
        prices: PriceList | None = None,
    ) -> ReportOut:
        """Report what was held between two instants, and for an admin what became of the rest.

        The range is widened to what the books still tell apart (the hour after two days, the day
        after 35) and ends at the ledger's now. An admin sees the pool; a tenant-admin or viewer
        the own tenant; a user itself by name and the rest of the tenant as one row.
        Raises BadDuration, BadOption, UnknownTenant.
        """
        grouping = check_grouping(by)
        if prices is not None and prices.prices_hosts and "card" in grouping:
            raise BadOption(
                "processors and main memory are of no card, so a report by card cannot price them",
                hint="leave out card, or the prices of processors and memory",
            )
        with self._store.read() as connection:
            now_ns = self._read_now_ns(connection)
            since_s, until_s = _compute_range(since_ns, until_ns, now_ns)
            marks = read_marks(connection)
            since_s, until_s = marks.align_range(since_s, until_s)
            tenant_id, named = find_scope(connection, principal, tenant)
            ask = ReportQuery(since_s, until_s, grouping, marks, tenant_id, named, prices)
            return make_report(connection, ask, self._read_reserved)

    def read_usage(
        self, principal: Principal, card_sample: CardSample, limit: int = LIVE_LIMIT
    ) -> LiveOut:
        """What is held and used now, in the caller's scope. `card_sample` is fleet's latest word on
        a card."""
        with self._store.read() as connection:
            return read_live(
                connection,
                self._read_now_ns(connection),
                self.samples.get_latest(),
                card_sample,
                tenant_id=None if principal.sees_all else principal.tenant_id,
                limit=limit,
            )


def _compute_range(since_ns: int, until_ns: int, now_ns: int) -> tuple[int, int]:
    if since_ns > until_ns:
        raise BadDuration(
            f"the report would end ({format_instant(until_ns)}) before it begins ({format_instant(since_ns)})",
            hint="give an earlier --since or a later --until",
        )
    if since_ns > now_ns:
        raise BadDuration(
            f"the report would begin in the future: {format_instant(since_ns)}, the pool's clock says "
            f"{format_instant(now_ns)}",
            hint="give an earlier --since",
        )
    return max(0, since_ns) // NANOS_PER_SECOND, max(0, min(until_ns, now_ns)) // NANOS_PER_SECOND
