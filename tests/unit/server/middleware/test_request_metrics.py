"""Requests are counted by their route's template, never by what a caller wrote."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fastapi import FastAPI

from gpupool.api.late_routes import Router, place_under
from gpupool.server.middleware.request_metrics import RequestMetricsMiddleware
from gpupool.store import counters


@pytest.fixture(autouse=True)
def _fresh_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "requests", counters.RequestCounters())


def make_app() -> FastAPI:
    below = Router()

    @below.get("/things/{thing}")
    def get_thing(thing: str) -> str:
        if thing == "broken":
            raise RuntimeError("broken")
        return thing

    app = FastAPI()
    app.router.routes.extend(place_under(below, "/api/v1"))
    app.add_middleware(RequestMetricsMiddleware)
    return app


async def ask(app: Any, method: str, path: str) -> None:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(_message: Any) -> None:
        return

    scope = {"type": "http", "http_version": "1.1", "method": method, "path": path}
    scope |= {"raw_path": path.encode(), "query_string": b"", "root_path": "", "headers": []}
    scope |= {"scheme": "http", "client": None, "server": ("pool", None)}
    await app(scope, receive, send)


def test_requests_are_counted_by_the_template_of_their_route() -> None:
    app = make_app()
    for path in ("/api/v1/things/one", "/api/v1/things/two", "/api/v1/nothing"):
        asyncio.run(ask(app, "GET", path))
    for path in ("/services/web/v1/chat", "/services/other/"):
        asyncio.run(ask(app, "POST", path))
    asyncio.run(ask(app, "BREW", "/api/v1/things/one"))
    with pytest.raises(RuntimeError):
        asyncio.run(ask(app, "GET", "/api/v1/things/broken"))
    assert counters.requests.count.read() == {
        ("/api/v1/things/{thing}", "GET", "200"): 2,
        ("(none)", "GET", "404"): 1,
        ("/services/{service}", "POST", "404"): 2,
        ("/api/v1/things/{thing}", "other", "405"): 1,
        ("/api/v1/things/{thing}", "GET", "500"): 1,
    }


def test_a_request_takes_until_its_answer_begins() -> None:
    times = iter((10.0, 10.75))

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    layer = RequestMetricsMiddleware(app, clock=lambda: next(times))
    asyncio.run(ask(layer, "GET", "/x"))
    ((_, total),) = counters.requests.seconds.read().values()
    assert total == 0.75
