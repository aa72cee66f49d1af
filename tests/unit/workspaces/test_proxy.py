"""What pages of other origins may not do, and which host a job's pages have."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.base.errors import NoPermission
from gpupool.workspaces.proxy import PageOrigin, check_origin, read_cookie

OWN = "http://j-1.localhost:4000"


def check(method: str, **headers: str) -> None:
    scope: dict[str, Any] = {"method": method}
    encoded = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    check_origin(scope, encoded, OWN)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": OWN},
        {"sec_fetch_site": "same-origin"},
        {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"},
    ],
)
def test_check_origin_lets_a_visitor_read(headers: dict[str, str]) -> None:
    check("GET", **headers)


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("POST", {}),
        ("POST", {"origin": "null"}),
        ("DELETE", {"origin": "http://j-2.localhost:4000"}),
        ("GET", {"origin": "http://j-2.localhost:4000"}),
        ("GET", {"upgrade": "websocket"}),
        ("GET", {"upgrade": "websocket", "origin": "http://localhost:4000"}),
        ("GET", {"sec_fetch_site": "same-site", "sec_fetch_mode": "no-cors"}),
        ("POST", {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}),
    ],
)
def test_check_origin_refuses_other_pages(method: str, headers: dict[str, str]) -> None:
    with pytest.raises(NoPermission):
        check(method, **headers)


def test_check_origin_takes_the_own_page_for_all_methods() -> None:
    check("POST", origin=OWN)
    check("GET", upgrade="websocket", origin=OWN)


def test_each_job_has_a_host_of_one_label() -> None:
    origin = PageOrigin("https", "jobs.example.org", None)
    assert origin.name("J-1.3") == "https://j-1--3.jobs.example.org"
    assert origin.cookie == "__Host-gpupool-job"
    assert PageOrigin("http", "localhost", 4000).name("j-1") == OWN


def test_read_cookie_finds_one_among_others() -> None:
    headers = {b"cookie": b"a=1; gpupool-job=x.y; b=2"}
    assert read_cookie(headers, "gpupool-job") == "x.y"
    assert read_cookie(headers, "other") == ""
    assert read_cookie({b"cookie": b"\xff;;=="}, "gpupool-job") == ""


@pytest.mark.parametrize(
    "other",
    ['state={"open": true}', "note=two words", "a@b=c", 'x="', "bare"],
    ids=["json", "space", "name", "quote", "bare"],
)
def test_read_cookie_is_not_lost_beside_what_a_page_has_set(other: str) -> None:
    headers = {b"cookie": f"{other}; gpupool-job=x.y; {other}".encode()}
    assert read_cookie(headers, "gpupool-job") == "x.y"
