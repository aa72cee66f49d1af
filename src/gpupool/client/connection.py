"""One connection to a pool: HTTP/1.1 requests out, heads and bodies of answers in.

`http.client` would import the e-mail parser, which costs more than a whole `srun`
(docs/decisions/0002). Must not know which requests may be repeated, nor what an answer means.
"""

from __future__ import annotations

from gpupool.client.sockets import connected_socket, error_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket as Socket  # noqa: N812  # as in `sockets`
    from collections.abc import Callable, Iterator, Mapping

    from gpupool.client.endpoints import PoolEndpoint

#: Seconds until a server that accepts no connection counts as not there.
CONNECT_SECONDS = 10.0
#: Seconds without any byte until an answer counts as lost.
ANSWER_SECONDS = 60.0
#: So long a server may be silent before `on_silence` is called.
LOOK_SECONDS = 2.0
#: The answer after which the connection carries bytes (RFC 9110, 15.2.2).
_SWITCHING = 101
#: Bytes of a header line; a peer that sends more does not speak HTTP.
_MAX_LINE = 1 << 20


class BrokenConnectionError(Exception):
    """The connection ended before the answer did; what the request did is unknown."""


class PoolConnection:
    """One socket, and a reader of HTTP/1.1 answers on it. Belongs to one thread."""

    def __init__(self, endpoint: PoolEndpoint, seconds: float = CONNECT_SECONDS) -> None:
        self.endpoint = endpoint
        self.on_silence: Callable[[], None] | None = None
        """Called every LOOK_SECONDS while an answer is awaited; what it raises ends the wait."""
        self._seconds = ANSWER_SECONDS
        self._buffer = bytearray()
        self._socket = connected_socket(endpoint, seconds)

    def settimeout(self, seconds: float) -> None:
        self._seconds = seconds
        self._socket.settimeout(seconds if self.on_silence is None else min(seconds, LOOK_SECONDS))

    def send(self, lines: list[str], payload: bytes) -> None:
        """Send a request: `lines` are its method, its target and its headers."""
        host = self.endpoint.host or "gpupool"
        extra = [f"Host: {f'[{host}]' if ':' in host else host}"]
        if self.endpoint.token:
            extra.append(f"Authorization: Bearer {self.endpoint.token}")
        first = f"{lines[0]} {self.endpoint.base}{lines[1]} HTTP/1.1"
        head = "\r\n".join([first, *extra, *lines[2:], "", ""])
        try:
            self._socket.sendall(head.encode("ascii") + payload)
        except TimeoutError:
            raise
        except OSError as error:
            # A pool that refuses a large body answers and closes the connection while we still
            # write: read its answer.
            if not payload:
                raise BrokenConnectionError(error_text(error)) from None

    def answer(self, method: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of the answer to a request with `method`."""
        status, headers = self.head()
        return status, headers, self.body(method, status, headers)

    def head(self) -> tuple[int, dict[str, str]]:
        """Status and headers of an answer, the names in lower case; interim answers (1xx) are
        skipped."""
        while True:
            words = self._line().split(" ", 2)
            if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdigit():
                raise BrokenConnectionError("what answers there does not speak HTTP")
            headers: dict[str, str] = {}
            while line := self._line():
                name, _, value = line.partition(":")
                headers[name.strip().lower()] = value.strip()
            if int(words[1]) >= 200 or int(words[1]) == _SWITCHING:
                return int(words[1]), headers

    def body(self, method: str, status: int, headers: Mapping[str, str]) -> bytes:
        if method == "HEAD" or status in (204, 304):
            return b""
        return b"".join(self.pieces(headers))

    def pieces(self, headers: Mapping[str, str]) -> Iterator[bytes]:
        """The body in the pieces it comes in, to its end."""
        if headers.get("transfer-encoding", "").lower() == "chunked":
            yield from self._chunks()
        elif "content-length" in headers:
            yield from self._exactly(int(headers["content-length"]))
        else:
            yield self._take(len(self._buffer))
            while piece := self._receive():
                yield piece

    def detach(self) -> tuple[Socket, bytes]:
        """Return the socket of a switched connection, and what of its bytes was read already."""
        return self._socket, self._take(len(self._buffer))

    def is_stale(self) -> bool:
        """Whether the pool closed the idle connection, or sent something without a request."""
        import select

        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(self._buffer) or bool(poll.poll(0))

    def close(self) -> None:
        self._socket.close()

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self._line().split(";")[0], 16):
            yield from self._exactly(size)
            self._line()
        while self._line():
            continue

    def _exactly(self, size: int) -> Iterator[bytes]:
        while size:
            if not self._buffer:
                self._fill()
            piece = self._take(min(size, len(self._buffer)))
            size -= len(piece)
            yield piece

    def _line(self) -> str:
        start = 0
        while (end := self._buffer.find(b"\r\n", start)) < 0:
            if len(self._buffer) > _MAX_LINE:
                raise BrokenConnectionError("what answers there does not speak HTTP")
            # A line's end may be split between two reads: the last byte is looked at again.
            start = max(0, len(self._buffer) - 1)
            self._fill()
        return self._take(end + 2)[:-2].decode("latin-1")

    def _take(self, size: int) -> bytes:
        piece = bytes(self._buffer[:size])
        del self._buffer[:size]
        return piece

    def _fill(self) -> None:
        data = self._receive()
        if not data:
            raise BrokenConnectionError("it closed the connection")
        self._buffer += data

    def _receive(self) -> bytes:
        waited = 0.0
        while True:
            try:
                return self._socket.recv(1 << 16)
            except TimeoutError:
                waited += LOOK_SECONDS
                if self.on_silence is None or waited >= self._seconds:
                    raise
                self.on_silence()
            except OSError as error:
                raise BrokenConnectionError(error_text(error)) from None
