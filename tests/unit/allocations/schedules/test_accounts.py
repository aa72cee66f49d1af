"""The jobs of a schedule run as its owner's Unix account of now, and as no other owner's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.base.errors import NoUnixUser
from gpupool.model.tenant import Principal
from gpupool.tenancy.access import PeerProcess
from gpupool.tenancy.identity import CallerIdentity
from gpupool.wire.chains.schedules import ScheduleChangeIn
from gpupool.wire.leavers.handover import HandoverIn
from tests.support.house import House
from tests.support.unix_users import GROUPS, UnixUsers, make_peer
from tests.unit.allocations.schedules.test_runner import Calendar


class Accounts(Calendar):
    """Schedules of users with Unix accounts."""

    def __init__(self, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(house, monkeypatch)
        users = UnixUsers(house)
        self.user = users.user
        self.bearer = users.bearer
        self.bind = users.bind
        self._read_account = users.read_account

    def add_as(self, who: Principal, peer: PeerProcess | None = None, **more: Any) -> None:
        """Add a schedule as the route does."""
        self.add(who=who, run_as=self.house.tenancy.run_as(who, peer), **more)

    def read_last_account(self) -> dict[str, Any]:
        """Read what the last job of the schedule runs as."""
        return self._read_account(str(self.last_job()))


@pytest.fixture
def calendar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Accounts]:
    # In a pool of one user every job is of one account.
    monkeypatch.setattr(CallerIdentity, "own_pool", False)
    house = House(tmp_path)
    yield Accounts(house, monkeypatch)
    house.close()


def test_a_schedule_follows_the_account_that_its_owner_runs_as(calendar: Accounts) -> None:
    calendar.add_as(calendar.user("ann", run_as="daemon"), overlap="queue")
    calendar.come()
    assert calendar.read_last_account()["name"] == "daemon"
    calendar.bind("ann", run_as="bin")
    calendar.come()
    expected = calendar.house.tenancy.run_as(calendar.bearer("ann"), None)
    assert calendar.read_last_account() == expected.model_dump(mode="json")
    assert expected.name == "bin"


def test_a_schedule_of_an_unbound_owner_is_refused_as_a_submission(calendar: Accounts) -> None:
    calendar.add_as(calendar.user("ann", run_as="daemon"))
    calendar.bind("ann", run_as=None)
    calendar.come()
    (run,) = calendar.house.allocations.schedules.list_runs("nightly", calendar.house.admin, 9)
    with pytest.raises(NoUnixUser) as refused:
        calendar.house.tenancy.run_as(calendar.bearer("ann"), None)
    assert (run.outcome, run.text) == ("refused", str(refused.value))
    calendar.bind("ann", run_as="bin")
    calendar.come()
    assert calendar.outcomes() == ["refused", "submitted"]


def test_a_schedule_of_the_machine_follows_its_owners_account(calendar: Accounts) -> None:
    peer = make_peer("daemon")
    calendar.user("ann", unix_user="daemon")
    on_machine = calendar.house.tenancy.principal_for_peer(peer)
    calendar.add_as(on_machine, peer, overlap="queue")
    calendar.come()
    assert calendar.read_last_account()["groups"] == list(GROUPS)
    calendar.bind("ann", unix_user="bin")
    calendar.come()
    assert calendar.read_last_account()["name"] == "bin"
    calendar.bind("ann", unix_user=None)
    calendar.come()
    assert calendar.outcomes() == ["submitted", "submitted", "refused"]


def test_a_schedule_by_another_users_token_keeps_the_account_that_added_it(
    calendar: Accounts,
) -> None:
    peer = make_peer("daemon")
    calendar.user("nightly-runs", kind="service")
    calendar.add_as(calendar.bearer("nightly-runs", peer), peer)
    calendar.come()
    assert calendar.outcomes() == ["submitted"]
    assert calendar.read_last_account()["name"] == "daemon"


def test_a_schedule_gets_no_account_back_by_a_handover(calendar: Accounts) -> None:
    calendar.add_as(calendar.user("ann", run_as="daemon"))
    calendar.user("bob")
    calendar.bind("ann", run_as=None)
    handovers = calendar.house.allocations.handovers
    done = handovers.hand_over(calendar.house.admin, "ann", HandoverIn(to="bob"))
    (unit,) = done.units
    assert (done.handed, unit.refusal) == (
        0,
        "its owner has no Unix account any more, so it starts no job",
    )


def test_a_schedule_that_was_handed_over_never_runs_as_the_new_owners_account(
    calendar: Accounts,
) -> None:
    house = calendar.house
    calendar.add_as(calendar.user("ann", run_as="daemon"), overlap="queue")
    bob = calendar.user("bob", run_as="bin")
    # What it ran as the moment before it goes on running as.
    calendar.bind("ann", run_as="sys")
    body = HandoverIn(to="bob")
    assert house.allocations.handovers.hand_over(house.admin, "ann", body).handed == 1
    calendar.bind("bob", run_as="games")
    calendar.come()
    assert calendar.read_last_account()["name"] == "sys"
    # A job of its own runs as its own account, and follows it.
    found = house.allocations.schedules.get("nightly", bob)
    same = found.model_dump(include=set(ScheduleChangeIn.model_fields))
    change = ScheduleChangeIn.model_validate(same)
    run_as = house.tenancy.run_as(calendar.bearer("bob"), None)
    house.allocations.schedules.change("nightly", change, bob, run_as, None)
    calendar.bind("bob", run_as="bin")
    calendar.come()
    assert calendar.read_last_account()["name"] == "bin"
