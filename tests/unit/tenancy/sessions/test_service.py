"""Opening, listing and ending sessions, over a real store."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from gpupool.base.errors import NoPermission, NotFound, NotLoggedIn, NoUnixUser, TokenMayNotMint
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.model.tenant import Principal
from gpupool.tenancy.logins import LoginGrant, find_login_user
from gpupool.tenancy.sessions.cookies import SessionCookie, SiteOrigin
from gpupool.tenancy.sessions.identity import USED_EVERY_NS
from gpupool.tenancy.sessions.service import (
    IDLE_NS,
    IDLE_SECONDS,
    LONGEST_SECONDS,
    MOST_OF_A_USER,
    STORED_NS,
    LoginFacts,
    OpenedSession,
)
from gpupool.tenancy.sessions.tables import sessions
from gpupool.tenancy.tables import users
from gpupool.wire.people import TokenIn, UserPatch
from tests.unit.tenancy.conftest import House

FACTS = LoginFacts("192.0.2.7", "Firefox")
SITE = SiteOrigin(False, "127.0.0.1:8470")
MINUTE_NS = 60 * NANOS_PER_SECOND


def once(house: House, user: str) -> str:
    made = house.tenancy.tokens.create(house.owner, TokenIn(user=user), once=True).token
    assert made is not None
    return made


def log_in(house: House, user: str, **facts: bool) -> OpenedSession:
    where = LoginFacts(FACTS.address, FACTS.browser, **facts)
    return house.tenancy.sessions.log_in(once(house, user), where)


def identify(house: House, session: OpenedSession, *, through_console: bool = False) -> Principal:
    cookie = SessionCookie(session.cookie, SITE, through_console)
    identity = house.tenancy.session_identity
    return identity.peek(cookie) or identity.identify(cookie)


def check_ended(house: House, session: OpenedSession) -> None:
    with pytest.raises(NotLoggedIn):
        identify(house, session)


def test_a_session_that_ended_while_its_request_was_under_way_makes_no_token(house: House) -> None:
    carol = house.user("carol", "blue")
    with house.store.write() as write:
        user = find_login_user(write.connection, carol.user_id)
        opened = house.tenancy.sessions.open_session(write, LoginGrant(user, may_mint=True), FACTS)
    caller = identify(house, opened)
    assert house.tenancy.tokens.create(caller, TokenIn()).user == "carol"
    house.tenancy.sessions.end(house.owner, opened.id)
    with pytest.raises(NotLoggedIn):
        house.tenancy.tokens.create(caller, TokenIn())


def test_a_session_is_its_user_and_the_table_has_only_its_hash(house: House) -> None:
    house.user("carol", "blue", "tenant-admin")
    opened = log_in(house, "carol")
    caller = identify(house, opened)
    assert (caller.user, caller.tenant, caller.role, caller.local) == (
        "carol",
        "blue",
        "tenant-admin",
        False,
    )
    assert caller.session == opened.id
    with house.store.read() as connection:
        row = connection.execute(sa.select(sessions)).one()
    secret = opened.cookie.rpartition("_")[2]
    assert len(secret) == 64
    assert secret not in repr(row)
    assert ("session.opened", opened.id) in house.events()


def test_a_one_time_token_opens_one_session(house: House) -> None:
    house.user("carol")
    text = once(house, "carol")
    house.tenancy.sessions.log_in(text, FACTS)
    with pytest.raises(NotLoggedIn):
        house.tenancy.sessions.log_in(text, FACTS)


def test_a_login_ends_the_session_of_the_cookie_that_the_browser_had(house: House) -> None:
    house.user("carol")
    house.user("mallory")
    planted = log_in(house, "mallory")
    opened = house.tenancy.sessions.log_in(once(house, "carol"), FACTS, planted.cookie)
    assert opened.cookie != planted.cookie
    check_ended(house, planted)
    assert identify(house, opened).user == "carol"


def test_a_session_ends_an_hour_after_its_last_request(house: House) -> None:
    house.user("carol")
    opened = log_in(house, "carol")
    for _ in range(3):
        house.sleep(IDLE_NS - NANOS_PER_SECOND)
        identify(house, opened)
    house.sleep(IDLE_NS)
    check_ended(house, opened)


def test_a_session_ends_twelve_hours_after_its_login_however_much_it_is_used(house: House) -> None:
    house.user("carol")
    opened = log_in(house, "carol")
    assert opened.seconds == LONGEST_SECONDS
    for _ in range(LONGEST_SECONDS * 2 // IDLE_SECONDS - 1):
        house.sleep(IDLE_NS // 2)
        identify(house, opened)
    house.sleep(IDLE_NS // 2)
    check_ended(house, opened)


def test_the_check_of_a_stream_keeps_no_session_alive(house: House) -> None:
    house.user("carol")
    opened = log_in(house, "carol")
    identity = house.tenancy.session_identity
    cookie = SessionCookie(opened.cookie, SITE)
    for _ in range(11):
        house.sleep(5 * MINUTE_NS)
        identity.peek(cookie, note_use=False) or identity.identify(cookie, note_use=False)
    house.sleep(5 * MINUTE_NS)
    check_ended(house, opened)


def test_the_last_use_is_written_at_most_once_a_minute_and_read_from_memory(house: House) -> None:
    house.user("carol")
    opened = log_in(house, "carol")
    identify(house, opened)
    statements: list[str] = []
    sa.event.listen(
        house.store.engine, "before_cursor_execute", lambda *args: statements.append(args[2])
    )
    for _ in range(5):
        house.sleep(USED_EVERY_NS // 6)
        identify(house, opened)
    assert statements == []
    house.sleep(USED_EVERY_NS)
    identify(house, opened)
    assert sum(text.startswith("UPDATE sessions") for text in statements) == 1


@pytest.mark.parametrize(
    "patch",
    [
        UserPatch(role="tenant-admin"),
        UserPatch(role="viewer"),
        UserPatch(tenant="red"),
        UserPatch(disabled=True),
    ],
)
def test_a_change_of_rights_ends_the_sessions_of_a_user(house: House, patch: UserPatch) -> None:
    house.user("other", "red")
    house.user("carol", "blue")
    opened = log_in(house, "carol")
    assert identify(house, opened).user == "carol"
    house.tenancy.users.change(house.owner, "carol", patch)
    check_ended(house, opened)
    house.tenancy.users.change(house.owner, "carol", UserPatch(disabled=False))
    check_ended(house, opened)


def test_a_change_of_nothing_ends_no_session(house: House) -> None:
    house.user("carol", "blue")
    opened = log_in(house, "carol")
    house.tenancy.users.change(house.owner, "carol", UserPatch(role="user", tenant="blue"))
    assert identify(house, opened).user == "carol"


def test_a_deleted_user_has_no_session_when_its_name_comes_back(house: House) -> None:
    house.user("carol")
    opened = log_in(house, "carol")
    house.tenancy.users.delete(house.owner, "carol")
    check_ended(house, opened)
    house.user("carol")
    check_ended(house, opened)


def test_a_session_ends_with_the_token_that_made_its_login(house: House) -> None:
    carol = house.user("carol")
    link = house.tenancy.tokens.create_link(carol)
    opened = house.tenancy.sessions.log_in(link.token or "", FACTS)
    assert identify(house, opened).user == "carol"
    house.tenancy.tokens.revoke(house.owner, carol.token or "")
    check_ended(house, opened)


def test_a_session_of_a_short_token_ends_with_it(house: House) -> None:
    house.user("carol")
    made = house.tenancy.tokens.create(house.owner, TokenIn(user="carol", expires_seconds=90))
    opened = house.tenancy.sessions.log_in(made.token or "", FACTS)
    assert opened.seconds == 90
    identify(house, opened)
    house.sleep(90 * NANOS_PER_SECOND)
    check_ended(house, opened)


def test_a_session_of_a_listener_counts_on_that_listener_alone(house: House) -> None:
    house.user("carol")
    of_console = log_in(house, "carol", through_console=True)
    of_pool = log_in(house, "carol")
    assert identify(house, of_console, through_console=True).user == "carol"
    assert identify(house, of_pool).user == "carol"
    house.sleep(2 * MINUTE_NS)
    check_ended(house, of_console)
    with pytest.raises(NotLoggedIn):
        identify(house, of_pool, through_console=True)


def test_a_closed_listener_takes_its_sessions_with_it(house: House) -> None:
    house.user("carol")
    of_console = log_in(house, "carol", through_console=True)
    of_pool = log_in(house, "carol")
    identify(house, of_console, through_console=True)
    house.tenancy.sessions.end_of_console()
    with pytest.raises(NotLoggedIn):
        identify(house, of_console, through_console=True)
    assert identify(house, of_pool).user == "carol"


def test_a_further_login_ends_the_session_that_was_used_longest_ago(house: House) -> None:
    house.user("carol")
    opened = []
    for _ in range(MOST_OF_A_USER):
        opened.append(log_in(house, "carol"))
        house.sleep(MINUTE_NS)
    identify(house, opened[0])
    log_in(house, "carol")
    assert identify(house, opened[0]).user == "carol"
    check_ended(house, opened[1])
    assert identify(house, opened[2]).user == "carol"


def test_rows_of_old_sessions_are_removed(house: House) -> None:
    house.user("carol")
    log_in(house, "carol")
    house.sleep(STORED_NS + (LONGEST_SECONDS + 1) * NANOS_PER_SECOND)
    log_in(house, "carol")
    with house.store.read() as connection:
        assert len(connection.execute(sa.select(sessions)).all()) == 1


def test_only_the_owner_of_a_session_and_its_admins_see_and_end_it(house: House) -> None:
    carol = house.user("carol", "blue")
    colleague = house.user("dave", "blue")
    lead = house.user("lead", "blue", "tenant-admin")
    stranger = house.user("eve", "red", "tenant-admin")
    opened = log_in(house, "carol")
    listed = house.tenancy.sessions.list
    for caller in (carol, lead, house.owner):
        assert [row.id for row in listed(caller, None, 100).items] == [opened.id]
    for caller in (colleague, stranger):
        assert listed(caller, None, 100).items == []
        with pytest.raises(NotFound):
            house.tenancy.sessions.end(caller, opened.id)
    assert identify(house, opened).user == "carol"
    house.tenancy.sessions.end(lead, opened.id)
    house.tenancy.sessions.end(lead, opened.id)
    check_ended(house, opened)
    assert listed(carol, None, 100).items == []


def test_a_tenants_admin_ends_no_session_of_a_pool_admin(house: House) -> None:
    house.user("chief", "blue", "admin")
    lead = house.user("lead", "blue", "tenant-admin")
    opened = log_in(house, "chief")
    with pytest.raises(NoPermission):
        house.tenancy.sessions.end(lead, opened.id)
    assert identify(house, opened).user == "chief"


def test_a_session_makes_tokens_only_where_its_login_could(house: House) -> None:
    house.user("carol")
    caller = identify(house, log_in(house, "carol"))
    with pytest.raises(TokenMayNotMint):
        house.tenancy.tokens.create(caller, TokenIn())
    link = house.tenancy.tokens.create_link(house.owner)
    owner = identify(house, house.tenancy.sessions.log_in(link.token or "", FACTS))
    made = house.tenancy.tokens.create(owner, TokenIn(label="laptop"))
    assert made.user == house.owner.user
    # As any token, it ends with what made it.
    house.tenancy.tokens.revoke(house.owner, link.id)
    with pytest.raises(NotLoggedIn):
        house.bearer(made.token)


def test_another_way_of_signing_on_opens_a_session_without_a_token(house: House) -> None:
    carol = house.user("carol")
    with house.store.write() as write:
        grant = LoginGrant(find_login_user(write.connection, carol.user_id), may_mint=True)
        opened = house.tenancy.sessions.open_session(write, grant, FACTS)
    caller = identify(house, opened)
    assert (caller.user, caller.token) == ("carol", None)
    assert house.tenancy.tokens.create(caller, TokenIn()).user == "carol"


def test_a_link_of_the_account_itself_runs_jobs_as_it(house: House) -> None:
    alice = house.peer(1001)
    link = house.tenancy.tokens.create_link(alice, 1001).token or ""
    caller = identify(house, house.tenancy.sessions.log_in(link, FACTS))
    assert house.tenancy.run_as(caller, None).uid == 1001
    # What the session makes does not hand the account on.
    made = house.tenancy.tokens.create_link(caller)
    second = identify(house, house.tenancy.sessions.log_in(made.token or "", FACTS))
    token = house.tenancy.tokens.create(caller, TokenIn()).token
    for other in (second, house.bearer(token)):
        with pytest.raises(NoUnixUser):
            house.tenancy.run_as(other, None)


def test_a_link_for_another_user_runs_no_job(house: House) -> None:
    house.peer(1001)
    caller = identify(house, log_in(house, "alice"))
    with pytest.raises(NoUnixUser):
        house.tenancy.run_as(caller, None)


def test_an_account_that_an_admin_bound_wins_over_that_of_the_link(house: House) -> None:
    alice = house.peer(1001)
    house.tenancy.users.change(house.owner, "alice", UserPatch(run_as="bob"))
    link = house.tenancy.tokens.create_link(alice, 1001).token or ""
    caller = identify(house, house.tenancy.sessions.log_in(link, FACTS))
    assert house.tenancy.run_as(caller, None).uid == 1002


@pytest.mark.parametrize("through_console", [True, False])
def test_a_link_of_root_runs_as_root_on_the_consoles_own_listener_alone(
    house: House, through_console: bool
) -> None:
    root = house.peer(0)
    link = house.tenancy.tokens.create_link(root, 0).token or ""
    facts = LoginFacts(FACTS.address, FACTS.browser, through_console)
    opened = house.tenancy.sessions.log_in(link, facts)
    caller = identify(house, opened, through_console=through_console)
    if through_console:
        assert house.tenancy.run_as(caller, None).uid == 0
    else:
        with pytest.raises(NoUnixUser):
            house.tenancy.run_as(caller, None)


def test_a_session_loses_the_account_that_is_no_longer_its_users(house: House) -> None:
    alice = house.peer(1001)
    link = house.tenancy.tokens.create_link(alice, 1001).token or ""
    opened = house.tenancy.sessions.log_in(link, FACTS)
    assert house.tenancy.run_as(identify(house, opened), None).uid == 1001
    with house.store.write() as write:
        write.execute(users.update().where(users.c.unix_uid == 1001).values(unix_uid=1999))
        write.announce("people")
    with pytest.raises(NoUnixUser):
        house.tenancy.run_as(identify(house, opened), None)
