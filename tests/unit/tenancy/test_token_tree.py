"""Which token made which: what ends with a token, and what outlives none."""

from __future__ import annotations

import pytest

from gpupool.base.errors import (
    BadOption,
    NotLoggedIn,
)
from gpupool.wire.people import TokenIn, UserPatch

from .conftest import House


@pytest.mark.parametrize(
    "kind", ["child", "session", "session of a child", "session of a one-time child"]
)
def test_everything_that_a_token_made_ends_with_it(house: House, kind: str) -> None:
    made = house.tenancy.tokens
    house.user("worker", "blue")
    text = house.token("worker")
    minting = house.bearer(text)
    descendant = {
        "child": lambda: made.create(minting, TokenIn()).token,
        "session": lambda: made.login(text).token,
        "session of a child": lambda: made.login(made.create(minting, TokenIn()).token or "").token,
        "session of a one-time child": lambda: (
            made.login(made.create(minting, TokenIn(), once=True).token or "").token
        ),
    }[kind]()
    assert house.bearer(descendant).user == "worker"
    made.revoke(house.owner, minting.token or "")
    for one in (text, descendant):
        with pytest.raises(NotLoggedIn):
            house.bearer(one)


def test_revoking_a_one_time_token_that_was_used_ends_its_session(house: House) -> None:
    once = house.tenancy.tokens.create(house.owner, TokenIn(user="root"), once=True)
    session = house.tenancy.tokens.login(once.token or "").token
    house.tenancy.tokens.revoke(house.owner, once.id)
    with pytest.raises(NotLoggedIn):
        house.bearer(session)


def test_nothing_outlives_the_token_that_made_it(house: House) -> None:
    made = house.tenancy.tokens
    house.user("worker", "blue")
    hour = made.create(house.owner, TokenIn(user="worker", expires_seconds=3600, may_mint=True))
    caller = house.bearer(hour.token)
    assert made.create(caller, TokenIn()).expires_ns == hour.expires_ns
    assert made.create(caller, TokenIn(expires_seconds=60)).expires_ns < (hour.expires_ns or 0)  # type: ignore[operator]
    assert made.login(hour.token or "").expires_ns == hour.expires_ns
    once = made.create(caller, TokenIn(), once=True).token or ""
    assert made.login(once).expires_ns == hour.expires_ns
    with pytest.raises(BadOption, match="1:00:01") as refused:
        made.create(caller, TokenIn(expires_seconds=3601))
    assert refused.value.details["most_seconds"] == 3600


def test_a_token_that_a_tenant_admin_made_before_the_binding_ends_with_it(house: House) -> None:
    made = house.tenancy.tokens
    boss = house.user("boss", "blue", role="tenant-admin")
    house.user("alice", "blue")
    of_boss = made.create(boss, TokenIn(user="alice")).token
    of_admin = made.create(house.owner, TokenIn(user="alice")).token
    session = made.login(of_boss or "").token
    house.tenancy.users.change(house.owner, "alice", UserPatch(run_as="alice"))
    assert house.bearer(of_admin).user == "alice"
    for text in (of_boss, session):
        with pytest.raises(NotLoggedIn):
            house.bearer(text)


@pytest.mark.parametrize("wider", [{"role": "admin"}, {"role": "operator"}, {"tenant": "red"}])
def test_a_token_of_a_tenants_admin_gets_no_wider_rights(
    house: House, wider: dict[str, str]
) -> None:
    house.tenancy.tenants.create(house.owner, "red", None)
    boss = house.user("boss", "blue", role="tenant-admin")
    house.user("alice", "blue")
    own = house.token("alice")
    foreign = house.tenancy.tokens.create(boss, TokenIn(user="alice")).token
    house.tenancy.users.change(house.owner, "alice", UserPatch(role="tenant-admin"))
    assert house.bearer(foreign).user == "alice", "the tenant's admin gives this role too"
    house.tenancy.users.change(house.owner, "alice", UserPatch.model_validate(wider))
    with pytest.raises(NotLoggedIn):
        house.bearer(foreign)
    assert house.bearer(own).user == "alice", "a pool admin made this one"
