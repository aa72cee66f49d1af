"""A visit of a job's pages ends with the login that it was asked for with."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpupool.model.tenant import Principal
from gpupool.tenancy.sessions.cookies import SessionCookie, SiteOrigin
from gpupool.tenancy.sessions.service import IDLE_NS, LONGEST_SECONDS, LoginFacts, OpenedSession
from gpupool.wire.people import UserPatch
from gpupool.workspaces.service import Entrance, has_login, make_visitor
from gpupool.workspaces.visits import Visitor
from tests.unit.tenancy.conftest import House

ENTRANCE = Entrance("j-1", "nb", "agent")
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


@pytest.mark.parametrize("end", [log_out, revoke_token, change_role, disable])
def test_a_visit_from_the_console_ends_with_its_session(
    house: House, end: Callable[[House, OpenedSession, Principal], None]
) -> None:
    opened, caller, visitor = visit(house)
    assert visitor.session == opened.id
    assert is_let_in(house, visitor)
    end(house, opened, caller)
    assert not is_let_in(house, visitor)


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
