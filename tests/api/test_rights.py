"""Role x route x credential, and whose thing it is: what `rights.txt` says is what the server does,
for every route.

The routes are walked in the app, so that a new one without a line in the table fails here.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from gpupool.base.ids import new_id
from gpupool.base.units import GIB
from gpupool.host.state.job_logs import LocalLogs
from gpupool.model.tenant import UnixIdentity
from gpupool.network import service as network_service
from gpupool.notifications.tables import deliveries, subscriptions
from gpupool.tenancy.accounts import UnixAccounts
from gpupool.tenancy.tables import tokens
from tests.support.api import Answer, Client, RunningApp, running_app
from tests.support.browsers import Browser
from tests.support.routes import closed

TABLE = Path(__file__).with_name("rights.txt")
ROLES = ("viewer", "user", "tenant-admin", "admin", "agent", "scrape", "meter")
PEOPLE = ROLES[:4]
SHAPE = {"gpu_milli": 10, "memory_bytes": GIB}
# Its tenant may have a default network in some cases, which is not carried here.
LAUNCH = {"argv": ["true"], "network": {"name": "none"}}
JOB: dict[str, Any] = {"shape": SHAPE, "launch": LAUNCH}
LATER = {"shape": SHAPE, "start_ns": time.time_ns() + 10**15, "end_ns": time.time_ns() + 2 * 10**15}

SCHEDULE: dict[str, Any] = {"name": "some-1", "cron": "0 2 1 1 *", "job": JOB}
SERVICE: dict[str, Any] = {"name": "some-1", "job": JOB, "rule": {"min_replicas": 0}}
BALANCER = {"name": "some-1", "port": 80, "target_port": 8000, "backends": ["serve"]}

#: A request that is right in itself, so that a refusal is of the caller. Routes without a line are
#: sent no body.
NETWORKS = "/api/v1/networks"
SUBSCRIPTION = {
    "name": "some-1",
    "format": "mail",
    "address": "ada@example.com",
    "topics": ["job-failed"],
}
#: A template that everybody may use, and that makes a small job.
TEMPLATE = {
    "name": "some-1",
    "version": 1,
    "summary": {"en": "x"},
    "job": {"argv": ["true"], "gpu": 0.01, "memory_gib": 1, "network": "none"},
}
BODIES: Mapping[str, Any] = {
    "POST /api/v1/tenants": {"name": "some-1"},
    "PUT /api/v1/tenants/{tenant}/quota": {},
    "POST /api/v1/tenants/{tenant}/projects": {"name": "some-1"},
    "PUT /api/v1/cohorts/{cohort}": {},
    "POST /api/v1/users": {"name": "some-2"},
    "PATCH /api/v1/users/{user}": {},
    "POST /api/v1/users/{user}/handover": {"to": "loose-b", "dry_run": True},
    "POST /api/v1/tokens": {},
    "POST /api/v1/subscriptions": SUBSCRIPTION,
    "PUT /api/v1/notification-settings": {},
    "POST /api/v1/secrets/rotate": {},
    "POST /api/v1/deliveries/{delivery}/retry": {},
    "PUT /api/v1/sso/providers/{provider}": {
        "ldap": {"url": "ldaps://127.0.0.1:1", "base_dn": "dc=x"}
    },
    "PUT /api/v1/sso/rules": {"rules": []},
    "POST /api/v1/sso/explain": {"groups": []},
    "PUT /api/v1/sso/leaver-policies": {"act": "stop"},
    "POST /api/v1/sso/sync": {"provider": "some-1"},
    "PUT /api/v1/users/{user}/password": {"password": "four words make sentences"},
    "PUT /api/v1/users/{user}/totp": {"code": "000000"},
    "PUT /api/v1/nodes/{node}": {"devices": []},
    "POST /api/v1/nodes/{node}/reports": {"reports": []},
    "POST /api/v1/devices/adopt": {"devices": ["some-1"]},
    "POST /api/v1/devices/{device}/mode": {"mode": "mig", "dry_run": True},
    "POST /api/v1/devices/modes": {"mode": "mig", "cards": [{"device": "some-1"}], "dry_run": True},
    "POST /api/v1/devices/release": {"devices": ["some-1"]},
    "PUT /api/v1/cluster/nodes/{node}": {"born_ns": 1, "generation": 1, "cards": []},
    "POST /api/v1/networks": {"name": "some-1", "subnets": [{"cidr": "10.0.0.0/24"}]},
    "POST /api/v1/networks/{network}/peerings": {"accepter": "v-0000000000"},
    "POST /api/v1/networks/{network}/subnets": {"cidr": "10.0.1.0/24"},
    "POST /api/v1/networks/{network}/security-groups": {"name": "some-1"},
    "POST /api/v1/networks/{network}/load-balancers": BALANCER,
    "PUT /api/v1/networks/{network}/load-balancers/{balancer}/certificate": {"certificate": "x"},
    "POST /api/v1/networks/{network}/load-balancers/{balancer}/drains": {"job": "web"},
    "POST /api/v1/network-verifications": {},
    "PUT /api/v1/networks/{network}/limits": {"in_kbit": 20_000},
    "PUT /api/v1/tenants/{tenant}/bandwidth-cap": {"in_kbit": 20_000},
    "PUT /api/v1/tenants/{tenant}/network-quota": {"lines": 4},
    "POST /api/v1/jobs/{job}/exposures": {"port": 8000},
    "POST /api/v1/jobs/{job}/streams": {"kind": "port", "port": 8000},
    "POST /api/v1/jobs/{job}/visits": {},
    "POST /api/v1/networks/{network}/port-forwards": {"target": "web", "target_port": 80},
    "POST /api/v1/networks/{network}/floating-ips": {"target": "web"},
    "POST /api/v1/networks/{network}/routes": {"prefix": "172.20.0.0/16", "discard": True},
    "POST /api/v1/networks/{network}/flow-logs": {"name": "refused"},
    "POST /api/v1/networks/{network}/mirrors": {
        "name": "copies",
        "source": "web",
        "target": "sensor",
    },
    "POST /api/v1/network-firewall": {"action": "deny", "prefix": "10.0.0.0/8"},
    "PUT /api/v1/network-gateways": {"nodes": ["node-1", "node-2"], "address": "10.0.0.9"},
    "PUT /api/v1/plane-nodes": {"nodes": []},
    "PUT /api/v1/plane-inventory": {},
    "PUT /api/v1/plane-evidence/{target}": {"text": "x"},
    "POST /api/v1/networks/{network}/dns-records": {"name": "db", "address": "10.0.0.9"},
    "POST /api/v1/networks/{network}/lines": {
        "vlan": 200,
        "address": "192.168.200.1/29",
        "peer": "192.168.200.6",
        "asn": 64512,
        "peer_asn": 65001,
        "allowed": ["172.20.0.0/16"],
    },
    "POST /api/v1/networks/{network}/security-groups/{group}/rules": {"protocol": "any"},
    "PUT /api/v1/prices/{price_list}": {
        "from_ns": 0,
        "currency": "EUR",
        "rates": [{"model": "*", "price_micro": 1}],
    },
    "POST /api/v1/energy/factors": {"pue_milli": 1300, "grid_milligrams": 500_000},
    "PUT /api/v1/budgets": {"tenant": "blue", "amount": 1_000_000},
    "PUT /api/v1/idle/policies": {"steps": [{"act": "warn", "after_seconds": 3000}]},
    "PUT /api/v1/advice/policies": {"mode": "off"},
    "POST /api/v1/advice/policies/trial": {},
    "POST /api/v1/jobs/{job}/idle/keep": {},
    "POST /api/v1/faults/{incident}/close": {},
    "POST /api/v1/seals": {"month": "2026-01"},
    "POST /api/v1/adjustments": {"tenant": "blue", "amount_micro": -1, "reason": "credit"},
    "POST /api/v1/templates": {"template": TEMPLATE},
    "PATCH /api/v1/templates/{template}": {"enabled": True},
    "POST /api/v1/templates/{template}/render": {},
    "POST /api/v1/templates/{template}/run": {},
    "POST /api/v1/jobs": JOB,
    "POST /api/v1/jobs/plan": JOB,
    "POST /api/v1/jobs/preview": JOB,
    "POST /api/v1/jobs/{job}/stop": {},
    "POST /api/v1/jobs/{job}/resize": {"gpu_milli": 20},
    "POST /api/v1/whatif": {"remove": ["some-1"]},
    "POST /api/v1/schedules": SCHEDULE | {"name": "some-1"},
    "PUT /api/v1/schedules/{schedule}": {
        "cron": "0 3 * * *",
        "time_zone": "UTC",
        "overlap": "skip",
        "deadline_seconds": 600,
    },
    "POST /api/v1/services": SERVICE | {"name": "some-1"},
    "POST /api/v1/services/{service}/plan": {"rule": {"max_replicas": 2}},
    "PATCH /api/v1/services/{service}": {"rule": {"max_replicas": 2}},
    "POST /api/v1/reservations": {"name": "some-1", **LATER},
    "POST /api/v1/defrag/plan": {"seconds": 0},
    "POST /api/v1/rebalance/plan": {},
    "POST /api/v1/defrag/moves": {
        "moves": [{"job": "some-1", "cards": ["some-1"], "generations": [1]}]
    },
}


QUERIES = {
    "GET /api/v1/networks/{network}/reach": {"source": "10.0.0.2", "target": "web"},
    "GET /api/v1/documents/{month}": {"format": "focus"},
    "GET /api/v1/schedule-instants": {"cron": "0 2 * * *"},
}


def sections() -> dict[str, list[list[str]]]:
    """The lines of the table by section, cut into words."""
    found: dict[str, list[list[str]]] = {}
    for line in TABLE.read_text().splitlines():
        words = line.split()
        if not words or words[0] == "#":
            continue
        if words[0].startswith("["):
            found[words[0].strip("[]")] = lines = []
        else:
            lines.append(words)
    return found


BY_ROLE = {
    f"{method} {path}": dict(zip(ROLES, cells, strict=True))
    for method, path, *cells in sections()["roles"]
}
WHOSE = {
    (f"{method} {path}", whose): dict(zip(PEOPLE, cells, strict=True))
    for whose, method, path, *cells in sections()["whose"]
}
OF_THE_POOL = {words[0] for words in sections()["pool"]}


class AnyAccount(UnixAccounts):
    """A machine on which every uid from 5000 on is an account."""

    def by_uid(self, uid: int) -> UnixIdentity | None:
        return (
            UnixIdentity(uid, uid, f"account-{uid}" if uid else "root")
            if uid >= 5000 or uid == 0
            else None
        )

    def by_name(self, name: str) -> UnixIdentity | None:
        return self.by_uid(int(name.removeprefix("account-")))

    def groups(self, account: UnixIdentity) -> list[int]:
        return [account.gid]


@dataclass
class World:
    """Two tenants with people of every role, two cards, and things made as they are needed."""

    pool: RunningApp
    uids: dict[str, int]
    numbers: Iterator[int]

    @property
    def admin(self) -> Client:
        return self.pool.client()

    def add(self, name: str, tenant: str, role: str = "user", *, bound: bool = True) -> str:
        self.uids[name] = uid = 5000 + next(self.numbers)
        body = {
            "name": name,
            "tenant": tenant,
            "role": role,
            **({"unix_user": f"account-{uid}"} if bound else {}),
        }
        assert self.admin.post("users", body).status == 201
        return name

    def by_socket(self, name: str) -> Client:
        return self.admin if name == "root" else self.pool.client(self.uids[name])

    def by_token(self, name: str, uid: int | None = None) -> Client:
        return self.pool.client(uid, token=self.pool.token(name))

    def by_session(self, name: str) -> Client:
        made = self.pool.client(None).post("/login", {"token": self.pool.token(name)})
        return self.pool.client(None, token=made.json()["token"])

    def by_cookie(self, name: str) -> Browser:
        browser = Browser(self.pool)
        assert browser.log_in(self.pool.token(name)).status == 204
        return browser

    def session(self, owner: str) -> str:
        sessions = self.by_cookie(owner).get("sessions", params={"user": owner}).json()["items"]
        return next(str(row["id"]) for row in sessions if row["current"])

    def job(self, owner: str, **more: Any) -> str:
        name = f"job-{next(self.numbers)}"
        made = self.by_socket(owner).post("jobs", {**JOB, "name": name, **more})
        assert made.status == 201, made.body
        return name

    def token(self, owner: str) -> str:
        return self.pool.token(owner).split("_")[1]

    def subscription(self, owner: str) -> str:
        name = f"sub-{next(self.numbers)}"
        client = self.admin if owner == "root" else self.by_token(owner)
        assert client.post("subscriptions", SUBSCRIPTION | {"name": name}).status == 201
        return name

    def dead_delivery(self, owner: str) -> str:
        """A delivery of a subscription of `owner` that was given up."""
        name = self.subscription(owner)
        delivery = new_id("d")
        with self.pool.services.store.write() as write:
            query = sa.select(subscriptions.c.id).where(subscriptions.c.name == name)
            write.insert(
                deliveries,
                public_id=delivery,
                subscription_id=write.execute(query).scalar_one(),
                cause="event/1",
                topic="job-failed",
                subject="j-1",
                data={},
                at_ns=1,
                state="dead",
                due_ns=1,
            )
        return delivery

    def template(self, tenant: str) -> str:
        name = f"template-{next(self.numbers)}"
        body = {"template": TEMPLATE | {"name": name}, "tenant": tenant}
        assert self.admin.post("templates", body).status == 201
        return name

    def schedule(self, owner: str) -> str:
        name = f"schedule-{next(self.numbers)}"
        made = self.by_socket(owner).post("schedules", SCHEDULE | {"name": name})
        assert made.status == 201, made.body
        return name

    def service(self, owner: str) -> str:
        name = f"service-{next(self.numbers)}"
        made = self.by_socket(owner).post("services", SERVICE | {"name": name})
        assert made.status == 201, made.body
        return name

    def reservation(self, tenant: str) -> str:
        name = f"res-{next(self.numbers)}"
        assert (
            self.admin.post("reservations", {"name": name, "tenant": tenant, **LATER}).status == 201
        )
        return name

    def budget(self, tenant: str) -> str:
        made = self.admin.put("budgets", {"tenant": tenant, "amount": 10**15})
        assert made.status == 200, made.body
        return str(made.json()["id"])

    def idle_policy(self, tenant: str) -> str:
        steps = [{"act": "warn", "after_seconds": 3000}]
        made = self.admin.put("idle/policies", {"tenant": tenant, "steps": steps})
        assert made.status == 200, made.body
        return str(made.json()["id"])

    def advice_policy(self, tenant: str) -> str:
        made = self.admin.put("advice/policies", {"tenant": tenant})
        assert made.status == 200, made.body
        return str(made.json()["id"])

    def network(self, tenant: str) -> str:
        name = f"net-{next(self.numbers)}"
        subnets = [
            {"name": "default", "cidr": "10.0.0.0/24"},
            {"name": "other", "cidr": "10.0.2.0/24"},
        ]
        body = {"name": name, "tenant": tenant, "subnets": subnets}
        assert self.admin.post("networks", body).status == 201
        return name

    def security_group(self, network: str, tenant: str) -> dict[str, str]:
        """One with a rule; the names that its routes have."""
        path, params = f"networks/{network}/security-groups", {"tenant": tenant}
        assert self.admin.post(path, {"name": "web"}, params=params).status == 201
        made = self.admin.post(f"{path}/web/rules", {"protocol": "any"}, params=params).json()
        return {"group": "web", "rule": made["rules"][0]["id"]}

    def load_balancer(self, network: str, tenant: str) -> str:
        path, params = f"networks/{network}/load-balancers", {"tenant": tenant}
        made = self.admin.post(path, BALANCER | {"name": "web"}, params=params)
        return str(made.json()["name"])

    def peering(self, network: str, tenant: str) -> str:
        """One that the network of that tenant is asked for."""
        own = self.admin.get(f"networks/{network}", params={"tenant": tenant}).json()["id"]
        other = self.network("red" if tenant != "red" else "blue")
        made = self.admin.post(
            f"networks/{other}/peerings",
            {"accepter": own},
            params={"tenant": "red" if tenant != "red" else "blue"},
        )
        assert made.status == 201, made.body
        return str(made.json()["id"])


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    place = tmp_path_factory.mktemp("world")
    with running_app(place, accounts=AnyAccount()) as pool, pytest.MonkeyPatch.context() as patch:
        # Each case has networks of its own.
        patch.setattr(network_service, "MOST_NETWORKS", 10_000)
        pool.app.state.logs = LocalLogs(place)
        pool.app.state.brake.LONGEST_SECONDS = (
            0.0  # the brake on failing logins has tests of its own
        )
        made = World(pool, {}, itertools.count(1))
        for tenant in ("blue", "red"):
            assert made.admin.post("tenants", {"name": tenant}).status == 201
        for role in ROLES:
            made.add(f"{role}-b", "blue", role)
        made.add("bound-b", "blue")
        made.add("bound-r", "red")
        made.add("loose-b", "blue", bound=False)
        made.add("loose-r", "red", bound=False)
        cards = [
            {
                "uuid": f"GPU-{n}",
                "index": n,
                "vendor": "nvidia",
                "product": "NVIDIA H200",
                "model": "H200",
                "memory_bytes": 140 * GIB,
                "simulated": True,
                "health": "ok",
            }
            for n in range(8)
        ]
        registered = made.admin.put(
            "nodes/node-1", {"devices": cards, "simulated": True, "adopt": True}
        )
        assert registered.status == 200, registered.body
        yield made


def ask(client: Client | Browser, route: str, **filled: Any) -> Answer:
    """The request of that line, with these things in the path, the query or the body."""
    method, path = route.split(" ")
    body = BODIES.get(route)
    if "body" in filled:
        body = {**(body or {}), **filled.pop("body")}
    params = {**QUERIES.get(route, {}), **(filled.pop("params", None) or {})} or None
    for name in [part.strip("{}") for part in path.split("/") if part.startswith("{")]:
        path = path.replace(f"{{{name}}}", filled.get(name, "some-1"))
    if method == "GET" and path.endswith("/watch"):
        return watched(client)
    if isinstance(client, Browser):
        return client.request(method, path, body, params=params)
    return client.request(method, path, json_body=body, params=params)


def watched(client: Client | Browser) -> Answer:
    """A stream has no end: what it begins with."""
    if isinstance(client, Browser):
        client = client.client()
    with client.stream("watch") as stream:
        stream.piece()
        answer = stream.answer()
    return answer if answer.status != 200 else Answer(200, {}, b"")


def outcome(answer: Answer) -> str:
    """In the words of the table."""
    assert answer.status not in (405, 422), (
        f"not a request that is right in itself: {answer.body!r}"
    )
    assert answer.status < 500, answer.body
    if answer.status in (401, 403, 404):
        return {401: "stranger", 403: "no", 404: "absent"}[answer.status]
    told = answer.json() if answer.body.startswith(b"{") and answer.status == 200 else {}
    return "part" if isinstance(told, dict) and told.get("private") else "yes"


def test_every_route_has_its_lines_and_every_line_its_route(world: World) -> None:
    routes = {f"{route.method} {route.path}" for route in closed(world.pool)}
    assert routes == set(BY_ROLE), "a route without a line in rights.txt, or a line without a route"
    named = {route for route in routes if "{" in route}
    whose = {route for route, _ in WHOSE}
    assert whose <= routes
    assert named == {
        route for route in named if route in whose or route.split(" ")[1] in OF_THE_POOL
    }
    assert not {route for route in whose if route.split(" ")[1] in OF_THE_POOL}
    assert {
        path for path in OF_THE_POOL if not any(route.endswith(f" {path}") for route in routes)
    } == set()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(
    "credential", ["socket", "token", "session", "cookie", "token over somebody's socket"]
)
def test_a_role_may_what_the_table_says_whatever_it_comes_with(
    world: World, role: str, credential: str
) -> None:
    clients: dict[str, Callable[[str], Client | Browser]] = {
        "cookie": world.by_cookie,
        "socket": world.by_socket,
        "token": world.by_token,
        "session": world.by_session,
        "token over somebody's socket": lambda name: world.by_token(name, world.uids["bound-r"]),
    }
    client = clients[credential](f"{role}-b")
    found = {}
    for route, cells in BY_ROLE.items():
        told = outcome(ask(client, route))
        told = "yes" if told == "absent" else told
        if route == "POST /api/v1/tokens" and credential != "socket" and cells[role] == "yes":
            told = {"no": "yes"}.get(told, f"{told}, with a token that may not make any")
        if told != cells[role]:
            found[route] = f"{told} and not {cells[role]}"
    assert found == {}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "credential",
    [
        "none",
        "revoked",
        "expired",
        "child of a revoked one",
        "session of a revoked one",
        "of a disabled user",
    ],
)
def test_what_is_no_credential_any_more_opens_no_route(world: World, credential: str) -> None:
    client = world.pool.client(None, token=ended(world, credential))
    assert {route: outcome(ask(client, route)) for route in BY_ROLE} == dict.fromkeys(
        BY_ROLE, "stranger"
    )


def ended(world: World, how: str) -> str | None:
    if how == "none":
        return None
    name = world.add(f"gone-{next(world.numbers)}", "blue", "tenant-admin")
    text = world.pool.token(name, may_mint=True)
    bearer = world.pool.client(None, token=text)
    child = bearer.post("tokens", {}).json()["token"]
    session = world.pool.client(None).post("/login", {"token": text}).json()["token"]
    if how == "expired":
        with world.pool.store.write() as write:
            mine = tokens.c.id == text.split("_")[1]
            write.execute(tokens.update().where(mine).values(expires_ns=write.now_ns))
            write.announce("people")
    elif how == "of a disabled user":
        assert world.admin.patch(f"users/{name}", {"disabled": True}).status == 200
    else:
        assert world.admin.delete(f"tokens/{text.split('_')[1]}").status == 204
    return {"child of a revoked one": child, "session of a revoked one": session}.get(how, text)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("role", PEOPLE)
def test_whose_thing_it_is_decides_as_the_table_says(world: World, role: str) -> None:
    name = "root" if role == "admin" else f"{role}-b"
    client, found = world.by_socket(name), {}
    for (route, whose), cells in WHOSE.items():
        if cells[role] == "-":
            continue
        told = outcome(ask(client, route, **thing(world, route, whose, name)))
        if told != cells[role]:
            found[f"{whose} {route}"] = f"{told} and not {cells[role]}"
    assert found == {}


def thing(world: World, route: str, whose: str, caller: str) -> dict[str, Any]:
    """What the request names: made anew for every question, so that no answer depends on the one
    before."""
    tenant = {"foreign": "red", "own": "default" if caller == "root" else "blue"}.get(whose, "blue")
    owner = {"own": caller, "colleague": "loose-b", "bound": "bound-b", "foreign": "loose-r"}[whose]
    runner = {"own": caller, "colleague": "bound-b", "foreign": "bound-r"}.get(whose, "bound-b")
    path = route.split(" ")[1]
    if path == "/api/v1/report":
        return {"params": {"tenant": tenant}}
    if "{month}" in path:
        return {"month": "2026-01", "params": {"tenant": tenant}}
    if "{schedule}" in path:
        return {"schedule": world.schedule(runner)}
    if "{service}" in path:
        return {"service": world.service(runner)}
    if "{budget}" in path:
        return {"budget": world.budget(tenant)}
    if path == "/api/v1/templates":
        return {"body": {"tenant": tenant}}
    if "{template}" in path:
        is_use = path.endswith(("/render", "/run"))
        return {
            "template": world.template(tenant),
            **({"body": {"owner": tenant}} if is_use else {"params": {"tenant": tenant}}),
        }
    if "{policy}" in path:
        is_advice = path.startswith("/api/v1/advice/")
        make = world.advice_policy if is_advice else world.idle_policy
        return {"policy": make(tenant)}
    if path == "/api/v1/whatif":
        return {"body": {"remove": [], "nominal_milli": {tenant: 1000}, "horizon_seconds": 60}}
    if path == "/api/v1/tokens":
        return {"body": {"user": owner}}
    if path in (
        "/api/v1/jobs",
        "/api/v1/jobs/plan",
        "/api/v1/users",
        "/api/v1/reservations",
        NETWORKS,
    ):
        return {"body": {"tenant": tenant, "name": f"made-{next(world.numbers)}"}}
    if path.startswith(f"{NETWORKS}/"):
        elsewhere = whose == "foreign" or caller == "root"
        network, peering = world.network(tenant), ""
        if "{peering}" in path:
            peering = world.peering(network, tenant)
        parts = world.security_group(network, tenant) if "{group}" in path else {}
        if "{balancer}" in path:
            parts["balancer"] = world.load_balancer(network, tenant)
        return {
            "network": network,
            "subnet": "other",
            "peering": peering,
            **parts,
            "params": {"tenant": tenant} if elsewhere else None,
        }
    if "{job}" in path:
        return {"job": world.job(runner)}
    if "{array}" in path:
        return {"array": world.job(runner, array=3)}
    if "{delivery}" in path:
        return {"delivery": world.dead_delivery(owner)}
    if "{subscription}" in path:
        return {"subscription": world.subscription(owner), "params": {"user": owner}}
    if "{session}" in path:
        return {"session": world.session(owner)}
    if "{token}" in path:
        return {"token": world.token(owner)}
    if "{user}" in path:
        return {
            "user": caller
            if whose == "own"
            else world.add(f"user-{next(world.numbers)}", tenant, bound=False)
        }
    if "{tenant}" in path:
        return {
            "tenant": tenant,
            "body": {"name": f"project-{next(world.numbers)}"} if "projects" in path else {},
        }
    elsewhere = whose == "foreign" or caller == "root"
    return {"name": world.reservation(tenant), "params": {"tenant": tenant} if elsewhere else None}
