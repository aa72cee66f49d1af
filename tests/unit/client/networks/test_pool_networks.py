"""The SDK's networks: each use is one request of the REST API, and every route has a use."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpupool.base.errors import WrongState
from gpupool.client import Pool
from tests.unit.client.scripted_pool import Request, ScriptedPool, reply

OPENAPI = Path(__file__).parents[4] / "docs/reference/openapi.json"
ROUTES = re.compile(
    r"/api/v1/(networks|network-(engine|firewall|verifications|gateway-drills)"
    r"|tenants/{tenant}/network-quota)\b"
)
#: Routes that the SDK leaves to admins' tools.
WITHOUT_USE = {
    ("GET", "/api/v1/networks/{}/load-balancers/{}"),  # its list has the same
    ("GET", "/api/v1/networks/{}/lines/{}"),  # so has theirs
    ("GET", "/api/v1/networks/{}/floating-ips/{}"),
    ("GET", "/api/v1/network-verifications"),
}
KINDS = (
    "load_balancers",
    "port_forwards",
    "floating_ips",
    "security_groups",
    "peerings",
    "lines",
    "routes",
    "flow_logs",
    "mirrors",
)


def list_uses() -> list[Callable[[Pool], object]]:
    """Every use of the SDK's networks, with names where a path has them."""
    uses: list[Callable[[Pool], object]] = [
        lambda pool: list(pool.networks),
        lambda pool: pool.networks.create("x", "10.0.0.0/24"),
        lambda pool: pool.networks.engine(),
        lambda pool: pool.networks.enable(),
        lambda pool: pool.networks.disable(),
        lambda pool: pool.networks.verify(),
        lambda pool: pool.networks.list_quotas("x"),
        lambda pool: pool.networks.set_quotas("x", lines=4),
        lambda pool: list(pool.networks.firewall),
        lambda pool: pool.networks.firewall.create(action="deny", prefix="10.0.0.0/8"),
        lambda pool: pool.networks.firewall.delete("x"),
        lambda pool: pool.networks.get("x").show(),
        lambda pool: pool.networks.get("x").delete(),
        lambda pool: pool.networks.get("x").create_subnet("10.0.1.0/24", "x"),
        lambda pool: pool.networks.get("x").delete_subnet("x"),
        lambda pool: pool.networks.get("x").set_default(),
        lambda pool: pool.networks.get("x").set_default(is_default=False),
        lambda pool: pool.networks.get("x").create_gateway(),
        lambda pool: pool.networks.get("x").delete_gateway(),
        lambda pool: pool.networks.get("x").drill_gateway(),
        lambda pool: pool.networks.get("x").check_reach("10.0.0.2", "x"),
        lambda pool: pool.networks.get("x").show_limits(),
        lambda pool: pool.networks.get("x").set_limit(in_kbit=1000),
        lambda pool: pool.networks.get("x").delete_limit("x"),
        lambda pool: pool.networks.get("x").accept_peering("x"),
        lambda pool: pool.networks.get("x").create_rule("x", protocol="tcp"),
        lambda pool: pool.networks.get("x").delete_rule("x", "x"),
        lambda pool: pool.networks.get("x").set_certificate("x", "PEM"),
        lambda pool: pool.networks.get("x").drain("x", "x"),
        lambda pool: pool.networks.get("x").end_drain("x", "x"),
        lambda pool: pool.networks.get("x").read_flows("x"),
        lambda pool: list(pool.networks.get("x").dns_records),
        lambda pool: pool.networks.get("x").dns_records.create(name="x", address="10.0.0.9"),
        lambda pool: pool.networks.get("x").dns_records.delete("x", "x"),
    ]
    for kind in KINDS:
        uses.append(lambda pool, kind=kind: list(getattr(pool.networks.get("x"), kind)))
        uses.append(lambda pool, kind=kind: getattr(pool.networks.get("x"), kind).create(name="x"))
        uses.append(lambda pool, kind=kind: getattr(pool.networks.get("x"), kind).delete("x"))
    return uses


def refuse(_: Request) -> bytes:
    problem = {"code": "GP-2007", "title": "WrongState", "detail": "no", "status": 409}
    return reply(problem, 409, kind="application/problem+json")


