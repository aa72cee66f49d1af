"""A visit of a job's pages ends with the login that it was asked for with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from gpupool.model.tenant import Principal
from gpupool.signon.local.passwords import PasswordHashes
from gpupool.signon.local.service import LocalLogins
from gpupool.tenancy.sessions.cookies import SessionCookie, SiteOrigin
from gpupool.tenancy.sessions.service import IDLE_NS, LONGEST_SECONDS, LoginFacts, OpenedSession
from gpupool.wire.people import UserPatch
from gpupool.workspaces.service import Entrance, has_login, make_visitor
from gpupool.workspaces.visits import VisitBook, Visitor
from tests.unit.tenancy.conftest import House

ENTRANCE = Entrance("j-1", "nb", "agent")
PASSWORD = "correct horse battery staple"
SITE = SiteOrigin(False, "127.0.0.1:8470")


def visit(house: House) -> tuple[OpenedSession, Principal, Visitor]:
    """Open a session of carol by a link, and ask for a page."""
    carol = house.user("carol", "blue")
    link = house.tenancy.tokens.create_link(carol)
    opened = house.tenancy.sessions.log_in(link.token or "", LoginFacts("192.0.2.7", "Firefox"))
    caller = house.tenancy.session_identity.identify(SessionCookie(opened.cookie, SITE))
    return opened, caller, make_visitor(ENTRANCE, caller)


def is_let_in(house: House, visitor: Visitor) -> bool:
    with house.store.read() as connection:
        return has_login(connection, visitor, house.store.clock.now_ns())


def log_out(house: House, opened: OpenedSession, caller: Principal) -> None:
    house.tenancy.sessions.log_out(opened.cookie)


def revoke_token(house: House, opened: OpenedSession, caller: Principal) -> None:
    # The link's own token is used up; the one that made the link is what the person has.
    for token in house.tenancy.tokens.list(house.owner, None, 100, "carol").items:
        house.tenancy.tokens.revoke(house.owner, token.id)


def change_role(house: House, opened: OpenedSession, caller: Principal) -> None:
    house.tenancy.users.change(house.owner, "carol", UserPatch(role="viewer"))


def disable(house: House, opened: OpenedSession, caller: Principal) -> None:
    house.tenancy.users.change(house.owner, "carol", UserPatch(disabled=True))


def change_password(house: House, opened: OpenedSession, caller: Principal) -> None:
    # By the user itself, from another browser: the session of the change goes on.
    carol = replace(caller, session="s-other", may_mint=True)
    make_local_logins(house).set_password(carol, "carol", PASSWORD, None)


def set_password_by_admin(house: House, opened: OpenedSession, caller: Principal) -> None:
    make_local_logins(house).set_password(house.owner, "carol", PASSWORD, None)


def make_local_logins(house: House) -> LocalLogins:
    hashes = PasswordHashes(passes=1, memory_kib=8 * 8)
    return LocalLogins(house.store, house.tenancy.tokens, hashes)


@pytest.mark.parametrize(
    "end",
    [log_out, revoke_token, change_role, disable, change_password, set_password_by_admin],
)
def test_a_visit_from_the_console_ends_with_its_session(
    house: House, end: Callable[[House, OpenedSession, Principal], None]
) -> None:
    opened, caller, visitor = visit(house)
    assert visitor.session == opened.id
    # As a browser: the link is taken once, and what counts from then on is the cookie.
    book = VisitBook(b"k" * 32, house.store.clock.now_ns)
    cookie = book.make_cookie(book.take_link(book.make_link(visitor)[0]))
    assert book.read_cookie(cookie) == visitor
    assert is_let_in(house, book.read_cookie(cookie))
    end(house, opened, caller)
    assert not is_let_in(house, book.read_cookie(cookie))


def test_a_visit_goes_on_in_the_session_that_changes_the_password(house: House) -> None:
    _, caller, visitor = visit(house)
    make_local_logins(house).set_password(replace(caller, may_mint=True), "carol", PASSWORD, None)
    assert is_let_in(house, visitor)


def test_a_visit_outlasts_an_hour_without_the_console_and_no_working_day(house: House) -> None:
    _, _, visitor = visit(house)
    house.sleep(IDLE_NS + 1)
    assert is_let_in(house, visitor)
    house.sleep(LONGEST_SECONDS * 10**9)
    assert not is_let_in(house, visitor)


def test_a_visit_by_a_token_ends_with_the_token(house: House) -> None:
    carol = house.user("carol", "blue")
    visitor = make_visitor(ENTRANCE, carol)
    assert (visitor.token, visitor.session) == (carol.token, None)
    assert is_let_in(house, visitor)
    house.tenancy.tokens.revoke(house.owner, carol.token or "")
    assert not is_let_in(house, visitor)
