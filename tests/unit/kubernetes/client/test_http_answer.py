"""Answers of HTTP/1.1 are parsed in whatever pieces they arrive."""

from __future__ import annotations

import pytest

from gpupool.kubernetes.client.http_answer import MOST_HEAD, ConnectionBroken, HttpAnswer
from tests.support.http_answers import WITH_LENGTH

IN_CHUNKS = b"HTTP/1.1 201 Made\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;a=b\r\nlo\r\n0\r\nTrailer: x\r\n\r\n"


AFTER_ANOTHER = b"HTTP/1.1 100 Continue\r\n\r\n" + WITH_LENGTH


WITHOUT_BODY = b"HTTP/1.1 204 No Content\r\n\r\n"


def body_of(data: bytes, size: int) -> tuple[HttpAnswer, bytes]:
    answer, body = HttpAnswer(), b""
    for at in range(0, len(data), size):
        answer.feed_bytes(data[at : at + size])
        body += answer.take_body()
    return answer, body


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
@pytest.mark.parametrize(
    ("data", "status", "body"),
    [
        (WITH_LENGTH, 200, b"hello"),
        (IN_CHUNKS, 201, b"hello"),
        (AFTER_ANOTHER, 200, b"hello"),
        (WITHOUT_BODY, 204, b""),
    ],
)
def test_an_answer_is_read_in_whatever_pieces_it_comes(
    data: bytes, status: int, body: bytes, size: int
) -> None:
    answer, found = body_of(data, size)
    assert (answer.status, found, answer.ended, answer.closes) == (status, body, True, False)


def test_an_answer_without_a_length_ends_with_its_connection() -> None:
    answer, found = body_of(b"HTTP/1.1 200 OK\r\n\r\nhello", 1000)
    assert (found, answer.ended, answer.closes) == (b"hello", False, True)
    answer.end_body()
    assert answer.ended


@pytest.mark.parametrize(
    "head", [b"HTTP/1.0 200 OK\r\nContent-Length: 0", b"HTTP/1.1 401 No\r\nContent-Length: 0"]
)
def test_a_connection_that_is_to_close_or_that_is_not_known_is_not_kept(head: bytes) -> None:
    answer, _ = body_of(head + b"\r\n\r\n", 1000)
    assert (answer.ended, answer.closes) == (True, True)


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        WITH_LENGTH + b"!",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * MOST_HEAD,
    ],
)
def test_what_is_no_answer_is_broken(data: bytes) -> None:
    with pytest.raises(ConnectionBroken):
        HttpAnswer().feed_bytes(data)


@pytest.mark.parametrize("cut", [0, 20, len(WITH_LENGTH) - 1])
def test_an_answer_that_is_cut_off_is_broken_and_says_whether_anything_came(cut: int) -> None:
    answer = HttpAnswer()
    if cut:
        answer.feed_bytes(WITH_LENGTH[:cut])
    with pytest.raises(ConnectionBroken) as raised:
        answer.end_body()
    assert raised.value.unheard is (cut == 0)
