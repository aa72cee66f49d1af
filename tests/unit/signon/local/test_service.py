"""Local accounts: right and wrong passwords, the lock, authenticators, and the rights to set them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sqlalchemy as sa

from gpupool.base.errors import (
    BadOption,
    LoginLocked,
    NoPermission,
    NotFound,
    NotLoggedIn,
    SecretKeyWrong,
    WrongPassword,
)
from gpupool.model.tenant import Principal
from gpupool.signon.local import totp
from gpupool.signon.local.locks import FREE_FAILURES, lock_seconds
from gpupool.signon.tables import passwords
from gpupool.store.database import WriteTransaction
from gpupool.store.secrets.vault import SecretVault
from gpupool.tenancy.logins import LoginGrant
from gpupool.tenancy.sessions.cookies import SessionCookie, SiteOrigin
from gpupool.tenancy.sessions.service import LoginFacts
from gpupool.wire.people import LoginOut, TokenIn, UserIn, UserPatch
from gpupool.wire.signon import PasswordLoginIn
from tests.unit.signon.conftest import Door

PASSWORD = "four words make sentences"


def log_in(door: Door, password: str = PASSWORD, code: str | None = None) -> LoginOut:
    body = PasswordLoginIn(user="carol", password=password, totp=code)
    return door.signon.open_token(body)


@pytest.fixture
def carol(door: Door) -> Principal:
    made = door.user("carol", tenant="nlp")
    door.signon.local.set_password(door.owner, "carol", PASSWORD, None)
    return made


def code_of(door: Door, secret: str) -> str:
    return totp.make_code(secret, door.store.clock.now_ns() // (30 * 10**9))


def test_a_password_opens_a_session(door: Door, carol: Principal) -> None:
    caller = door.bearer(log_in(door).token)
    assert (caller.user, caller.tenant) == ("carol", "nlp")
    assert door.events("signon.login") == [{"provider": "local", "totp": False}]


def test_there_is_no_default_password(door: Door) -> None:
    door.user("carol")
    assert not door.signon.local.has_accounts()
    with pytest.raises(WrongPassword):
        log_in(door, "carol")


def test_wrong_user_and_wrong_password_are_answered_alike(door: Door, carol: Principal) -> None:
    with pytest.raises(WrongPassword) as wrong:
        log_in(door, "something else")
    with pytest.raises(WrongPassword) as unknown:
        door.signon.open_token(PasswordLoginIn(user="nobody", password=PASSWORD))
    assert str(wrong.value) == str(unknown.value)


def test_five_failures_lock_also_the_right_password_until_time_is_over(
    door: Door, carol: Principal
) -> None:
    for _ in range(FREE_FAILURES):
        with pytest.raises(WrongPassword):
            log_in(door, "something else")
    with pytest.raises(LoginLocked) as locked:
        log_in(door)
    assert locked.value.details["retry_after_seconds"] == 30
    assert door.events("user.locked") == [{"failures": 5, "seconds": 30}]
    door.sleep(31)
    assert log_in(door).user == "carol"
    with pytest.raises(WrongPassword):
        log_in(door, "something else")


def test_locks_double_and_have_a_bound() -> None:
    assert [lock_seconds(count) for count in (4, 5, 6, 7, 9, 10, 1000)] == [
        0,
        30,
        60,
        120,
        480,
        900,
        900,
    ]


def test_an_authenticator_counts_once_confirmed_and_each_code_once(
    door: Door, carol: Principal
) -> None:
    secret = door.signon.local.begin_totp(carol, "carol").secret
    assert log_in(door).user == "carol"
    door.signon.local.confirm_totp(carol, "carol", code_of(door, secret))
    with pytest.raises(WrongPassword):
        log_in(door)
    with pytest.raises(WrongPassword):
        log_in(door, code=code_of(door, secret))
    door.sleep(30)
    code = code_of(door, secret)
    assert log_in(door, code=code).user == "carol"
    with pytest.raises(WrongPassword):
        log_in(door, code=code)


def test_without_the_key_of_secrets_a_password_alone_still_logs_in(
    door: Door, carol: Principal
) -> None:
    """A login with an authenticator fails alike for a right and a wrong password."""
    secret = door.signon.local.begin_totp(carol, "carol").secret
    door.signon.local.confirm_totp(carol, "carol", code_of(door, secret))
    with door.store.read() as connection:
        stored = connection.execute(sa.select(passwords.c.totp_secret)).scalar_one()
    assert secret not in stored
    door.user("dave", tenant="nlp")
    door.signon.local.set_password(door.owner, "dave", PASSWORD, None)
    door.sleep(30)
    code = code_of(door, secret)
    vault = door.store.secrets
    door.store.secrets = SecretVault()
    door.store.secrets.begin(door.store)
    body = PasswordLoginIn(user="dave", password=PASSWORD)
    assert door.signon.open_token(body).user == "dave"
    for password in (PASSWORD, "a wrong sentence of words"):
        with pytest.raises(SecretKeyWrong):
            log_in(door, password=password, code=code)
    door.store.secrets = vault
    assert log_in(door, code=code).user == "carol"


def test_a_lost_authenticator_is_removed_by_an_admin_alone(door: Door, carol: Principal) -> None:
    secret = door.signon.local.begin_totp(carol, "carol").secret
    door.signon.local.confirm_totp(carol, "carol", code_of(door, secret))
    with pytest.raises(NoPermission):
        door.signon.local.remove_totp(carol, "carol")
    with pytest.raises(NoPermission):
        door.signon.local.begin_totp(door.owner, "carol")
    door.signon.local.remove_totp(door.owner, "carol")
    assert log_in(door).user == "carol"


def test_a_new_password_ends_sessions_and_needs_the_current_one(
    door: Door, carol: Principal
) -> None:
    session = log_in(door).token
    with pytest.raises(WrongPassword):
        door.signon.local.set_password(carol, "carol", "another good sentence", None)
    door.signon.local.set_password(carol, "carol", "another good sentence", PASSWORD)
    with pytest.raises(NotLoggedIn):
        door.bearer(session)
    with pytest.raises(WrongPassword):
        log_in(door)
    assert log_in(door, "another good sentence").user == "carol"


def test_a_limited_token_makes_no_password(door: Door) -> None:
    door.user("carol")
    made = door.tenancy.tokens.create(
        door.owner, TokenIn(user="carol", may_mint=True, scopes=["read"])
    )
    with pytest.raises(WrongPassword):
        door.signon.local.set_password(door.bearer(made.token or ""), "carol", PASSWORD, None)


def test_others_do_not_set_a_password(door: Door, carol: Principal) -> None:
    dave = door.user("dave", tenant="nlp")
    far = door.user("erin", tenant="vision", role="tenant-admin")
    with pytest.raises(NoPermission):
        door.signon.local.set_password(dave, "carol", PASSWORD, None)
    with pytest.raises(NotFound):
        door.signon.local.set_password(far, "carol", PASSWORD, None)


@pytest.mark.parametrize("password", ["short", "carol likes gpus", "aaaaaaaaaaaaaaaaaaaa"])
def test_a_weak_password_is_refused(password: str, door: Door, carol: Principal) -> None:
    with pytest.raises(BadOption):
        door.signon.local.set_password(door.owner, "carol", password, None)


def test_a_service_account_has_no_password(door: Door) -> None:
    door.user("nightly", tenant="nlp", kind="service")
    with pytest.raises(BadOption, match="service account"):
        door.signon.local.set_password(door.owner, "nightly", PASSWORD, None)


def test_a_disabled_user_does_not_get_in(door: Door, carol: Principal) -> None:
    door.tenancy.users.change(door.owner, "carol", UserPatch(disabled=True))
    with pytest.raises(WrongPassword):
        log_in(door)


@pytest.fixture
def lead(door: Door) -> Principal:
    """The admin of the tenant nlp, which has set the password of its user carol."""
    lead = door.user("lead", tenant="nlp", role="tenant-admin")
    door.tenancy.users.create(door.owner, UserIn(name="carol", tenant="nlp"))
    door.signon.local.set_password(lead, "carol", PASSWORD, None)
    return lead


def in_a_browser(door: Door) -> Principal:
    """Log carol in by the password in a browser: the session has no token."""

    def open_session(write: WriteTransaction, grant: LoginGrant) -> tuple[str, str]:
        facts = LoginFacts("192.0.2.7", "Firefox")
        opened = door.tenancy.sessions.open_session(write, grant, facts)
        return opened.id, opened.cookie

    body = PasswordLoginIn(user="carol", password=PASSWORD)
    cookie = SessionCookie(door.signon.open_session(body, open_session), SiteOrigin(True, "pool"))
    return door.tenancy.session_identity.identify(cookie)


WIDER = [{"role": "admin"}, {"tenant": "vision"}, {"run_as": "alice"}]


@pytest.mark.parametrize("wider", WIDER)
def test_a_password_of_a_tenants_admin_gets_no_wider_rights(
    wider: dict[str, str], door: Door, lead: Principal
) -> None:
    session = log_in(door)
    made = door.tenancy.tokens.create(in_a_browser(door), TokenIn())
    assert door.bearer(made.token or "").user == "carol"
    door.tenancy.users.change(door.owner, "carol", UserPatch.model_validate(wider))
    with pytest.raises(WrongPassword):
        log_in(door)
    for token in (session.token, made.token or ""):
        with pytest.raises(NotLoggedIn):
            door.bearer(token)


@pytest.mark.parametrize("wider", WIDER)
def test_a_password_of_a_pool_admin_stays_with_wider_rights(
    wider: dict[str, str], door: Door, carol: Principal
) -> None:
    door.tenancy.users.change(door.owner, "carol", UserPatch.model_validate(wider))
    assert log_in(door).user == "carol"


def test_a_password_that_was_changed_with_the_one_of_another_stays_foreign(
    door: Door, lead: Principal
) -> None:
    caller = door.bearer(log_in(door).token)
    door.signon.local.set_password(caller, "carol", "another good sentence", PASSWORD)
    door.tenancy.users.change(door.owner, "carol", UserPatch(run_as="alice"))
    with pytest.raises(WrongPassword):
        log_in(door, "another good sentence")


def test_a_password_by_a_token_is_of_the_maker_of_the_token(door: Door) -> None:
    lead = door.user("lead", tenant="nlp", role="tenant-admin")
    door.tenancy.users.create(door.owner, UserIn(name="carol", tenant="nlp"))
    body = TokenIn(user="carol", may_mint=True)
    made = door.tenancy.tokens.create(replace(lead, token=None), body)
    session = door.tenancy.tokens.login(made.token or "").token
    door.signon.local.set_password(door.bearer(session), "carol", PASSWORD, None)
    door.tenancy.users.change(door.owner, "carol", UserPatch(run_as="alice"))
    with pytest.raises(WrongPassword):
        log_in(door)


@pytest.mark.parametrize("act", ["removed", "set"])
def test_what_was_made_with_the_password_of_another_ends_with_it(
    act: str, door: Door, lead: Principal
) -> None:
    made = door.tenancy.tokens.create(in_a_browser(door), TokenIn())
    if act == "removed":
        door.signon.local.remove_password(lead, "carol")
    else:
        door.signon.local.set_password(door.owner, "carol", "another good sentence", None)
    with pytest.raises(NotLoggedIn):
        door.bearer(made.token or "")


def test_a_deleted_user_leaves_no_password_to_the_next_of_its_name(
    door: Door, carol: Principal
) -> None:
    door.tenancy.delete_user(door.owner, "carol")
    door.tenancy.users.create(door.owner, UserIn(name="carol", tenant="vision"))
    with pytest.raises(WrongPassword):
        log_in(door)


def test_a_stolen_session_does_not_remove_the_password_to_set_another(
    door: Door, carol: Principal
) -> None:
    stolen = door.bearer(log_in(door).token)
    with pytest.raises(NoPermission, match="over the network only an admin"):
        door.signon.local.remove_password(stolen, "carol")
    with pytest.raises(WrongPassword):
        door.signon.local.set_password(stolen, "carol", "another good sentence", None)


def test_guesses_of_the_current_password_lock_as_logins_do(door: Door, carol: Principal) -> None:
    stolen = door.bearer(log_in(door).token)
    for _ in range(FREE_FAILURES):
        with pytest.raises(WrongPassword):
            door.signon.local.set_password(stolen, "carol", "another good sentence", "a guess")
    with pytest.raises(LoginLocked):
        door.signon.local.set_password(stolen, "carol", "another good sentence", PASSWORD)
    door.sleep(31)
    door.signon.local.set_password(stolen, "carol", "another good sentence", PASSWORD)


def test_a_limited_token_of_an_admin_gives_no_login_without_limits(
    door: Door, carol: Principal
) -> None:
    door.user("lead", tenant="nlp", role="tenant-admin")
    body = TokenIn(user="lead", scopes=["read", "manage-tenant"])
    made = door.tenancy.tokens.create(door.owner, body)
    with pytest.raises(NoPermission, match="limited to manage-tenant, read"):
        door.signon.local.set_password(door.bearer(made.token or ""), "carol", PASSWORD, None)
