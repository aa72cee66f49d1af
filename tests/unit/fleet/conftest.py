"""A real store for the fleet, on SQLite, with a clock that the test moves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from gpupool.base.clock import LedgerClock
from gpupool.fleet.service import FleetService
from gpupool.fleet.tables import device_spans, devices
from gpupool.model.tenant import Principal, UserRole
from gpupool.store.database import Store, connect, sqlite_url
from gpupool.store.tables import events, pool
from gpupool.wire.fleet import DeviceIn, NodeIn
from tests.support.empty_databases import make_tables

ADMIN = Principal(1, "root", 1, "default", UserRole.ADMIN)
USER = Principal(2, "ann", 2, "lab", UserRole.USER)
AGENT = Principal(3, "node", 1, "default", UserRole.AGENT)
GIB = 1 << 30
S = 10**9
START_NS = 1_700_000_000 * S


class Time:
    """Nanoseconds since boot, moved by hand."""

    def __init__(self) -> None:
        self.boot_ns = 0

    def forward(self, seconds: float) -> None:
        self.boot_ns += int(seconds * S)


class House:
    """The fleet and what a test asks of its database."""

    def __init__(self, store: Store, time: Time) -> None:
        self.store, self.time, self.fleet = store, time, FleetService(store)

    def events(self, kind: str | None = None) -> list[Any]:
        with self.store.read() as connection:
            rows = connection.execute(sa.select(events).order_by(events.c.seq)).all()
        return [row for row in rows if kind in (None, row.kind)]

    def rows(self) -> dict[str, Any]:
        with self.store.read() as connection:
            return {row.uuid: row for row in connection.execute(sa.select(devices))}

    def spans(self, uuid: str) -> list[tuple[str, int, int | None]]:
        """(kind, start, end) in seconds since the test began."""
        begin = START_NS // S
        query = (
            sa.select(device_spans)
            .join(devices)
            .where(devices.c.uuid == uuid)
            .order_by(device_spans.c.id)
        )
        with self.store.read() as connection:
            return [
                (row.kind, row.start_s - begin, None if row.end_s is None else row.end_s - begin)
                for row in connection.execute(query)
            ]

    def generation(self) -> int:
        with self.store.read() as connection:
            return int(connection.execute(sa.select(pool.c.generation)).scalar_one())

    def sit(self, uuid: str, milli: int = 300, size: int = GIB) -> int:
        """Take a seat on a card, as allocations does."""
        with self.store.write() as write:
            values = {
                "used_milli": milli,
                "used_bytes": size,
                "shares": 1,
                "generation": devices.c.generation + 1,
            }
            write.execute(devices.update().where(devices.c.uuid == uuid).values(**values))
        return int(self.rows()[uuid].id)

    def leave(self, uuid: str) -> None:
        """Give the seat back, as allocations does."""
        with self.store.write() as write:
            values = {
                "used_milli": 0,
                "used_bytes": 0,
                "shares": 0,
                "generation": devices.c.generation + 1,
            }
            write.execute(devices.update().where(devices.c.uuid == uuid).values(**values))
            self.fleet.settle_devices(write, [self.rows_in(write, uuid)])

    @staticmethod
    def rows_in(write: Any, uuid: str) -> int:
        return int(
            write.execute(sa.select(devices.c.id).where(devices.c.uuid == uuid)).scalar_one()
        )


def card(number: int, **changes: Any) -> DeviceIn:
    facts = {
        "uuid": f"GPU-{number}",
        "index": number,
        "vendor": "nvidia",
        "product": "NVIDIA L40S",
        "model": "L40S",
        "memory_bytes": 48 * GIB,
        "simulated": True,
        "health": "ok",
    }
    return DeviceIn(**{**facts, **changes})


def real(number: int, **changes: Any) -> DeviceIn:
    return card(number, simulated=False, **changes)


def node(*cards: DeviceIn, **changes: Any) -> NodeIn:
    simulated = all(one.simulated for one in cards)
    return NodeIn(**{"devices": list(cards), "simulated": simulated, "adopt": True, **changes})


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    engine = connect(sqlite_url(tmp_path / "gpupool.db"))
    make_tables(engine)
    time = Time()
    row = {"id": 1, "pool_id": "p", "holder": "", "event_seq": 0, "generation": 0, "ledger_ns": 0}
    with engine.begin() as connection:
        connection.exec_driver_sql("BEGIN")
        connection.execute(pool.insert(), row)
        connection.commit()
    store = Store(engine, LedgerClock(wall=lambda: START_NS, boot=lambda: time.boot_ns))
    store.take("test")
    yield House(store, time)
    engine.dispose()
