"""What may come through the console's own listener."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gpupool.server.console.listener import ConsoleConnections, find_refusal
from gpupool.tenancy.sessions.cookies import is_through_console
from tests.support.api import Client, running_app
from tests.support.browsers import Browser


def scope(method: str = "GET", path: str = "/", **headers: str) -> dict[str, Any]:
    sent = {"host": "127.0.0.1:8480"} | {
        name.replace("_", "-"): text for name, text in headers.items()
    }
    pairs = [(name.encode(), text.encode()) for name, text in sent.items()]
    return {"type": "http", "method": method, "path": path, "headers": pairs}


@pytest.mark.parametrize(
    "asked",
    [
        scope(),
        scope(host="localhost:9000"),
        scope("POST", "/login", x_gpupool="1"),
        scope("POST", "/api/v1/jobs"),
    ],
)
def test_a_browser_of_this_machine_passes(asked: dict[str, Any]) -> None:
    assert find_refusal(asked) is None


@pytest.mark.parametrize(
    "asked",
    [
        scope(host="evil.example.org:8480"),
        scope(host="10.0.0.1:8480"),
        scope(authorization="Bearer gpp_x"),
        scope("POST", "/login"),
    ],
)
def test_what_is_no_browser_of_this_machine_is_refused(asked: dict[str, Any]) -> None:
    refusal = find_refusal(asked)
    assert refusal is not None
    assert refusal.code == "GP-3002"


def test_a_session_of_the_listener_counts_there_alone(tmp_path: Path) -> None:
    with running_app(tmp_path) as pool:
        inside = Browser(pool)
        outside = Browser(pool)
        listener = ConsoleConnections(pool.app, lambda: None)
        inside.app = listener
        token = pool.client().post("console").json()["url"].partition("#token=")[2]
        assert inside.log_in(token).status == 204
        assert inside.get("whoami").json()["user"] == "root"
        assert inside.post("tenants", {"name": "blue"}).status == 201
        outside.cookies = inside.cookies
        assert outside.get("whoami").code == "GP-3001"
        other = Browser(pool)
        other.log_in(pool.token("root"))
        other.app = listener
        assert other.get("whoami").code == "GP-3001"
        bearer = Client(listener, pool.loop, None, pool.token("root"), {"host": inside.host})
        assert bearer.get("whoami").code == "GP-3002"


def test_open_requests_are_counted_and_marked() -> None:
    found: list[tuple[bool, int]] = []
    uses: list[int] = []

    async def app(asked: Any, *_: Any) -> None:
        found.append((is_through_console(asked), listener.open))

    listener = ConsoleConnections(app, lambda: uses.append(listener.open))
    asyncio.run(listener(scope(), None, None))  # type: ignore[arg-type]
    assert found == [(True, 1)]
    assert (uses, listener.open) == ([0, 0], 0)
