"""The SDK's doors: every route of sign-on, services and advice has a use."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from gpupool.base.errors import WrongState
from gpupool.client import Pool
from tests.unit.client.scripted_pool import Request, ScriptedPool, reply

OPENAPI = Path(__file__).parents[3] / "docs/reference/openapi.json"
TAGS = {"sign-on", "services", "advice"}
OIDC = {"issuer": "https://login.example.com", "client_id": "gpupool"}
USES: tuple[Callable[[Pool], object], ...] = (
    lambda pool: pool.sign_on.list_providers(),
    lambda pool: pool.sign_on.read_provider("x"),
    lambda pool: pool.sign_on.set_provider("x", oidc=OIDC),
    lambda pool: pool.sign_on.delete_provider("x"),
    lambda pool: pool.sign_on.check_provider("x"),
    lambda pool: pool.sign_on.explain(["staff"], provider="x"),
    lambda pool: pool.sign_on.read_rules(),
    lambda pool: pool.sign_on.set_rules([]),
    lambda pool: pool.sign_on.sync("x"),
    lambda pool: pool.sign_on.list_leavers(),
    lambda pool: pool.sign_on.list_policies(),
    lambda pool: pool.sign_on.set_policy(act="stop"),
    lambda pool: pool.sign_on.delete_policy(tenant="x"),
    lambda pool: pool.sign_on.set_password("x", "correct horse"),
    lambda pool: pool.sign_on.remove_password("x"),
    lambda pool: pool.sign_on.begin_totp("x"),
    lambda pool: pool.sign_on.confirm_totp("x", "123456"),
    lambda pool: pool.sign_on.remove_totp("x"),
    lambda pool: pool.services.list(),
    lambda pool: pool.services.get("x"),
    lambda pool: pool.services.create_from_template("x", "vllm", {}),
    lambda pool: pool.services.plan("x", min_replicas=2),
    lambda pool: pool.services.list_events("x"),
    lambda pool: pool.services.scale("x", 2),
    lambda pool: pool.services.delete("x"),
    lambda pool: pool.rightsizing.families(),
    lambda pool: pool.rightsizing.backtest(),
    lambda pool: pool.rightsizing.tenants(),
    lambda pool: pool.rightsizing.layouts(),
    lambda pool: pool.rightsizing.policies(),
    lambda pool: pool.rightsizing.policy("x"),
    lambda pool: pool.rightsizing.set_policy({}),
    lambda pool: pool.rightsizing.try_policy({}),
    lambda pool: pool.rightsizing.remove_policy("x"),
)


def refuse(_asked: Request) -> bytes:
    return reply({"code": WrongState.code, "detail": "no", "status": 409}, status=409)


def test_every_route_of_sign_on_services_and_advice_has_a_use(tmp_path: Path) -> None:
    routes = set()
    for path, methods in json.loads(OPENAPI.read_text())["paths"].items():
        for method, facts in methods.items():
            if TAGS.intersection(facts["tags"]):
                routes.add((method.upper(), re.sub(r"{\w+}", "x", path)))
    with ScriptedPool(tmp_path, refuse) as server, Pool(tmp_path) as pool:
        for use in USES:
            with pytest.raises(WrongState):
                use(pool)
        used = {(asked.method, asked.target.partition("?")[0]) for asked in server.requests}
    assert used == routes
