"""A pool with real books in it: store, fleet, meter, and jobs granted as `allocations` grants them.

Beside them it keeps its own notes of every seat and span, from which the pure
arithmetic of `metering.books` says what a report must be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Self

import sqlalchemy as sa

import gpupool.allocations.store.tables as work
from gpupool.base.clock import LedgerClock
from gpupool.base.units import MIB
from gpupool.billing.charging.reserved_ranges import read_unused_time
from gpupool.fleet.service import FleetService
from gpupool.fleet.tables import devices
from gpupool.metering.books import CardSpan, MeteredSeat, SpanKind
from gpupool.metering.service import MeteringService
from gpupool.metering.tables import intervals, start_tallies
from gpupool.model.tenant import Principal, UserRole
from gpupool.store.database import Store, WriteTransaction, connect
from gpupool.store.tables import pool
from gpupool.tenancy.tables import projects, tenants, users
from gpupool.wire.fleet import DeviceIn, NodeIn
from gpupool.wire.report import ReportOut
from gpupool.wire.samples import DeviceSample, UsageOut
from tests.support.empty_databases import make_tables

S = 10**9
HOUR, DAY = 3600, 86400
START_S = 1_700_006_400  # a whole hour, not a whole day
CARD_MIB = 46068
ADMIN = Principal(1, "root", 1, "default", UserRole.ADMIN)
PEOPLE = (("vision", "ada"), ("vision", "bob"), ("nlp", "cyd"))
"""Tenant and user, with ids from 2 on for tenants and from 10 on for users and projects."""
TENANT_IDS = {"default": 1, "vision": 2, "nlp": 3}


class Time:
    """A wall clock that can be set, and a boot clock that only goes on."""

    def __init__(self) -> None:
        self.boot_ns, self.wall_ns = 0, START_S * S

    def forward(self, seconds: float) -> None:
        self.boot_ns += int(seconds * S)
        self.wall_ns += int(seconds * S)


class Pool:
    """One pool on one database, through restarts."""

    def __init__(self, url: str, cards: int = 2) -> None:
        self.engine = connect(url)
        self.time, self.cards = Time(), cards
        self.seats: dict[int, MeteredSeat] = {}
        self.spans: list[CardSpan] = []
        self._allocations = self._jobs = 0
        make_tables(self.engine)
        self._first_rows()
        self.start()
        self.register(range(cards), adopt=True)

    @classmethod
    def reopen(cls, url: str, seconds: int) -> Self:
        """A server of another process on the same database, so long after the pool's beginning.

        It does not know what is held: `seats` and `spans` are empty.
        """
        made = cls.__new__(cls)
        made.engine = connect(url)
        made.time = Time()
        made.time.forward(seconds)
        made.seats = {}
        made.spans = []
        made.start()
        return made

    def start(self) -> None:
        """A server starts on what is in the database."""
        with self.engine.connect() as connection:
            floor_ns = connection.execute(sa.select(pool.c.ledger_ns)).scalar_one()
        clock = LedgerClock(
            floor_ns, wall=lambda: self.time.wall_ns, boot=lambda: self.time.boot_ns
        )
        self.store = Store(self.engine, clock)
        self.store.take("test")
        self.fleet = FleetService(self.store)
        self.metering = MeteringService(self.store, read_unused_time)

    def _first_rows(self) -> None:
        with begin(self.engine) as connection:
            fill(connection, pool, id=1)
            for name, tenant_id in TENANT_IDS.items():
                fill(connection, tenants, id=tenant_id, name=name)
                fill(connection, projects, id=tenant_id, tenant_id=tenant_id, name="default")
            for number, (tenant, name) in enumerate(PEOPLE):
                fill(
                    connection,
                    users,
                    id=10 + number,
                    name=name,
                    tenant_id=TENANT_IDS[tenant],
                    role="user",
                )
            for table in (
                (tenants, projects, users) if connection.dialect.name == "postgresql" else ()
            ):
                connection.exec_driver_sql(
                    f"SELECT setval('{table.name}_id_seq', 100)"
                )  # ids given by hand are taken

    # --- cards ---------------------------------------------------------------------------

    def register(self, indexes: Sequence[int], adopt: bool = False) -> None:
        """Say which cards are there; those left out vanish."""
        body = NodeIn(devices=[_card(index) for index in indexes], simulated=True, adopt=adopt)
        self.fleet.register_node("node-1", body, ADMIN)
        self.note_spans()

    def health(self, index: int, health: str) -> None:
        sample = DeviceSample.model_validate(
            {"uuid": f"GPU-{index}", "usage": UsageOut(), "health": health}
        )
        self.fleet.record_observations("node-1", [sample])
        self.note_spans()

    def drain(self, index: int) -> None:
        self.fleet.release_devices([f"node-1:{index}"], True, ADMIN)
        self.note_spans()

    def adopt(self, index: int) -> None:
        self.fleet.adopt_devices([f"node-1:{index}"], ADMIN)
        self.note_spans()

    def note_spans(self) -> None:
        """Write down, without looking at fleet's history, what each card is from this second on."""
        with self.store.read() as connection:
            rows = connection.execute(sa.select(devices)).all()
            now_s = connection.execute(sa.select(pool.c.ledger_ns)).scalar_one() // S
        for row in rows:
            self._note(row, _kind(row), now_s)

    def _note(self, row: Any, kind: SpanKind | None, now_s: int) -> None:
        standing = [
            n for n, span in enumerate(self.spans) if span.device == row.id and span.end_s is None
        ]
        if standing and self.spans[standing[0]].kind == kind:
            return
        for place in standing:
            self.spans[place] = replace(self.spans[place], end_s=now_s)
        if kind is not None:
            self.spans.append(CardSpan(row.id, kind, row.memory_bytes // MIB, now_s))

    # --- jobs ----------------------------------------------------------------------------

    def grant(
        self, person: int, index: int, milli: int, memory_mib: int, job: int | None = None
    ) -> int | None:
        """An allocation of one seat on a card; None where there is no room for it."""
        with self.store.write() as write:
            row = write.execute(sa.select(devices).where(devices.c.uuid == f"GPU-{index}")).one()
            full = (
                row.used_milli + milli > 1000
                or row.used_bytes + memory_mib * MIB > row.memory_bytes
            )
            if row.state != "adopted" or full:
                return None
            self._hold(write, row.id, milli, memory_mib, 1)
            self._allocations += 1
            owner = self._owner(write, person, job)
            seat = {"allocation_id": self._allocations, "device_id": row.id, "gpu_milli": milli}
            self.metering.open_seats(write, [{**seat, **owner, "memory_mib": memory_mib}])
            noted = MeteredSeat(
                row.id, milli, memory_mib, write.now_ns // S, owner=PEOPLE[person][1]
            )
            self.seats[self._allocations] = noted
        return self._allocations

    def _owner(self, write: WriteTransaction, person: int, job: int | None) -> dict[str, int]:
        tenant_id = TENANT_IDS[PEOPLE[person][0]]
        owner = {"tenant_id": tenant_id, "project_id": tenant_id, "user_id": 10 + person}
        return {**owner, "job_id": self._job(write, owner) if job is None else job}

    def _job(self, write: WriteTransaction, owner: dict[str, int]) -> int:
        self._jobs += 1
        number = self._jobs
        public = f"j-{number:010d}"
        names = {"public_id": f"c-{number:010d}", "sharing": "fixed"}
        fill(write.connection, work.claims, id=number, **names, **owner)
        job = {"name": f"job-{number}", "state": "running", "placed_ns": write.now_ns}
        fill(
            write.connection,
            work.jobs,
            id=number,
            public_id=public,
            claim_id=number,
            **job,
            **owner,
        )
        return number

    def release(self, allocation: int) -> None:
        with self.store.write() as write:
            seat = self.seats[allocation]
            if seat.end_s is None:
                self._hold(write, seat.device, -seat.gpu_milli, -seat.memory_mib, -1)
                self.seats[allocation] = replace(seat, end_s=write.now_ns // S)
            self.metering.close_allocation(write, allocation)
            self.fleet.settle_devices(write, [seat.device])
        self.note_spans()

    def resize(self, allocation: int, milli: int, memory_mib: int) -> None:
        """Another size for a held seat; nothing where there is no room for it."""
        with self.store.write() as write:
            seat, now_s = self.seats[allocation], write.now_ns // S
            row = write.execute(sa.select(devices).where(devices.c.id == seat.device)).one()
            more_milli, more_mib = milli - seat.gpu_milli, memory_mib - seat.memory_mib
            if (
                row.used_milli + more_milli > 1000
                or row.used_bytes + more_mib * MIB > row.memory_bytes
            ):
                return
            self._hold(write, seat.device, more_milli, more_mib, 0)
            self.metering.resize_seats(write, allocation, {seat.device: (milli, memory_mib)})
            self.seats[-len(self.seats) - 1] = replace(
                seat, end_s=now_s
            )  # what it was, under a number of its own
            self.seats[allocation] = replace(
                seat, gpu_milli=milli, memory_mib=memory_mib, start_s=now_s
            )

    def _hold(
        self, write: WriteTransaction, device_id: int, milli: int, memory_mib: int, seats: int
    ) -> None:
        values = {
            "used_milli": devices.c.used_milli + milli,
            "used_bytes": devices.c.used_bytes + memory_mib * MIB,
            "shares": devices.c.shares + seats,
        }
        write.execute(devices.update().where(devices.c.id == device_id).values(**values))

    # --- looking -------------------------------------------------------------------------

    def held(self) -> list[int]:
        return [allocation for allocation, seat in self.seats.items() if seat.end_s is None]

    def count(self, table: sa.Table) -> int:
        with self.store.read() as connection:
            return int(
                connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
            )

    def oldest_interval_s(self) -> int | None:
        with self.store.read() as connection:
            oldest: int | None = connection.execute(
                sa.select(sa.func.min(intervals.c.start_s))
            ).scalar_one()
            return oldest

    def now_s(self) -> int:
        return self.metering.read_now_ns() // S


@contextmanager
def begin(engine: sa.Engine) -> Iterator[sa.Connection]:
    """A transaction without a server: SQLite's is ours to begin and to end."""
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        yield connection
        connection.commit()


def fill(connection: sa.Connection, table: sa.Table, **values: Any) -> None:
    """Insert a row; columns that must have a value and were given none get an empty one."""
    empty: dict[type, Any] = {int: 0, str: "", bool: False}
    for column in table.c:
        if not column.nullable and column.server_default is None and column.name not in values:
            values[column.name] = (
                [] if isinstance(column.type, sa.JSON) else empty[column.type.python_type]
            )
    connection.execute(table.insert().values(**values))


def principal(person: int, role: UserRole = UserRole.USER) -> Principal:
    tenant, name = PEOPLE[person]
    return Principal(10 + person, name, TENANT_IDS[tenant], tenant, role)


def _card(index: int) -> DeviceIn:
    return DeviceIn(
        uuid=f"GPU-{index}",
        index=index,
        vendor="nvidia",
        product="NVIDIA L40S",
        model="L40S" if index % 2 == 0 else "T4",
        memory_bytes=CARD_MIB * MIB + 12345,
        simulated=True,
        health="ok",
    )


def _kind(row: Any) -> SpanKind | None:
    if row.state == "observed":
        return "unmanaged"
    if row.state == "lost":
        return "overhead" if row.shares else None
    return "pooled" if row.state == "adopted" and row.health != "failed" else "overhead"


def told_starts(pool: Pool) -> None:
    """Words of three sorts, and what came of them."""
    rows = (("promise", 7, 1), ("head normal hour", 3, 2), ("head high days", 1, 0))
    with pool.store.write() as write:
        for sort, kept, missed in rows:
            write.execute(sa.insert(start_tallies).values(sort=sort, kept=kept, missed=missed))


def report(
    pool: Pool, *by: str, since: float = 0, until: float | None = None, **options: Any
) -> ReportOut:
    """By these words, over seconds counted from the pool's beginning."""
    until_ns = pool.metering.read_now_ns() if until is None else int((START_S + until) * S)
    who = options.pop("who", ADMIN)
    return pool.metering.make_report(who, int((START_S + since) * S), until_ns, by, **options)


def rows(answer: ReportOut, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(getattr(row, column) for column in ("kind", *columns)) for row in answer.rows]


def shared_card(pool: Pool) -> None:
    """ada holds 300 milli for 100 s, cyd 500 milli of the same card for the last 40 of them."""
    ada = pool.grant(0, 0, 300, 8192)
    pool.time.forward(60)
    cyd = pool.grant(2, 0, 500, 16384)
    pool.time.forward(40)
    for allocation in (ada, cyd):
        assert allocation is not None
        pool.release(allocation)
    pool.time.forward(20)


def granted(pool: Pool) -> int:
    held = pool.grant(0, 0, 300, 4096)
    assert held is not None
    return held
