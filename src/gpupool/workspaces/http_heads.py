"""Heads of HTTP/1.1 requests and answers between the proxy and the services of jobs.

What is about one connection, or about the caller's login, ends here. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from gpupool.base.errors import JobUnreachable

Headers = list[tuple[bytes, bytes]]

#: Bytes of an answer's head.
MOST_HEAD: Final = 64 << 10
#: Headers of one connection (RFC 9110, 7.6.1), which are not passed on.
_HOP: Final = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
#: Of requests: the caller's login, and what names an origin that the service does not have.
_WITHHELD: Final = frozenset(
    {b"authorization", b"cookie", b"host", b"origin", b"referer", b"expect", b"content-length"}
)
#: What ends a line or a text for some readers, so that a header could hide behind another one.
_LINE_ENDS: Final = (b"\r", b"\n", b"\0")
#: How a service is addressed: it listens on a socket, for this machine.
LOCAL_HOST: Final = b"localhost"


@dataclass(frozen=True)
class ServiceAnswer:
    """The head of an answer; `reason` is what stands behind the status."""

    status: int
    reason: bytes
    headers: Headers


def make_request_head(
    method: str,
    target: bytes,
    headers: Iterable[tuple[bytes, bytes]],
    *,
    token: str,
    upgrade: bytes = b"",
    length: bytes | None = None,
) -> bytes:
    """Make the head of the request that a service gets.

    Args:
        target: path and query, as the caller wrote them.
        headers: the caller's.
        token: of the service; empty: it has none.
        upgrade: the protocol that is asked for; empty: none.
        length: of the body; None: it comes in chunks, or there is none.
    """
    kept = list(headers)
    lines = [b"%s %s HTTP/1.1" % (method.encode("ascii"), target), b"Host: " + LOCAL_HOST]
    for name, value in kept:
        if name not in _HOP and name not in _WITHHELD:
            lines.append(b"%s: %s" % (name, value))
    if any(name == b"origin" for name, _ in kept):
        lines.append(b"Origin: http://" + LOCAL_HOST)
    if token:
        lines.append(b"Authorization: token " + token.encode("ascii"))
    if length is not None:
        lines.append(b"Content-Length: " + length)
    elif any(name == b"transfer-encoding" for name, _ in kept):
        lines.append(b"Transfer-Encoding: chunked")
    if upgrade:
        lines += [b"Connection: Upgrade", b"Upgrade: " + upgrade]
    else:
        lines.append(b"Connection: close")
    return b"\r\n".join([*lines, b"", b""])


def parse_answer_head(head: bytes) -> ServiceAnswer:
    """Parse the head of a service's answer. Raises JobUnreachable."""
    first, *lines = head.split(b"\r\n")
    words = first.split(b" ", 2)
    try:
        status = int(words[1])
        if not words[0].startswith(b"HTTP/1.") or not 100 <= status <= 599:
            raise ValueError(first)
        if any(end in line for line in (first, *lines) for end in _LINE_ENDS):
            raise ValueError(head)
        headers: Headers = []
        for line in lines:
            name, colon, value = line.partition(b":")
            if not colon or not name.strip() or name != name.strip():
                raise ValueError(line)
            headers.append((name.lower(), value.strip()))
    except (ValueError, IndexError) as error:
        raise JobUnreachable("what answers in the job does not speak HTTP/1.1") from error
    return ServiceAnswer(status, words[2] if len(words) > 2 else b"", headers)


def filter_answer(headers: Sequence[tuple[bytes, bytes]]) -> Headers:
    """Return what a caller may see of an answer: no cookies, and no origin that is not its own."""
    kept: Headers = []
    for name, value in headers:
        if name in _HOP or name == b"set-cookie":
            continue
        if name == b"location":
            for origin in (b"http://" + LOCAL_HOST, b"https://" + LOCAL_HOST):
                value = value.removeprefix(origin)
        kept.append((name, value))
    return kept


def encode_answer_head(answer: ServiceAnswer, headers: Headers) -> bytes:
    """Encode the head of an answer with which a connection switches protocols."""
    lines = [b"HTTP/1.1 %d %s" % (answer.status, answer.reason)]
    lines += [b"%s: %s" % header for header in headers]
    return b"\r\n".join([*lines, b"", b""])
