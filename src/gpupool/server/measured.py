"""Counting the requests that are answered, by route, method and status, with the time each took; `metrics` tells it."""

from __future__ import annotations

import time
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpupool.store import counters

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Measured:
    """ASGI layer that counts every request by its route's template. Put it outside the one that answers errors."""

    def __init__(self, app: ASGIApp, clock: Callable[[], float] = time.perf_counter) -> None:
        self._app, self._clock = app, clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, told = self._clock(), False

        def tell(status: int) -> None:
            nonlocal told
            if not told:
                told = True
                counters.requests.answered(_template(scope), _method(scope), status, self._clock() - began)

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start":
                tell(message["status"])
            await send(message)

        try:
            await self._app(scope, receive, watched)
        finally:
            tell(500)  # nothing was answered: it failed, or its client went away


def _template(scope: Scope) -> str:
    """The route as it is written, `/api/v1/jobs/{job}`; one word for everything that no route took.

    A route below a prefix may name only its own part: what the address has more in front is the prefix.
    """
    path = getattr(scope.get("route"), "path", None)
    if not isinstance(path, str):
        return "(none)"
    asked, own = str(scope["path"]).split("/"), path.split("/")
    return "/".join([*asked[: len(asked) - len(own) + 1], *own[1:]])


def _method(scope: Scope) -> str:
    method = str(scope.get("method", ""))
    return method if method in _METHODS else "other"
