"""Count the requests that are answered, by route, method and status, with the time each took."""

from __future__ import annotations

import time
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpupool.serving.door import PREFIX as SERVICE_PREFIX
from gpupool.store import counters

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class RequestMetricsMiddleware:
    """ASGI layer that counts every request by its route's template.

    It lies outside the one that answers errors, so that their status is counted too.
    """

    def __init__(self, app: ASGIApp, clock: Callable[[], float] = time.perf_counter) -> None:
        self._app = app
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = self._clock()
        told = False

        def tell(status: int) -> None:
            nonlocal told
            if not told:
                told = True
                counters.requests.count_answer(
                    _name_route(scope), _known_method(scope), status, self._clock() - began
                )

        async def send_and_count(message: Message) -> None:
            if message["type"] == "http.response.start":
                tell(message["status"])
            await send(message)

        try:
            await self._app(scope, receive, send_and_count)
        finally:
            tell(500)  # nothing was answered: it failed, or its client went away


def route_template(scope: Scope) -> str:
    """Return the route as it is written, `/api/v1/jobs/{job}`; one word for what no route took."""
    path = getattr(scope.get("route"), "path", None)
    return path if isinstance(path, str) else "(none)"


def _name_route(scope: Scope) -> str:
    # Services are reached through no route: their answers, which may take minutes, stand apart.
    is_service = str(scope.get("path", "")).startswith(SERVICE_PREFIX)
    return SERVICE_PREFIX + "{service}" if is_service else route_template(scope)


def _known_method(scope: Scope) -> str:
    method = str(scope.get("method", ""))
    # A method is the caller's text: any other would be a label of its own, without end.
    return method if method in _METHODS else "other"
