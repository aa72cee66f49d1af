"""The lease to lead, by the leader's own clock; takeovers on PostgreSQL are tested elsewhere."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from gpupool.base.errors import ExpiredLease, LostLeadership, StandbyServer
from gpupool.store.leadership import (
    LEASE_SECONDS,
    MARGIN_SECONDS,
    LeaderLease,
    LeaderRecord,
    describe_leader,
    find_leader,
    session_name,
)
from tests.support.hand_clock import Clock


class LeaseTable:
    """Stands for a session on PostgreSQL whose updates find so many rows."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.statements = list[Any]()

    def execute(self, statement: Any) -> SimpleNamespace:
        self.statements.append(statement)
        return SimpleNamespace(rowcount=self.rows)


@pytest.fixture
def clock() -> Clock:
    return Clock(now=1000.0)


@pytest.fixture
def lease(clock: Clock) -> LeaderLease:
    return LeaderLease("here", "i-1", "tcp://10.0.0.1:7600", clock=clock)


def renew(lease: LeaderLease, rows: int = 1) -> None:
    lease.renew(LeaseTable(rows))  # type: ignore[arg-type]


def test_a_lease_that_was_never_taken_begins_and_answers_nothing(lease: LeaderLease) -> None:
    assert (lease.holds(), lease.age_seconds()) == (False, None)
    with pytest.raises(StandbyServer, match="has been given to another; nothing was done"):
        lease.check_begin()
    with pytest.raises(ExpiredLease, match="it may have been carried out"):
        lease.check_answer()


def test_a_leader_ends_its_lease_a_margin_before_the_database_does(
    lease: LeaderLease, clock: Clock
) -> None:
    renew(lease)
    clock.now += LEASE_SECONDS - MARGIN_SECONDS - 0.01
    assert lease.holds()
    lease.check_answer()
    clock.now += 0.02
    assert not lease.holds()
    with pytest.raises(StandbyServer, match=r"its lease of 2 s was renewed 1\.8 s ago"):
        lease.check_begin()


def test_a_renewal_counts_from_before_it_was_sent(lease: LeaderLease, clock: Clock) -> None:
    class SlowTable(LeaseTable):
        def execute(self, statement: Any) -> SimpleNamespace:
            clock.now += 1.5
            return super().execute(statement)

    lease.renew(SlowTable(1))  # type: ignore[arg-type]
    assert lease.age_seconds() == pytest.approx(1.5)
    clock.now += 0.5
    renew(lease)
    assert (lease.holds(), lease.longest_gap_seconds) == (True, pytest.approx(2.0))


def test_a_lease_that_another_has_taken_is_lost_for_good(lease: LeaderLease) -> None:
    renew(lease)
    with pytest.raises(LostLeadership, match="another server has taken this pool"):
        renew(lease, rows=0)
    assert not lease.holds()
    renew(lease)
    assert not lease.holds(), "a later renewal brings nothing back"


def test_a_lease_that_was_given_up_leads_no_more(lease: LeaderLease) -> None:
    renew(lease)
    table = LeaseTable(1)
    lease.give_up(table)  # type: ignore[arg-type]
    assert not lease.holds()
    assert len(table.statements) == 1
    with pytest.raises(StandbyServer, match="has been given to another"):
        lease.check_begin()


def test_a_leader_is_described_with_the_seconds_that_are_left() -> None:
    for left, said in ((1.26, "1.3"), (-5.0, "0.0")):
        found = describe_leader(LeaderRecord("there", "i-2", 4, "tcp://b:7600", left))
        assert f"tcp://b:7600 leads for {said} s more" in found.message
        assert found.details["leader"] == "tcp://b:7600"


def test_a_database_that_is_no_postgresql_names_no_leader() -> None:
    with sa.create_engine("sqlite://").connect() as connection:
        assert find_leader(connection) is None
    assert session_name("here") == "gpupool here"
