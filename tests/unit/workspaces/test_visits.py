"""Links work once and cookies for their time; nothing that was altered is taken."""

from __future__ import annotations

import pytest

from gpupool.base.errors import NotLoggedIn
from gpupool.workspaces.visits import COOKIE_NS, LINK_NS, VisitBook, Visitor

KEY = b"k" * 32
ADA = Visitor("j-1", 7, "t-1")


class Clock:
    def __init__(self) -> None:
        self.now_ns = 10**18

    def __call__(self) -> int:
        return self.now_ns


def test_take_link_twice_is_refused() -> None:
    book = VisitBook(KEY, Clock())
    link, _ = book.make_link(ADA)
    assert book.take_link(link) == ADA
    with pytest.raises(NotLoggedIn, match="opened before"):
        book.take_link(link)


def test_take_link_of_an_earlier_start_is_refused() -> None:
    clock = Clock()
    link, _ = VisitBook(KEY, clock).make_link(ADA)
    with pytest.raises(NotLoggedIn, match="restarted"):
        VisitBook(KEY, clock).take_link(link)


def test_cookies_outlast_a_restart_and_end_with_their_time() -> None:
    clock = Clock()
    cookie = VisitBook(KEY, clock).make_cookie(ADA)
    later = VisitBook(KEY, clock)
    assert later.read_cookie(cookie) == ADA
    clock.now_ns += COOKIE_NS
    with pytest.raises(NotLoggedIn, match="expired"):
        later.read_cookie(cookie)


def test_take_link_after_its_time_is_refused() -> None:
    clock = Clock()
    book = VisitBook(KEY, clock)
    link, expires_ns = book.make_link(ADA)
    assert expires_ns == clock.now_ns + LINK_NS
    clock.now_ns = expires_ns
    with pytest.raises(NotLoggedIn):
        book.take_link(link)


@pytest.mark.parametrize("text", ["", ".", "a.b", "é.é", "e30.00"])
def test_read_cookie_of_nonsense_is_refused(text: str) -> None:
    with pytest.raises(NotLoggedIn):
        VisitBook(KEY, Clock()).read_cookie(text)


def test_a_text_of_another_key_or_kind_is_refused() -> None:
    clock = Clock()
    book = VisitBook(KEY, clock)
    link, _ = book.make_link(ADA)
    content, _, signature = book.make_cookie(ADA).partition(".")
    for text in (
        link,  # a link is no cookie
        VisitBook(b"o" * 32, clock).make_cookie(ADA),
        f"{content}A.{signature}",
        f"{content}.{signature[:-1]}{'0' if signature[-1] != '0' else '1'}",
    ):
        with pytest.raises(NotLoggedIn):
            book.read_cookie(text)
