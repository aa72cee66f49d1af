"""The lease of one of two servers, on a real PostgreSQL."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import sqlalchemy as sa

from gpupool.base.errors import (
    ExpiredLease,
    GpupoolError,
    LostLeadership,
    PoolHeldElsewhere,
    ServiceUnavailable,
    StandbyServer,
)
from gpupool.server.migrate import prepare_database
from gpupool.store.database import Store, connect, open_store
from gpupool.store.leadership import LEASE_SECONDS, LeaderLease, find_leader, session_name
from gpupool.store.tables import events, leader
from tests.support.hand_clock import Clock

BUSY_SECONDS = 5.0
#: Of the leases here, in seconds: none ends by itself where the machine stalls for longer than the
#: two of a pool.
LONG_SECONDS = 600.0


class Servers:
    """Servers of one database; `lead` makes another one."""

    def __init__(self, url: str, stack: ExitStack) -> None:
        self._url, self._stack = url, stack
        self.clock = Clock()

    def engine(self, holder: str) -> sa.Engine:
        engine = connect(self._url, busy_seconds=BUSY_SECONDS, name=session_name(holder))
        self._stack.callback(engine.dispose)
        return engine

    def lead(
        self, holder: str, instance: str | None = None, seconds: float = LONG_SECONDS
    ) -> Store:
        engine = self.engine(holder)
        prepare_database(engine, time.time_ns(), f"p-{holder}")
        leading = LeaderLease(
            holder,
            instance or holder,
            f"http://{holder}:8470",
            clock=self.clock,
            lease_seconds=seconds,
        )
        return open_store(engine, holder, busy_seconds=BUSY_SECONDS, leading=leading)

    def expire(self) -> None:
        """As if the leader had not been heard for a lease, by the database's clock."""
        with self.engine("expire").begin() as connection:
            connection.execute(
                leader.update().values(expires_us=leader.c.expires_us - int(LONG_SECONDS * 1e6))
            )


@pytest.fixture
def servers(postgres_url: str) -> Iterator[Servers]:
    with ExitStack() as stack:
        yield Servers(postgres_url, stack)


def lease_of(store: Store) -> LeaderLease:
    assert store.leading is not None
    return store.leading


def say(store: Store, subject: str) -> None:
    with store.write() as write:
        write.event("test.said", subject)


def said(store: Store) -> list[str]:
    with store.read() as connection:
        return list(
            connection.execute(sa.select(events.c.subject).order_by(events.c.seq)).scalars()
        )


def test_a_second_server_is_refused_while_the_lease_holds(servers: Servers) -> None:
    first = servers.lead("a")
    with pytest.raises(
        PoolHeldElsewhere, match=r"http://a:8470 leads for [56]\d\d\.\d s more"
    ) as refusal:
        servers.lead("b")
    assert refusal.value.details == {"leader": "http://a:8470"}
    say(first, "still")
    assert said(first) == ["still"]


def test_an_expired_lease_is_taken_and_the_deposed_server_cannot_write(servers: Servers) -> None:
    first = servers.lead("a")
    say(first, "before")
    servers.expire()
    second = servers.lead("b")
    say(second, "after")
    with pytest.raises(LostLeadership, match="another server has taken this pool"):
        say(first, "too late")
    assert said(second) == ["before", "after"]
    assert (lease_of(first).number, lease_of(second).number) == (1, 2)


def test_a_write_that_the_deposed_server_left_open_is_rolled_back_and_holds_up_nobody(
    servers: Servers,
) -> None:
    first = servers.lead("a")
    successors: list[Store] = []

    def write_half() -> None:
        with first.write() as write:
            write.event("test.said", "half")
            servers.expire()
            successors.append(servers.lead("b"))

    with pytest.raises(ServiceUnavailable):
        write_half()
    (second,) = successors
    say(second, "whole")
    assert said(second) == ["whole"]


def test_the_same_instance_takes_its_own_lease_back_at_once(servers: Servers) -> None:
    servers.lead("a1", instance="a")
    again = servers.lead("a2", instance="a")
    assert lease_of(again).number == 2
    with again.engine.connect() as connection:
        found = find_leader(connection)
    assert found is not None
    assert (found.holder, found.instance) == ("a2", "a")
    assert 0 < found.left_seconds <= LONG_SECONDS


def test_a_renewal_prolongs_the_lease_and_fails_for_good_once_another_leads(
    servers: Servers,
) -> None:
    first = servers.lead("a")
    servers.expire()
    with first.engine.connect() as connection:
        lease_of(first).renew(connection)  # nobody has taken it: what is in memory is still true
        connection.commit()
    with pytest.raises(PoolHeldElsewhere):
        servers.lead("b")
    servers.expire()
    servers.lead("b")
    with first.engine.connect() as connection, pytest.raises(LostLeadership):
        lease_of(first).renew(connection)
    assert not lease_of(first).holds()


def test_a_lease_given_up_is_free_at_once(servers: Servers) -> None:
    first = servers.lead("a")
    with first.engine.begin() as connection:
        lease_of(first).give_up(connection)
    assert lease_of(servers.lead("b")).number == 2


def test_giving_up_does_not_end_the_lease_of_a_successor(servers: Servers) -> None:
    first = servers.lead("a")
    servers.expire()
    servers.lead("b")
    with first.engine.connect() as connection:
        lease_of(first).give_up(connection)
        connection.commit()
    with pytest.raises(PoolHeldElsewhere):
        servers.lead("c")


def test_the_pool_of_a_second_server_is_the_one_of_the_database(servers: Servers) -> None:
    servers.lead("a")
    servers.expire()
    second = servers.lead("b")
    with second.read() as connection:
        assert connection.execute(sa.text("SELECT pool_id FROM pool")).scalar_one() == "p-a"


@pytest.mark.parametrize(("seconds", "refusals"), [(1.7, []), (1.9, [StandbyServer, ExpiredLease])])
def test_a_leader_answers_until_shortly_before_its_lease_ends(
    servers: Servers, seconds: float, refusals: list[type[GpupoolError]]
) -> None:
    lease = lease_of(servers.lead("a", seconds=LEASE_SECONDS))
    servers.clock.now += seconds
    found: list[type[GpupoolError]] = []
    for check in (lease.check_begin, lease.check_answer):
        try:
            check()
        except GpupoolError as error:
            found.append(type(error))
    assert found == refusals
