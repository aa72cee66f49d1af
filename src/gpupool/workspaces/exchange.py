"""One request of a browser to a service of a job, over one stream: answered, or switched.

Bodies pass in pieces in both directions; neither side is read faster than the other one writes.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Final

import httptools
from starlette.types import Message, Receive, Scope, Send

from gpupool.base.errors import BadInput, JobUnreachable
from gpupool.workspaces.http_heads import (
    MOST_HEAD,
    ServiceAnswer,
    encode_answer_head,
    filter_answer,
    make_request_head,
    parse_answer_head,
)
from gpupool.workspaces.pipes import BufferedPipeEnd, PipeEnd, join_ends
from gpupool.workspaces.streams import OpenStream
from gpupool.workspaces.upgrade import ConnectionUpgrade, find_upgrade

#: Seconds in which a service begins its answer, or takes more of a large request: a cell that runs is
#: asked for over a WebSocket.
_ANSWER_SECONDS: Final = 300.0
#: Bytes of an answer that wait for a slow browser.
_MOST_WAITING: Final = 1 << 20
#: Bytes of a body from which on it is passed on unread: parsed and framed, a download had less than
#: half the speed of a direct one (`python -m bench workspaces`).
LARGE_BYTES: Final = 1 << 20
_OK: Final = 200
_SWITCHING: Final = 101


class AnswerReader(PipeEnd):
    """Collects what a service sends until it is taken."""

    def __init__(self, end: PipeEnd) -> None:
        super().__init__()
        self._end = end
        self._waiting = bytearray()
        self._news = asyncio.Event()
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._is_over = False
        #: Whether the connection has ended without a word of the service.
        self.is_cut = False
        self.transport = end.transport
        # From here on what comes is ours: first what came before.
        end.join(self)

    def write(self, data: bytes | memoryview) -> None:
        """Take what the service has sent."""
        self._waiting += data
        self._news.set()
        if len(self._waiting) > _MOST_WAITING:
            self._end.set_reading(False)

    def write_end(self) -> None:
        self._is_over = True
        self._news.set()

    def close(self) -> None:
        self.is_cut |= not self._is_over
        self.write_end()

    def set_reading(self, wanted: bool) -> None:
        """Note whether the service takes more of the request."""
        if wanted:
            self._can_write.set()
        else:
            self._can_write.clear()

    async def take(self) -> bytes:
        """Return what has come, at least a byte; empty: there is no more."""
        while not self._waiting and not self._is_over:
            self._news.clear()
            await self._news.wait()
        data = self.take_rest()
        self._end.set_reading(True)
        return data

    def take_rest(self) -> bytes:
        """Return what has come and was not taken; never waits."""
        data = bytes(self._waiting)
        self._waiting.clear()
        return data

    async def send(self, data: bytes) -> None:
        """Send a part of the request; waits while the service does not read."""
        await self._can_write.wait()
        self._end.write(data)


class AnswerWriter(PipeEnd):
    """The browser's end of an answer that is passed on unread; what it sends meanwhile is dropped:
    its next request goes to no job whose right was not checked."""

    def data_received(self, data: bytes) -> None:
        """Drop it."""


class ServiceExchange:
    """A request and its answer; either `answer` or `switch` is called once."""

    def __init__(self, opened: OpenStream, scope: Scope, receive: Receive, send: Send) -> None:
        self._opened = opened
        self._scope = scope
        self._receive = receive
        self._send = send
        #: Pieces of the request that the service has taken.
        self._taken = 0

    async def answer(self) -> None:
        """Pass the request on and its answer back. Raises JobUnreachable before any answer."""
        reader = AnswerReader(self._opened.end)
        sending = asyncio.ensure_future(self._send_request(reader))
        is_kept = False
        try:
            head, rest = await self._await_head(reader)
            answer = parse_answer_head(head)
            upgrade = find_upgrade(self._scope)
            if upgrade is not None and self._scope["method"] == "GET" and is_large(answer):
                sending.cancel()
                is_kept = True
                self._pass_on(upgrade, answer, rest + reader.take_rest())
                return
            await self._send_answer(reader, answer, head, rest)
        except TimeoutError:
            raise JobUnreachable(
                f"the job gave no answer within {_ANSWER_SECONDS:g} s", hint="gpupool logs JOB"
            ) from None
        finally:
            sending.cancel()
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await sending
            if not is_kept:
                self._opened.end.close()

    async def switch(self, upgrade: ConnectionUpgrade | None, end: PipeEnd | None = None) -> bool:
        """Pass a handshake on; if the service agrees, the two connections become one.

        Args:
            upgrade: takes the caller's connection over.
            end: serves it from then on; None: a plain one.

        Returns:
            Whether the service agreed; otherwise its answer was passed on.
        """
        if upgrade is None:
            self._opened.end.close()
            raise BadInput("this connection cannot switch protocols")
        reader = AnswerReader(self._opened.end)
        is_kept = False
        try:
            await reader.send(self._make_head(upgrade=b"websocket"))
            head, rest = await self._await_head(reader)
            answer = parse_answer_head(head)
            if answer.status != _SWITCHING:
                await self._send_answer(reader, answer, head, rest)
                return False
            kept = [*filter_answer(answer.headers), (b"connection", b"Upgrade")]
            kept.append((b"upgrade", b"websocket"))
            end = end or BufferedPipeEnd()
            upgrade.switch(encode_answer_head(answer, kept), end)
            is_kept = True
            end.write(rest + reader.take_rest())
            join_ends(end, self._opened.end)
            return True
        except TimeoutError:
            raise JobUnreachable("the job did not answer the handshake") from None
        finally:
            if not is_kept:
                self._opened.end.close()

    async def _await_head(self, reader: AnswerReader) -> tuple[bytes, bytes]:
        """Read the head of the answer. Raises TimeoutError, JobUnreachable."""
        reading = asyncio.ensure_future(_read_head(reader))
        try:
            while True:
                taken = self._taken
                await asyncio.wait({reading}, timeout=_ANSWER_SECONDS)
                if reading.done():
                    return reading.result()
                if self._taken == taken:
                    raise TimeoutError
        finally:
            reading.cancel()

    def _pass_on(self, upgrade: ConnectionUpgrade, answer: ServiceAnswer, body: bytes) -> None:
        """Let the two connections become one for the body, and end with it."""
        headers = [*filter_answer(answer.headers), (b"connection", b"close")]
        writer = AnswerWriter()
        upgrade.switch(encode_answer_head(answer, headers), writer)
        writer.write(body)
        join_ends(writer, self._opened.end)

    def _make_head(self, *, upgrade: bytes = b"") -> bytes:
        query = self._scope["query_string"]
        path: bytes = self._scope["raw_path"]
        if self._opened.hello.is_at_root:
            path = cut_prefix(path)
        target = path + (b"?" + query if query else b"")
        length = dict(self._scope["headers"]).get(b"content-length")
        return make_request_head(
            self._scope["method"],
            target,
            self._scope["headers"],
            token=self._opened.hello.token,
            upgrade=upgrade,
            length=length,
        )

    async def _send_request(self, reader: AnswerReader) -> None:
        """Send head and body; stops when the browser leaves."""
        headers = dict(self._scope["headers"])
        is_chunked = b"content-length" not in headers and b"transfer-encoding" in headers
        await reader.send(self._make_head())
        while True:
            message: Message = await self._receive()
            if message["type"] == "http.disconnect":
                self._opened.end.close()
                return
            body = message.get("body", b"")
            if body:
                await reader.send(b"%x\r\n%s\r\n" % (len(body), body) if is_chunked else body)
                self._taken += 1
            if not message.get("more_body"):
                break
        if is_chunked:
            await reader.send(b"0\r\n\r\n")
        # The next message is the end of the connection.
        if (await self._receive())["type"] == "http.disconnect":
            self._opened.end.close()

    async def _send_answer(
        self, reader: AnswerReader, answer: ServiceAnswer, head: bytes, rest: bytes
    ) -> None:
        """Pass an answer on, its body freed of chunks."""
        await self._send(
            {
                "type": "http.response.start",
                "status": answer.status,
                "headers": filter_answer(answer.headers),
            }
        )
        body = _BodyParser(self._scope["method"])
        body.feed(head + b"\r\n\r\n")
        data = rest
        while True:
            body.feed(data)
            for piece in body.take_pieces():
                await self._send({"type": "http.response.body", "body": piece, "more_body": True})
            if body.is_complete:
                break
            data = await reader.take()
            if not data:
                if not body.ends_with_connection or reader.is_cut:
                    # The browser must not take half an answer for a whole one.
                    raise ConnectionResetError("the service ended in the middle of its answer")
                break
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})


def cut_prefix(path: bytes) -> bytes:
    """Return the path below `/jobs/JOB/SERVICE`, for a service that knows no prefix."""
    parts = path.split(b"/", 4)
    return b"/" + (parts[4] if len(parts) > 4 else b"")


def is_large(answer: ServiceAnswer) -> bool:
    """Whether the body is counted, and worth a connection of its own."""
    names = dict(answer.headers)
    length = names.get(b"content-length", b"")
    return (
        answer.status == _OK
        and b"transfer-encoding" not in names
        and length.isdigit()
        and int(length) >= LARGE_BYTES
    )


class _BodyParser:
    """Takes the body out of an answer, whether counted, in chunks or until the end."""

    def __init__(self, method: str) -> None:
        self._pieces = list[bytes]()
        self._is_bodiless = method == "HEAD"
        self._is_framed = False
        self._parser: Any = httptools.HttpResponseParser(self)
        self.is_complete = False

    @property
    def ends_with_connection(self) -> bool:
        return not self._is_framed

    def feed(self, data: bytes) -> None:
        if self.is_complete or not data:
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            raise ConnectionResetError(f"the service's answer is broken: {error}") from error

    def take_pieces(self) -> list[bytes]:
        pieces = self._pieces
        self._pieces = []
        return pieces

    def on_header(self, name: bytes, _value: bytes) -> None:
        self._is_framed |= name.lower() in (b"content-length", b"transfer-encoding")

    def on_headers_complete(self) -> None:
        if self._is_bodiless or self._parser.get_status_code() in (204, 304):
            self.is_complete = True

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)

    def on_message_complete(self) -> None:
        self.is_complete = True


async def _read_head(reader: AnswerReader) -> tuple[bytes, bytes]:
    """Return the head of a final or switching answer, and what came behind it."""
    data = b""
    while True:
        head, found, rest = data.partition(b"\r\n\r\n")
        if found and not _is_interim(head):
            return head, rest
        if found:
            data = rest
            continue
        more = await reader.take()
        if not more or len(data) > MOST_HEAD:
            raise JobUnreachable(
                "the job's service ended without an answer", hint="gpupool logs JOB"
            )
        data += more


def _is_interim(head: bytes) -> bool:
    words = head.split(b" ", 2)
    return len(words) > 1 and words[1][:1] == b"1" and words[1][:3] != b"101"
