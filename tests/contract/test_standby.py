"""A standby on a real PostgreSQL: what it looks at, what it does ahead, and how it takes the pool
over."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from gpupool.base.errors import PoolHeldElsewhere, StateNewer
from gpupool.host.leadership.standby import LeaderLookout
from gpupool.host.leadership.store_opening import OpenedPool, open_pool
from gpupool.host.leadership.takeover import CONNECTIONS, WarmPool, is_passing
from gpupool.host.state.directory import PoolMarker, StateDir
from gpupool.store.engines import connect
from gpupool.store.leadership import session_name
from gpupool.store.tables import events, pool
from tests.support.two_servers import until


class House:
    """A leader and the database that a standby watches."""

    def __init__(self, url: str, root: Path) -> None:
        self.url, self.root = url, root
        self.states: list[StateDir] = []
        self.opened: list[OpenedPool] = []
        self.engine = connect(url)

    def state(self, name: str) -> tuple[StateDir, PoolMarker]:
        state = StateDir(self.root / name)
        state.open()
        self.states.append(state)
        return state, PoolMarker(
            "p-house", store=self.url, standby=True, listeners=(f"{name}:8470",)
        )

    def lead(self) -> OpenedPool:
        self.opened.append(open_pool(*self.state("leader")))
        return self.opened[-1]

    def expire(self) -> None:
        """The leader renews no more, and its lease is over."""
        for one in self.opened:
            assert one.keeper is not None
            one.keeper.close()

    def rows(self, query: str) -> list[tuple[object, ...]]:
        with self.engine.connect() as connection:
            return [tuple(row) for row in connection.execute(sa.text(query))]

    def sessions(self, name: str) -> int:
        return len(self.rows(f"SELECT pid FROM pg_stat_activity WHERE application_name = '{name}'"))

    def close(self) -> None:
        for one in self.opened:
            one.services.allocations.close()
            if one.keeper is not None:
                one.keeper.close()
            one.services.store.close()
        for state in self.states:
            state.close()
        self.engine.dispose()


@pytest.fixture
def house(postgres_url: str, tmp_path: Path) -> Iterator[House]:
    made = House(postgres_url, tmp_path)
    try:
        yield made
    finally:
        made.close()


def say(opened: OpenedPool, subject: str) -> None:
    with opened.services.store.write() as write:
        write.event("test.said", subject)


def test_a_standby_prepares_itself_and_writes_nothing(house: House) -> None:
    # The leader's own threads write too: with those ended, only the standby is left.
    house.lead().services.allocations.close()
    everything = [f"SELECT * FROM {table.name} ORDER BY 1" for table in (pool, events)]
    everything.append("SELECT holder, number FROM leader")
    before = [house.rows(query) for query in everything]
    warm = WarmPool(*house.state("standby"))
    asyncio.run(warm.keep_ready())
    assert [house.rows(query) for query in everything] == before
    composed = warm._ready
    assert composed is not None
    assert house.sessions(session_name(composed.holder)) >= CONNECTIONS
    warm.close()
    until(lambda: not house.sessions(session_name(composed.holder)), "the end of its sessions")


@pytest.mark.parametrize("prepared", [True, False])
def test_a_takeover_reads_what_was_written_since(house: House, prepared: bool) -> None:
    first = house.lead()
    warm = WarmPool(*house.state("standby"))
    if prepared:
        asyncio.run(warm.keep_ready())
    say(first, "before the takeover")
    house.expire()
    second = warm.take_over()
    house.opened.append(second)
    say(second, "after")
    assert second.services.store.leading is not None
    assert second.services.store.leading.number == 2
    assert second.services.store.pool_id == "p-house"
    with second.services.store.read() as connection:
        query = (
            sa.select(events.c.subject).where(events.c.kind == "test.said").order_by(events.c.seq)
        )
        assert list(connection.execute(query).scalars()) == ["before the takeover", "after"]
    assert "lease" in second.phases.format_text()


def test_a_standby_that_is_too_early_is_refused_and_leaves_nothing_open(house: House) -> None:
    first = house.lead()
    warm = WarmPool(*house.state("standby"))
    asyncio.run(warm.keep_ready())
    composed = warm._ready
    assert composed is not None
    with pytest.raises(PoolHeldElsewhere) as refusal:
        warm.take_over()
    assert is_passing(refusal.value)
    until(lambda: not house.sessions(session_name(composed.holder)), "the end of its sessions")
    say(first, "still leads")


def test_a_standby_prepared_before_a_newer_version_led_does_not_lead(house: House) -> None:
    house.lead()
    warm = WarmPool(*house.state("standby"))
    asyncio.run(warm.keep_ready())
    house.expire()
    with house.engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(StateNewer) as refusal:
        warm.take_over()
    assert not is_passing(refusal.value)


def test_a_lookout_keeps_one_connection_and_makes_another_when_it_is_ended(house: House) -> None:
    house.lead()
    lookout = LeaderLookout(house.url)
    try:
        pids = []
        for _ in range(3):
            view = lookout.query_leader()
            assert view.leader is not None
            assert not view.may_lead
            pids += house.rows(
                "SELECT pid FROM pg_stat_activity WHERE application_name = 'gpupool standby'"
            )
        assert len(set(pids)) == 1
        with psycopg.connect(house.url.replace("postgresql+psycopg", "postgresql")) as connection:
            connection.execute("SELECT pg_terminate_backend(%s)", pids[0])
        broken = lookout.query_leader()
        assert broken.error
        assert broken.leader is not None  # it is named as long as nothing else is known
        assert not broken.may_lead
        assert not lookout.query_leader().error
    finally:
        lookout.close()
