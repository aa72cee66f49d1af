"""The meter: seats open and close in it, samples come in, reports come out.

Its time is the ledger's, as each transaction says it, and nothing else. Decides nothing
about who may have what; a caller's scope is where every report starts.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import BadDuration, BadOption, UnknownTenant
from gpupool.base.units import format_instant
from gpupool.metering.live import CardSample, read_live
from gpupool.metering.prices import Prices
from gpupool.metering.reading import BY, Ask
from gpupool.metering.report import make_report
from gpupool.metering.rollup import read_marks, roll_up
from gpupool.metering.samples import Latest, Samples, forget_sums, take_in, write_samples
from gpupool.metering.tables import intervals, jobs_view
from gpupool.metering.use import use_of
from gpupool.model.tenant import Principal, Role
from gpupool.store.database import Store, Write
from gpupool.store.tables import pool
from gpupool.tenancy.tables import tenants
from gpupool.wire.fleet import JobSample
from gpupool.wire.jobs import JobUse
from gpupool.wire.report import LiveOut, ReportOut

_NS = 10**9
ROLL_UP_EVERY_NS = 3600 * _NS
STEPS_PER_HEARTBEAT = 20
JOBS_PER_WRITE = 500
LIVE_LIMIT = 200

_OPEN = sa.and_(intervals.c.allocation_id.in_(sa.bindparam("ids", expanding=True)), intervals.c.end_s.is_(None))
_JOBS_OF_OPEN = sa.select(jobs_view).join_from(intervals, jobs_view, jobs_view.c.id == intervals.c.job_id).where(_OPEN)
_FORGET_EMPTY = intervals.delete().where(_OPEN, intervals.c.start_s >= sa.bindparam("now_s"))
_END_OPEN = intervals.update().where(_OPEN).values(end_s=sa.bindparam("now_s"))


class Metering:
    """Thread-safe. One per pool's server."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._samples = Samples()
        self._upkeep = threading.Lock()
        self._rolled_ns = 0

    # The ledger ----------------------------------------------------------------------------

    def open_seats(self, write: Write, rows: Sequence[Mapping[str, Any]], at_ns: int | None = None) -> None:
        """Start counting seats from this transaction's second on; a cluster says from which.

        Each row: allocation_id, device_id, tenant_id, project_id, user_id, job_id, gpu_milli
        (what is held: 0 for best effort), memory_mib.
        """
        if rows:
            start_s = (write.now_ns if at_ns is None else at_ns) // _NS
            write.execute(intervals.insert(), [{**row, "start_s": start_s, "end_s": None} for row in rows])

    def close_allocation(self, write: Write, allocation_id: int) -> None:
        """Stop counting one allocation's seats. Idempotent."""
        self.close_allocations(write, [allocation_id])

    def close_allocations(self, write: Write, allocation_ids: Collection[int], at_ns: int | None = None) -> None:
        """Stop counting allocations' seats; what their jobs were measured to use goes into the books. Idempotent."""
        ids, now_s = {"ids": list(allocation_ids)}, (write.now_ns if at_ns is None else at_ns) // _NS
        jobs = {row.id: row for row in write.execute(_JOBS_OF_OPEN, ids)}
        write.execute(_FORGET_EMPTY, {**ids, "now_s": now_s})
        write.execute(_END_OPEN, {**ids, "now_s": now_s})
        sums = {key: sums for key, job in jobs.items() if (sums := self._last_of(job)) != (None, None)}
        if sums:
            take_in(write, [jobs[key] for key in sums], sums)

    def begin_anew(self, write: Write, job_ids: Collection[int]) -> None:
        """These jobs will run again, and their running sums with them; what they used so far stays in the books."""
        if job_ids:
            forget_sums(write, job_ids)

    def forget_samples(self, jobs: Iterable[str]) -> None:
        """Their latest samples are an earlier run's."""
        self._samples.forget(jobs)

    def _last_of(self, job: Any) -> tuple[int | None, int | None]:
        """A job's GPU and processor milliseconds: the latest sample, and the supervisor's last word."""
        sample = self._samples.of(job.public_id)
        gpu, cpu = (sample.gpu_milliseconds, sample.cpu_milliseconds) if sample else (None, None)
        return gpu, cpu if job.cpu_milliseconds is None else job.cpu_milliseconds

    def resize_seats(self, write: Write, allocation_id: int, sizes: Mapping[int, tuple[int, int]]) -> None:
        """Count an allocation's seats anew from this second on; `sizes` is (held milli, MiB) by device.

        What was held up to now stays in the books as it was. The second in which it happens belongs
        to the new size, as a second in which a share ends belongs to the next holder.
        """
        now_s = write.now_ns // _NS
        ids = {"ids": [allocation_id], "now_s": now_s}
        rows = [dict(row._mapping) for row in write.execute(sa.select(intervals).where(_OPEN), ids)]
        write.execute(_FORGET_EMPTY, ids)
        write.execute(_END_OPEN, ids)
        for row in rows:
            del row["id"]
            row["gpu_milli"], row["memory_mib"] = sizes[row["device_id"]]
            row["start_s"] = now_s
        write.execute(intervals.insert(), rows)

    # Samples -------------------------------------------------------------------------------

    def record(self, samples: Iterable[JobSample], tenants: Mapping[str, str] = MappingProxyType({})) -> None:
        """Take in what an agent measured of its jobs; writes at most every five minutes. Rolls up when due.

        `tenants` says whose each job is.
        """
        self.note(samples, tenants)
        self.keep_up()

    def note(self, samples: Iterable[JobSample], tenants: Mapping[str, str] = MappingProxyType({})) -> None:
        """Take them in and write nothing: what closes the books next finds them."""
        self._samples.put(samples, self._store.clock.now_ns(), tenants)

    def note_memory(self, job: str, used_bytes: int) -> None:
        """A word on a job's memory between two samples."""
        self._samples.note_memory(job, used_bytes)

    def keep_up(self) -> None:
        """Write what is due, fold what is old."""
        self.write_due_samples()
        self.keep_small()

    def write_due_samples(self) -> None:
        """Put running sums into the books: a job's first at once, then at most every five minutes."""
        due = self._samples.due(self._store.clock.now_ns())
        for start in range(0, len(due), JOBS_PER_WRITE):
            chunk = due[start : start + JOBS_PER_WRITE]
            with self._store.write() as write:
                over = write_samples(write, chunk)
                now_ns = write.now_ns
            self._samples.written([sample.job for sample in chunk], now_ns)
            self._samples.forget(over)

    def keep_small(self) -> bool:
        """Fold what is old, at most once an hour and a little at a time; True when nothing is left for now.

        Called with every heartbeat, so that it needs no wake-ups of its own. May be called at any time.
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

    def latest(self) -> Mapping[str, Latest]:
        """The newest sample of every job that is heard of, by its public id."""
        return self._samples.latest()

    def use_of(self, job: str, held_milli: int, held_bytes: int, *, processes: bool = False) -> JobUse | None:
        """What a job that holds so much uses, by its newest sample; None: nothing was heard of it."""
        seen = self._samples.find(job)
        return None if seen is None else use_of(seen, held_milli, held_bytes, processes=processes)

    def sums(self) -> dict[tuple[str, str], Mapping[str, int]]:
        """By (tenant, card's uuid): what the fences counted since this server began. It only grows."""
        return self._samples.sums()

    # Reports -------------------------------------------------------------------------------

    def now_ns(self) -> int:
        """The ledger's now: the end of the latest report that can be made."""
        with self._store.read() as connection:
            return self._now_ns(connection)

    def _now_ns(self, connection: sa.Connection) -> int:
        written: int = connection.execute(sa.select(pool.c.ledger_ns)).scalar_one()
        return max(written, self._store.clock.now_ns())

    def report(
        self,
        principal: Principal,
        since_ns: int,
        until_ns: int,
        by: Sequence[str] = ("tenant",),
        *,
        tenant: str | None = None,
        prices: Prices | None = None,
    ) -> ReportOut:
        """Who held what between two instants, and for an admin what became of the rest. Reads only.

        The range is widened to what the books still tell apart (the hour after two days, the day
        after 35) and ends at the ledger's now. An admin sees the pool; a tenant-admin or viewer
        the own tenant; a user itself by name and the rest of the tenant as one row.
        Raises BadDuration, BadOption, UnknownTenant.
        """
        grouping = check_by(by)
        with self._store.read() as connection:
            now_ns = self._now_ns(connection)
            since_s, until_s = _range(since_ns, until_ns, now_ns)
            marks = read_marks(connection)
            since_s, until_s = marks.align(since_s, until_s)
            tenant_id, named = _scope(connection, principal, tenant)
            ask = Ask(since_s, until_s, grouping, marks, tenant_id, named, prices)
            return make_report(connection, ask)

    def usage(self, principal: Principal, card_sample: CardSample, limit: int = LIVE_LIMIT) -> LiveOut:
        """What is held and used now, in the caller's scope. `card_sample` is fleet's latest word on a card."""
        with self._store.read() as connection:
            return read_live(
                connection,
                self._now_ns(connection),
                self._samples.latest(),
                card_sample,
                tenant_id=None if principal.sees_all else principal.tenant_id,
                limit=limit,
            )


def check_by(by: Sequence[str]) -> tuple[str, ...]:
    """Grouping words, each once, in the books' order. Raises BadOption."""
    unknown = [word for word in by if word not in BY]
    if unknown:
        raise BadOption(f"cannot report by {unknown[0][:40]!r}", hint=f"by: {', '.join(BY)}")
    return tuple(word for word in BY if word in by)


def _range(since_ns: int, until_ns: int, now_ns: int) -> tuple[int, int]:
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
    return max(0, since_ns) // _NS, max(0, min(until_ns, now_ns)) // _NS


def _scope(connection: sa.Connection, principal: Principal, tenant: str | None) -> tuple[int | None, int | None]:
    """(tenant whose rows, user who is named); None: all. Another's tenant is as unknown as a missing one."""
    if principal.sees_all:
        return (None if tenant is None else _tenant_id(connection, tenant)), None
    if tenant is not None and tenant != principal.tenant:
        raise _unknown(tenant)
    return principal.tenant_id, principal.user_id if principal.role is Role.USER else None


def _tenant_id(connection: sa.Connection, name: str) -> int:
    found = None
    if name.isprintable():
        found = connection.execute(sa.select(tenants.c.id).where(tenants.c.name == name)).scalar_one_or_none()
    if found is None:
        raise _unknown(name)
    return int(found)


def _unknown(name: str) -> UnknownTenant:
    return UnknownTenant(f"no tenant is named {name[:80]!r}", hint="gpupool tenant list shows those you can see")
