"""Who may have another connection: bounds by source, a reserve for root and the owner, the last
ones for the agent."""

from __future__ import annotations

import os

import pytest

from gpupool.base.errors import PoolFull, TooManyConnections
from gpupool.host.settings.connection_limits import read_caller_limit
from gpupool.server.http.connections import ConnectionLimits, OpenConnections
from gpupool.tenancy.access import PeerProcess

LIMITS = ConnectionLimits(total=100, per_source=20, reserve=30, of_agent=10)
OWNER = 4000


def peer(uid: int, pid: int = 1) -> PeerProcess:
    return PeerProcess(pid, uid, uid, ())


def opened(
    connections: OpenConnections, who: PeerProcess | None, address: str = "", most: int = 1000
) -> int:
    """How many this caller gets."""
    count = 0
    while count < most and connections.admit(who, address) is None:
        count += 1
    return count


def test_an_account_has_so_many_and_the_refusal_says_how_many() -> None:
    connections = OpenConnections(LIMITS, OWNER)
    assert opened(connections, peer(1001)) == 20
    refused = connections.admit(peer(1001), "")
    assert isinstance(refused, TooManyConnections)
    assert (refused.details["open"], refused.details["most"]) == (20, 20)
    assert connections.admit(peer(1002), "") is None


def test_what_ends_may_come_again() -> None:
    connections = OpenConnections(LIMITS, OWNER)
    opened(connections, peer(1001))
    connections.note_end(peer(1001), "")
    assert opened(connections, peer(1001)) == 1
    for _ in range(20):
        connections.note_end(peer(1001), "")
    assert (connections.open, connections._by_source) == (0, {})


@pytest.mark.parametrize("uid", [0, OWNER])
def test_however_many_callers_there_are_root_and_the_owner_get_in(uid: int) -> None:
    connections = OpenConnections(LIMITS, OWNER)
    assert sum(opened(connections, peer(1000 + n)) for n in range(10)) == 70
    assert isinstance(connections.admit(peer(2000), ""), PoolFull)
    assert opened(connections, peer(uid)) == 20
    assert opened(connections, peer(OWNER, os.getpid())) == 10, "the last are the embedded agent's"
    assert isinstance(connections.admit(peer(OWNER, os.getpid()), ""), PoolFull)


def test_doctor_says_when_callers_find_no_connection_free() -> None:
    connections = OpenConnections(LIMITS, OWNER)
    states = []
    for n in range(4):
        states.append(connections.check().state)
        opened(connections, peer(1000 + n))
    states.append(connections.check().state)
    assert states == ["ok", "ok", "ok", "warn", "fail"]
    assert "70 of 70 connections open" in connections.check().text


def test_the_network_takes_half_of_what_is_not_reserved() -> None:
    connections = OpenConnections(LIMITS, OWNER)
    assert opened(connections, None, "192.0.2.1") == 20
    assert [opened(connections, None, f"192.0.2.{n}") for n in (2, 3, 4)] == [15, 0, 0]
    assert opened(connections, peer(1001)) == 20


@pytest.mark.parametrize("descriptors", [128, 1024, 4096, 65536])
def test_the_bounds_fit_into_the_descriptors_and_into_each_other(descriptors: int) -> None:
    limits = ConnectionLimits.within(descriptors)
    assert limits.of_agent < limits.reserve < limits.total
    assert limits.per_source <= limits.total - limits.reserve
    assert limits.total <= max(128, descriptors)


@pytest.mark.parametrize("text", ["0", "15", "-1", "many", "1e3", "123456"])
def test_a_bound_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(Exception, match="GPUPOOL_CONNECTIONS_PER_CALLER"):
        read_caller_limit({"GPUPOOL_CONNECTIONS_PER_CALLER": text})
