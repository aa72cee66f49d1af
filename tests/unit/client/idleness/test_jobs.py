"""The SDK's idle jobs: each use is one request of the REST API, and every route has a use."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from gpupool.base.errors import WrongState
from gpupool.client import Pool
from gpupool.client.idleness.jobs import Idleness
from tests.unit.client.scripted_pool import Request, ScriptedPool, reply

OPENAPI = Path(__file__).parents[4] / "docs/reference/openapi.json"
ROUTES = re.compile(r"/api/v1/(idle/|jobs/{job}/idle\b)")
USES: tuple[Callable[[Idleness], object], ...] = (
    lambda idle: idle.jobs(),
    lambda idle: idle.job("x"),
    lambda idle: idle.keep("x"),
    lambda idle: idle.report(),
    lambda idle: idle.policies(),
    lambda idle: idle.policy("x"),
    lambda idle: idle.set_policy({}),
    lambda idle: idle.remove_policy("x"),
)


def refuse(_asked: Request) -> bytes:
    return reply({"code": WrongState.code, "detail": "no", "status": 409}, status=409)


def test_every_route_of_idle_jobs_has_a_use(tmp_path: Path) -> None:
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
                use(pool.idle)
        used = {(asked.method, asked.target.partition("?")[0]) for asked in server.requests}
    assert used == routes