def read_routes() -> set[tuple[str, str]]:
    found = set[tuple[str, str]]()
    for path, methods in json.loads(OPENAPI.read_text())["paths"].items():
        if ROUTES.match(path):
            generic = re.sub(r"{\w+}", "{}", path)
            found |= {(method.upper(), generic) for method in methods}
    return found


def test_every_route_of_networks_has_a_use_and_each_use_a_route(tmp_path: Path) -> None:
    wanted = read_routes() - WITHOUT_USE
    with ScriptedPool(tmp_path, refuse) as server, Pool(tmp_path) as pool:
        for use in list_uses():
            with pytest.raises(WrongState):
                use(pool)
        sent = set[tuple[str, str]]()
        for one in server.requests:
            path = one.target.partition("?")[0]
            sent.add((one.method, re.sub(r"/x\b", "/{}", path)))
    # Reads that follow a request which was refused.
    follow_ups = {("GET", "/api/v1/network-verifications/{}")}
    follow_ups.add(("GET", "/api/v1/network-gateway-drills/{}"))
    assert sent - wanted == set(), "the SDK asks what the API does not have"
    lacking = "give these routes a use in client/networks, or name them in WITHOUT_USE"
    assert wanted - follow_ups - sent == set(), lacking


def test_names_are_quoted_and_the_owner_goes_with_each_request(tmp_path: Path) -> None:
    with ScriptedPool(tmp_path, lambda _: reply([])) as server, Pool(tmp_path) as pool:
        lab = pool.networks.get("a/b", tenant="vision")
        assert list(lab.routes) == []
        lab.dns_records.delete("db", "fd00::1")
        targets = [one.target for one in server.requests]
    assert targets == [
        "/api/v1/networks/a%2Fb/routes?tenant=vision",
        "/api/v1/networks/a%2Fb/dns-records/db/fd00:%3A1?tenant=vision".replace("%3A", ":"),
    ]


def test_a_network_is_created_once_and_deleted_by_its_handle(tmp_path: Path) -> None:
    def answer(asked: Request) -> bytes:
        return reply({"name": "lab"}, 201) if asked.method == "POST" else reply(status=204)

    with ScriptedPool(tmp_path, answer) as server, Pool(tmp_path) as pool:
        lab = pool.networks.create("lab", "10.0.0.0/24", cidr6="auto", mtu=1400)
        lab.delete()
        created, deleted = server.requests
    assert created.json == {
        "name": "lab",
        "subnets": [{"cidr": "10.0.0.0/24", "cidr6": "auto"}],
        "tenant": None,
        "mtu": 1400,
    }
    assert "idempotency-key" in {name.lower() for name in created.headers}
    assert (deleted.method, deleted.target) == ("DELETE", "/api/v1/networks/lab")


def test_a_job_names_its_network_address_and_groups(tmp_path: Path) -> None:
    with ScriptedPool(tmp_path, refuse) as server, Pool(tmp_path) as pool:
        with pytest.raises(WrongState):
            pool.submit(
                ["true"], gpu=0.1, network="lab", address="10.0.0.9", security_groups=["web"]
            )
        launch: dict[str, Any] = server.requests[0].json["launch"]
    assert launch["network"] == {
        "name": "lab",
        "security_groups": ["web"],
        "address": "10.0.0.9",
    }


def test_exposures_of_a_job_are_created_listed_and_deleted(tmp_path: Path) -> None:
    with ScriptedPool(tmp_path, refuse) as server, Pool(tmp_path) as pool:
        for use in (
            lambda: pool.networks.expose("serve", 8000, is_http=True),
            lambda: pool.networks.list_exposures("serve"),
            lambda: pool.networks.unexpose("serve", 8000),
        ):
            with pytest.raises(WrongState):
                use()
        sent = [(one.method, one.target) for one in server.requests]
        body = server.requests[0].json
    assert sent == [
        ("POST", "/api/v1/jobs/serve/exposures"),
        ("GET", "/api/v1/jobs/serve/exposures"),
        ("DELETE", "/api/v1/jobs/serve/exposures/8000"),
    ]
    assert body == {"port": 8000, "is_http": True, "host": None, "name": None}
