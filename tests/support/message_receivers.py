"""Receivers of messages, on loopback: an HTTP server and an SMTP server that note what comes."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from aiosmtpd.smtp import SMTP

WAIT_SECONDS = 20.0


@dataclass
class HookReceiver:
    """An HTTP server. `statuses` are those of its next answers; after them it is 200."""

    port: int = 0
    statuses: list[int] = field(default_factory=list)
    answer: bytes = b"{}"
    requests: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def wait_for_requests(self, count: int) -> list[tuple[str, dict[str, str], Any]]:
        """Wait until so many have come, and return all of them."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.requests) >= count, WAIT_SECONDS), (
                f"{len(self.requests)} requests came, not {count}"
            )
            return list(self.requests)


@contextmanager
def hook_receiver() -> Iterator[HookReceiver]:
    """Run an HTTP server."""
    receiver = HookReceiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            with receiver.changed:
                receiver.requests.append((self.path, dict(self.headers), json.loads(body)))
                status = receiver.statuses.pop(0) if receiver.statuses else 200
                receiver.changed.notify_all()
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", str(len(receiver.answer)))
            self.end_headers()
            self.wfile.write(receiver.answer)

        def log_message(self, *_args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.port = server.server_port
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@dataclass
class MailReceiver:
    """An SMTP server. `refused` are addresses that it does not know."""

    port: int = 0
    refused: set[str] = field(default_factory=set)
    mails: list[EmailMessage] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    # Names and arguments are those that aiosmtpd calls.
    async def handle_RCPT(  # noqa: N802
        self, _server: Any, _session: Any, envelope: Any, address: str, _options: Any
    ) -> str:
        if address in self.refused:
            return "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802
        mail = message_from_bytes(envelope.content, policy=policy.default)
        with self.changed:
            self.mails.append(mail)
            self.changed.notify_all()
        return "250 OK"


@contextmanager
def mail_receiver() -> Iterator[MailReceiver]:
    """Run an SMTP server."""
    receiver = MailReceiver()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        # Its own controller needs to be told a port, which another program may take meanwhile.
        starting = loop.create_server(lambda: SMTP(receiver, loop=loop), "127.0.0.1", 0)
        server = asyncio.run_coroutine_threadsafe(starting, loop).result(WAIT_SECONDS)
        receiver.port = server.sockets[0].getsockname()[1]
        yield receiver
        loop.call_soon_threadsafe(server.close)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
