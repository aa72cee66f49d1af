"""The caller's login ends at the proxy, and the job's cookies do not leave it."""

from __future__ import annotations

import pytest

from gpupool.base.errors import JobUnreachable
from gpupool.workspaces.http_heads import filter_answer, make_request_head, parse_answer_head

SENT = [
    (b"host", b"j-1.localhost:4000"),
    (b"cookie", b"gpupool=secret; gpupool-job=secret"),
    (b"authorization", b"Bearer gpp_secret"),
    (b"origin", b"http://j-1.localhost:4000"),
    (b"referer", b"http://j-1.localhost:4000/jobs/j-1/nb/lab"),
    (b"connection", b"keep-alive"),
    (b"x-xsrftoken", b"1"),
]


def test_make_request_head_withholds_the_login_and_adds_the_token() -> None:
    head = make_request_head("GET", b"/jobs/j-1/nb/lab?a=1", SENT, token="abc")
    assert b"secret" not in head
    assert b"4000" not in head
    lines = head.split(b"\r\n")
    assert lines[0] == b"GET /jobs/j-1/nb/lab?a=1 HTTP/1.1"
    assert {b"Authorization: token abc", b"Host: localhost", b"Origin: http://localhost"} <= {
        *lines
    }
    assert b"x-xsrftoken: 1" in lines
    assert b"Connection: close" in lines
    assert head.endswith(b"\r\n\r\n")


def test_make_request_head_of_a_websocket_asks_for_its_protocol() -> None:
    more = [*SENT, (b"upgrade", b"websocket"), (b"sec-websocket-key", b"x==")]
    lines = make_request_head("GET", b"/", more, token="", upgrade=b"websocket").split(b"\r\n")
    assert [line for line in lines if b"pgrade" in line] == [
        b"Connection: Upgrade",
        b"Upgrade: websocket",
    ]
    assert b"sec-websocket-key: x==" in lines
    assert not [line for line in lines if line.startswith(b"Authorization")]


def test_filter_answer_drops_cookies_and_keeps_redirections_relative() -> None:
    answer = parse_answer_head(
        b"HTTP/1.1 302 Found\r\nSet-Cookie: a=b\r\nLocation: http://localhost/jobs/j-1/nb/lab\r\n"
        b"Transfer-Encoding: chunked\r\nETag: x"
    )
    assert (answer.status, answer.reason) == (302, b"Found")
    assert filter_answer(answer.headers) == [
        (b"location", b"/jobs/j-1/nb/lab"),
        (b"etag", b"x"),
    ]


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nX-A: b\nSet-Cookie: gpupool-job=other; Domain=localhost",
        b"HTTP/1.1 200 OK\r\nX-A: b\rSet-Cookie: c=d",
        b"HTTP/1.1 200 OK\nSet-Cookie: c=d\r\nX-A: b",
        b"HTTP/1.1 200 OK\r\nX-A: b\0c",
    ],
    ids=["newline", "return", "newline-in-reason", "nul"],
)
def test_parse_answer_head_refuses_a_header_hidden_in_another_one(head: bytes) -> None:
    with pytest.raises(JobUnreachable):
        parse_answer_head(head)


@pytest.mark.parametrize(
    "head", [b"", b"SSH-2.0-OpenSSH_9.2", b"HTTP/1.1 abc", b"HTTP/1.1 200 OK\r\nno colon"]
)
def test_parse_answer_head_of_nonsense_is_refused(head: bytes) -> None:
    with pytest.raises(JobUnreachable):
        parse_answer_head(head)
