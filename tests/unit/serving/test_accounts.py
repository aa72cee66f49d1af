"""A replica runs as the Unix account that the owner of its service has when it starts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.base.errors import NoUnixUser
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.model.tenant import Principal
from gpupool.serving.replicas import READY, WANTED
from gpupool.tenancy.access import PeerProcess
from gpupool.tenancy.identity import CallerIdentity
from tests.support.shop import Shop
from tests.support.unix_users import GROUPS, UnixUsers, make_peer


class Accounts(Shop):
    """Services of users with Unix accounts."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.users = UnixUsers(self.house)

    def add_as(self, who: Principal, peer: PeerProcess | None = None) -> None:
        """Create a service as the route does."""
        self.add(who=who, run_as=self.house.tenancy.run_as(who, peer))

    def replace_replica(self, number: int) -> None:
        """Let a replica end by itself, after it has served for a while."""
        self.ahead_ns += 61 * NANOS_PER_SECOND
        self.house.finish(f"web-{number}", exit_code=3)
        self.settle()

    def read_account(self, number: int) -> dict[str, Any]:
        return self.users.read_account(self.house.job(f"web-{number}").id)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Accounts]:
    # In a pool of one user every job is of one account.
    monkeypatch.setattr(CallerIdentity, "own_pool", False)
    made = Accounts(tmp_path)
    yield made
    made.house.close()


def test_a_replica_follows_the_account_that_its_owner_runs_as(shop: Accounts) -> None:
    shop.add_as(shop.users.user("ann", run_as="daemon"))
    shop.settle()
    assert shop.read_account(1)["name"] == "daemon"
    shop.users.bind("ann", run_as="bin")
    shop.replace_replica(1)
    expected = shop.house.tenancy.run_as(shop.users.bearer("ann"), None)
    assert shop.read_account(2) == expected.model_dump(mode="json")
    assert expected.name == "bin"


def test_a_replica_of_an_unbound_owner_is_refused_as_a_submission(shop: Accounts) -> None:
    shop.add_as(shop.users.user("ann", run_as="daemon"))
    shop.settle()
    shop.users.bind("ann", run_as=None)
    shop.replace_replica(1)
    assert (shop.states(), shop.live_jobs()) == ([WANTED], 0)
    with pytest.raises(NoUnixUser) as refused:
        shop.house.tenancy.run_as(shop.users.bearer("ann"), None)
    assert shop.sight().service.reason == str(refused.value)
    assert str(refused.value) in shop.get().explain
    shop.users.bind("ann", run_as="bin")
    shop.ahead_ns += 10 * NANOS_PER_SECOND
    shop.settle()
    assert shop.states() == [READY]
    assert shop.read_account(2)["name"] == "bin"


def test_a_replica_of_the_machine_follows_its_owners_account(shop: Accounts) -> None:
    peer = make_peer("daemon")
    shop.users.user("ann", unix_user="daemon")
    shop.add_as(shop.house.tenancy.principal_for_peer(peer), peer)
    shop.settle()
    assert shop.read_account(1)["groups"] == list(GROUPS)
    shop.users.bind("ann", unix_user="bin")
    shop.replace_replica(1)
    assert shop.read_account(2)["name"] == "bin"


def test_a_replica_by_another_users_token_keeps_the_account_that_added_its_service(
    shop: Accounts,
) -> None:
    peer = make_peer("daemon")
    shop.users.user("model-server", kind="service")
    shop.add_as(shop.users.bearer("model-server", peer), peer)
    shop.settle()
    shop.replace_replica(1)
    assert shop.read_account(2)["name"] == "daemon"
