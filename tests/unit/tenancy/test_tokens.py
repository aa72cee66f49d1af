"""Tokens: what is kept of them, who may make and end whose, and what a login takes and gives."""

from __future__ import annotations

import dataclasses
import re
import threading

import pytest
import sqlalchemy as sa

from gpupool.base.errors import (
    BadOption,
    NoPermission,
    NotFound,
    NotLoggedIn,
    TokenMayNotMint,
    TokenOfAnAccount,
)
from gpupool.tenancy.tables import tokens
from gpupool.tenancy.token_secrets import is_same_secret, new_secret, parse_token
from gpupool.tenancy.tokens import SESSION_SECONDS
from gpupool.wire.people import TokenIn, UserIn, UserPatch

from .conftest import House


def test_a_token_has_256_random_bits_and_reads_back() -> None:
    asked: list[int] = []

    def randomness(size: int) -> bytes:
        asked.append(size)
        return bytes(range(size))

    secret = new_secret(randomness)
    assert asked == [7, 32]
    assert re.fullmatch(r"gpp_t-[0-9a-z]{10}_[0-9a-f]{64}", secret.text)
    assert parse_token(secret.text) == secret
    assert is_same_secret(secret, secret.sha256)
    assert not is_same_secret(dataclasses.replace(secret, secret="0" * 64), secret.sha256)


@pytest.mark.parametrize(
    "text", ["", "gpp_", "gpp_t-0000000000_", "gpp_t-0000000000_" + "g" * 64, "x" * 10_000, "\0"]
)
def test_what_cannot_be_a_token_is_none(text: str) -> None:
    assert parse_token(text) is None


def test_the_database_never_sees_the_secret(house: House) -> None:
    text = house.token("root")
    secret = text.split("_")[2]
    with house.store.read() as connection:
        rows = connection.execute(sa.select(tokens)).all()
        dump = "\n".join(connection.connection.driver_connection.iterdump())  # type: ignore[union-attr]
    assert secret not in repr(rows)
    assert secret not in dump


def test_a_token_is_shown_once(house: House) -> None:
    house.token("root")
    assert [one.token for one in house.tenancy.tokens.list(house.owner, None, 10).items] == [None]


def test_a_user_makes_tokens_for_itself_and_for_nobody_else(house: House) -> None:
    worker, _ = house.user("worker", "blue"), house.user("mate", "blue")
    assert house.tenancy.tokens.create(worker, TokenIn()).user == "worker"
    with pytest.raises(NoPermission):
        house.tenancy.tokens.create(worker, TokenIn(user="mate"))


def test_a_tenants_admin_makes_no_token_of_an_admin_and_none_outside_its_tenant(
    house: House,
) -> None:
    boss = house.user("boss", "blue", role="tenant-admin")
    house.user("chief", "blue", role="admin")
    house.user("node", "blue", role="agent")
    house.user("other", "red")
    for name in ("chief", "node"):
        with pytest.raises(NoPermission):
            house.tenancy.tokens.create(boss, TokenIn(user=name))
    with pytest.raises(NotFound):
        house.tenancy.tokens.create(boss, TokenIn(user="other"))


def test_a_tenants_admin_does_not_end_an_admins_token(house: House) -> None:
    boss = house.user("boss", "blue", role="tenant-admin")
    house.user("chief", "blue", role="admin")
    of_chief = house.tenancy.tokens.list(house.owner, None, 10, "chief").items[0].id
    with pytest.raises(NoPermission):
        house.tenancy.tokens.revoke(boss, of_chief)


def test_a_token_outside_ones_scope_is_as_absent_as_a_missing_one(house: House) -> None:
    worker = house.user("worker", "blue")
    of_root = parse_token(house.token("root"))
    assert of_root is not None
    for token_id in (of_root.id, "t-0000000000"):
        with pytest.raises(NotFound, match=f"no token '{token_id}'"):
            house.tenancy.tokens.revoke(worker, token_id)
    assert {one.user for one in house.tenancy.tokens.list(worker, None, 10).items} == {"worker"}


def test_a_revoked_token_is_refused_at_once_and_revoking_again_changes_nothing(
    house: House,
) -> None:
    house.user("worker", "blue")
    text = house.token("worker")
    house.tenancy.principal_for_token(text)
    for _ in range(2):
        house.tenancy.tokens.revoke(house.owner, text.split("_")[1])
    with pytest.raises(NotLoggedIn):
        house.tenancy.principal_for_token(text)
    assert [kind for kind, _ in house.events()].count("token.revoked") == 1


