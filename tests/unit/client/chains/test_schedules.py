"""The SDK's schedules: each use is one request of the REST API, and every route has a use."""

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
ROUTES = re.compile(r"/api/v1/schedule(s|-instants)\b")
USES: tuple[Callable[[Pool], object], ...] = (
    lambda pool: list(pool.schedules),
    lambda pool: pool.schedules.get("x"),
    lambda pool: pool.schedules.instants("0 2 * * *", count=3),
    lambda pool: pool.schedules.add("x", "0 2 * * *", "python eval.py", gpu=1),
    lambda pool: pool.schedules.change("x", "0 3 * * *"),
    lambda pool: pool.schedules.runs("x"),
    lambda pool: pool.schedules.pause("x"),
    lambda pool: pool.schedules.resume("x"),
    lambda pool: pool.schedules.run("x"),
    lambda pool: pool.schedules.remove("x"),
)


def refuse(_asked: Request) -> bytes:
    return reply({"code": WrongState.code, "detail": "no", "status": 409}, status=409)


def test_every_route_of_schedules_has_a_use(tmp_path: Path) -> None:
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


def test_a_schedule_is_sent_with_the_job_that_submit_would_send(tmp_path: Path) -> None:
    with ScriptedPool(tmp_path, refuse) as server, Pool(tmp_path) as pool:
        with pytest.raises(WrongState):
            pool.schedules.add("nightly", "0 2 * * *", "python eval.py", gpu=0.5, overlap="queue")
        with pytest.raises(WrongState):
            pool.submit("python eval.py", gpu=0.5)
        body, job = (asked.json for asked in server.requests)
    assert (body["name"], body["cron"], body["overlap"]) == ("nightly", "0 2 * * *", "queue")
    assert body["job"] == job
