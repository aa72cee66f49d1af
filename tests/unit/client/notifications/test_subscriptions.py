"""The SDK's messages: each use is one request of the REST API, and every route has a use."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from gpupool.base.errors import WrongState
from gpupool.client import Pool
from tests.unit.client.scripted_pool import Request, ScriptedPool, reply

OPENAPI = Path(__file__).parents[4] / "docs/reference/openapi.json"
ROUTES = re.compile(r"/api/v1/(subscriptions|deliveries|notification-settings)\b")
USES: tuple[Callable[[Pool], object], ...] = (
    lambda pool: list(pool.notifications),
    lambda pool: pool.notifications.get("x"),
    lambda pool: pool.notifications.add("x", "mail", "ada@example.com", ["job-failed"]),
    lambda pool: pool.notifications.delete("x"),
    lambda pool: pool.notifications.test("x"),
    lambda pool: pool.notifications.deliveries(state="dead"),
    lambda pool: pool.notifications.retry("x"),
    lambda pool: pool.notifications.settings(),
    lambda pool: pool.notifications.set_mail_server("smtp.example.com", "gpupool@example.com"),
)


def refuse(_asked: Request) -> bytes:
    return reply({"code": WrongState.code, "detail": "no", "status": 409}, status=409)


def test_every_route_of_messages_has_a_use(tmp_path: Path) -> None:
    paths = json.loads(OPENAPI.read_text())["paths"]
    routes = {
        (method.upper(), re.sub(r"{\w+}", "x", path))
        for path, methods in paths.items()
        if ROUTES.match(path)
        for method in methods
    }
    with ScriptedPool(tmp_path, refuse) as server, Pool(tmp_path) as pool:
        for use in USES:
            with pytest.raises(WrongState):
                use(pool)
        used = {(asked.method, asked.target.partition("?")[0]) for asked in server.requests}
    assert used == routes


def test_a_host_is_allowed_beside_the_others_and_denied_again(tmp_path: Path) -> None:
    hosts = [{"host": "a.example", "private": False, "plain": False}]

    def keep_hosts(asked: Request) -> bytes:
        if asked.method == "PUT":
            hosts[:] = asked.json["hosts"]
        return reply({"hosts": hosts, "mail": None})

    with ScriptedPool(tmp_path, keep_hosts), Pool(tmp_path) as pool:
        pool.notifications.allow("b.example", private=True)
        pool.notifications.allow("b.example", plain=True)
        found = [(one.host, one.private, one.plain) for one in pool.notifications.settings().hosts]
        assert found == [("a.example", False, False), ("b.example", False, True)]
        pool.notifications.deny("a.example")
        pool.notifications.deny("a.example")
        assert [one.host for one in pool.notifications.settings().hosts] == ["b.example"]