def test_a_login_gives_a_session_of_twelve_hours(house: House) -> None:
    house.user("worker", "blue")
    session = house.tenancy.tokens.login(house.token("worker"))
    assert (session.user, session.tenant, session.role) == ("worker", "blue", "user")
    assert session.expires_ns == house.store.clock.now_ns() + SESSION_SECONDS * 10**9
    assert house.tenancy.principal_for_token(session.token).user == "worker"


def test_a_session_does_not_prolong_itself(house: House) -> None:
    session = house.tenancy.tokens.login(house.token("root"))
    with pytest.raises(NotLoggedIn):
        house.tenancy.tokens.login(session.token)


def test_a_one_time_token_logs_in_once_and_does_nothing_else(house: House) -> None:
    once = house.tenancy.tokens.create(house.owner, TokenIn(user="root"), once=True).token or ""
    with pytest.raises(NotLoggedIn):
        house.tenancy.principal_for_token(once)
    house.tenancy.tokens.login(once)
    with pytest.raises(NotLoggedIn):
        house.tenancy.tokens.login(once)


def test_of_many_logins_at_once_with_a_one_time_token_one_succeeds(house: House) -> None:
    once = house.tenancy.tokens.create(house.owner, TokenIn(user="root"), once=True).token or ""
    outcomes: list[bool] = []

    def log_in() -> None:
        try:
            house.tenancy.tokens.login(once)
        except NotLoggedIn:
            outcomes.append(False)
        else:
            outcomes.append(True)

    threads = [threading.Thread(target=log_in) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [False] * 5 + [True]


def test_a_one_time_token_does_not_lie_around(house: House) -> None:
    with pytest.raises(BadOption, match="86400 s"):
        house.tenancy.tokens.create(house.owner, TokenIn(expires_seconds=86401), once=True)
    made = house.tenancy.tokens.create(house.owner, TokenIn(), once=True)
    assert house.sleep(600 * 10**9) == made.expires_ns
    with pytest.raises(NotLoggedIn):
        house.tenancy.tokens.login(made.token or "")


def test_a_disabled_user_does_not_log_in(house: House) -> None:
    house.user("worker", "blue")
    text = house.token("worker")
    house.tenancy.users.change(house.owner, "worker", UserPatch(disabled=True))
    with pytest.raises(NotLoggedIn):
        house.tenancy.tokens.login(text)


def test_a_token_makes_no_token_unless_it_says_so(house: House) -> None:
    house.user("worker", "blue")
    plain = house.bearer(house.tenancy.tokens.create(house.owner, TokenIn(user="worker")).token)
    with pytest.raises(TokenMayNotMint, match="may not make tokens"):
        house.tenancy.tokens.create(plain, TokenIn())
    with pytest.raises(TokenMayNotMint):
        house.tenancy.tokens.create(plain, TokenIn(), once=True)


def test_what_a_token_makes_makes_none_itself_so_that_there_is_an_end(house: House) -> None:
    minting = house.user("worker", "blue")
    with pytest.raises(TokenMayNotMint, match="itself"):
        house.tenancy.tokens.create(minting, TokenIn(may_mint=True))
    child = house.bearer(house.tenancy.tokens.create(minting, TokenIn()).token)
    assert (child.may_mint, child.token is not None) == (False, True)


def test_a_session_may_what_its_token_may(house: House) -> None:
    house.user("worker", "blue")
    for may in (True, False):
        text = house.tenancy.tokens.create(house.owner, TokenIn(user="worker", may_mint=may)).token
        assert house.bearer(house.tenancy.tokens.login(text or "").token).may_mint is may


def test_a_token_ended_while_its_request_was_under_way_makes_nothing(house: House) -> None:
    minting = house.user("worker", "blue")
    house.tenancy.tokens.revoke(house.owner, minting.token or "")
    with pytest.raises(NotLoggedIn):
        house.tenancy.tokens.create(minting, TokenIn())


@pytest.mark.parametrize("binding", ["unix_user", "run_as"])
@pytest.mark.parametrize("once", [False, True])
def test_only_the_account_and_a_pool_admin_make_its_tokens(
    house: House, binding: str, once: bool
) -> None:
    boss = house.user("boss", "blue", role="tenant-admin")
    house.tenancy.users.create(
        house.owner, UserIn(name="alice", tenant="blue", **{binding: "alice"})
    )
    with pytest.raises(TokenOfAnAccount, match="bound to a Unix account"):
        house.tenancy.tokens.create(boss, TokenIn(user="alice"), once=once)
    assert (
        house.tenancy.tokens.create(house.owner, TokenIn(user="alice"), once=once).user == "alice"
    )
    assert house.tenancy.tokens.create(house.peer(1001), TokenIn(), once=once).user == "alice"
