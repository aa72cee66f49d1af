"""The console's own listener: a loopback port of a pool that listens on its Unix socket alone.

It is opened when a user of the socket asks for the console, and is for browsers: only a session
counts on it, and only a one-time link opens a session. Everything else stays on the socket, whose
callers the kernel names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from starlette.types import ASGIApp, Receive, Scope, Send

from gpupool.base.errors import NoPermission
from gpupool.server.http.problems import problem_response
from gpupool.tenancy.sessions.cookies import CONSOLE_EXTENSION, is_loopback, is_page


class ConsoleAddress(Protocol):
    """Says where the console is served; the host provides one that can open a listener."""

    async def open(self) -> str:
        """Return the URL of the console, after opening a listener for it where none is suitable."""


class ConsoleConnections:
    """ASGI application of the console's own listener: the pool's, for browsers alone.

    Args:
        app: The pool's application.
        note_use: Called for each request, so that a listener that is not used can be closed.
    """

    def __init__(self, app: ASGIApp, note_use: Callable[[], None]) -> None:
        self._app = app
        self._note_use = note_use
        #: Requests under way, streams among them.
        self.open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._note_use()
        if scope["type"] == "http":
            refusal = find_refusal(scope)
            if refusal is not None:
                await problem_response(refusal)(scope, receive, send)
                return
        extensions = {**(scope.get("extensions") or {}), CONSOLE_EXTENSION: True}
        self.open += 1
        try:
            await self._app({**scope, "extensions": extensions}, receive, send)
        finally:
            self.open -= 1
            self._note_use()


def find_refusal(scope: Any) -> NoPermission | None:
    """Return why a request may not come through the console's own listener; None if it may."""
    headers = scope["headers"]
    hosts = [value.decode("latin-1").lower() for name, value in headers if name == b"host"]
    # A page of another site whose name leads to 127.0.0.1 (DNS rebinding).
    if len(hosts) != 1 or not is_loopback(hosts[0]):
        return NoPermission(
            "this port is for the console on this machine, by a loopback address",
            hint="from another machine:  ssh -L PORT:127.0.0.1:PORT HOST",
        )
    if any(name == b"authorization" for name, _ in headers):
        return NoPermission(
            "this port is for browsers: a token does not count here",
            hint="programs use the pool's Unix socket, or  gpupool up --listen",
        )
    if scope["path"] == "/login" and scope["method"] == "POST" and not is_page(scope):
        return NoPermission(
            "this port is for browsers: a login here opens a session of the console alone",
            hint="programs use the pool's Unix socket, or  gpupool up --listen",
        )
    return None
