"""The name of a session's cookie, and which pages may send it."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.base.errors import CrossSiteRequest
from gpupool.tenancy.sessions.cookies import (
    LONGEST_BYTES,
    SiteOrigin,
    check_page,
    format_cookie,
    is_loopback,
    read_cookie,
    read_site,
)

SECURE = SiteOrigin(True, "gpu.example.org:8443")
PLAIN = SiteOrigin(False, "127.0.0.1:8470")


def scope(kind: str = "http", **headers: str) -> dict[str, Any]:
    pairs = [(name.replace("_", "-").encode(), text.encode()) for name, text in headers.items()]
    return {"type": kind, "headers": pairs}


def test_a_cookie_over_https_is_bound_to_its_host() -> None:
    assert format_cookie(SECURE, "x", 60) == (
        "__Host-gpupool=x; Path=/; Max-Age=60; HttpOnly; SameSite=Lax; Secure"
    )


def test_a_cookie_on_loopback_is_named_by_its_port() -> None:
    assert format_cookie(PLAIN, "x", 60) == (
        "gpupool-8470=x; Path=/; Max-Age=60; HttpOnly; SameSite=Lax"
    )


@pytest.mark.parametrize(
    ("host", "cookie", "found"),
    [
        ("127.0.0.1:8470", "gpupool-8470=x", "x"),
        ("localhost:8470", "a=1; gpupool-8470=x; b=2", "x"),
        ("[::1]:8470", "gpupool-8470=x", "x"),
        ("gpu.example.org:8443", "__Host-gpupool=x", "x"),
        ("gpu.example.org", 'odd={"a" b; __Host-gpupool=x', "x"),
        ("127.0.0.1:8471", "gpupool-8470=x", None),
        ("gpu.example.org:8470", "gpupool-8470=x", None),
        ("gpu.example.org:8443", "gpupool=x; xgpupool-8443=x", None),
        ("gpu.example.org:8443", "__Host-gpupool=", None),
        ("gpu.example.org:8443", f"__Host-gpupool=x; a={'b' * LONGEST_BYTES}", None),
    ],
)
def test_a_cookie_counts_by_its_name_and_host(host: str, cookie: str, found: str | None) -> None:
    read = read_cookie(scope(host=host, cookie=cookie))
    assert (read.text if read is not None else None) == found


def test_a_page_of_the_console_passes() -> None:
    sent = scope(
        host="127.0.0.1:8470",
        cookie="gpupool-8470=x",
        origin="http://127.0.0.1:8470",
        x_gpupool="1",
    )
    found = read_cookie(sent)
    assert found is not None
    check_page(sent, found)


@pytest.mark.parametrize(
    "headers",
    [
        {"x_gpupool": "1"},
        {"origin": "http://127.0.0.1:8470"},
        {"origin": "http://127.0.0.1:8470", "x_gpupool": "0"},
        {"origin": "http://127.0.0.1:8471", "x_gpupool": "1"},
        {"origin": "https://127.0.0.1:8470", "x_gpupool": "1"},
        {"origin": "http://localhost:8470", "x_gpupool": "1"},
        {"origin": "null", "x_gpupool": "1"},
    ],
)
def test_any_other_page_is_refused(headers: dict[str, str]) -> None:
    sent = scope(host="127.0.0.1:8470", cookie="gpupool-8470=x", **headers)
    found = read_cookie(sent)
    assert found is not None
    with pytest.raises(CrossSiteRequest):
        check_page(sent, found)


def test_a_websocket_is_judged_by_its_origin_alone() -> None:
    mine = {"host": "gpu.example.org", "cookie": "__Host-gpupool=x"}
    ours = scope("websocket", origin="https://gpu.example.org", **mine)
    foreign = scope("websocket", origin="https://evil.example.org", **mine)
    found = read_cookie(ours)
    assert found is not None
    check_page(ours, found)
    with pytest.raises(CrossSiteRequest):
        check_page(foreign, found)


def test_a_handshake_over_http_is_judged_by_its_origin_alone() -> None:
    mine = {"host": "127.0.0.1:8470", "cookie": "gpupool-8470=x", "upgrade": "websocket"}
    ours = {**scope(origin="http://127.0.0.1:8470", **mine), "method": "GET"}
    found = read_cookie(ours)
    assert found is not None
    check_page(ours, found)
    for sent in (
        {**scope(origin="http://127.0.0.1:8471", **mine), "method": "GET"},
        {**scope(**mine), "method": "GET"},
        {**scope(origin="http://127.0.0.1:8470", **mine), "method": "POST"},
    ):
        with pytest.raises(CrossSiteRequest):
            check_page(sent, found)


@pytest.mark.parametrize(
    ("host", "origin", "secure"),
    [
        ("127.0.0.1:8470", "http://127.0.0.1:8470", False),
        ("localhost:8470", "http://localhost:8470", False),
        ("gpu.example.org:8443", "https://gpu.example.org:8443", True),
        # A proxy on this machine ends TLS and hands on the host.
        ("gpu.example.org", "https://gpu.example.org", True),
    ],
)
def test_a_login_takes_the_origin_of_its_browser(host: str, origin: str, secure: bool) -> None:
    site = read_site(scope(host=host, origin=origin))
    assert (site.secure, site.host) == (secure, host)


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("gpu.example.org:8470", "http://gpu.example.org:8470"),
        ("127.0.0.1:8470", "http://evil.example.org"),
        ("evil.example.org:8470", "http://evil.example.org:8470"),
        ("127.0.0.1:8470", ""),
    ],
)
def test_a_login_from_elsewhere_or_in_the_clear_is_refused(host: str, origin: str) -> None:
    with pytest.raises(CrossSiteRequest):
        read_site(scope(host=host, **({"origin": origin} if origin else {})))


@pytest.mark.parametrize(
    ("host", "answer"),
    [
        ("127.0.0.1", True),
        ("127.4.5.6:1", True),
        ("localhost:80", True),
        ("[::1]:80", True),
        ("[::1]", True),
        ("::1", True),
        ("::ffff:10.0.0.1", False),
        ("127.0.0.1.example.org", False),
        ("localhost.example.org:80", False),
        ("10.0.0.1", False),
        ("", False),
    ],
)
def test_loopback_is_this_machine_alone(host: str, answer: bool) -> None:
    assert is_loopback(host) is answer
