"""Templates over the API: versions, owners, who may use them, and the jobs that they make."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from gpupool.signon.tables import identities
from gpupool.tenancy.tables import users
from gpupool.wire.submissions import JobIn
from tests.api.test_fleet import node_body
from tests.support.api import Client, RunningApp, running_app

ALICE, BOB = 4001, 4002
MINE: dict[str, Any] = {
    "name": "mine",
    "version": 1,
    "summary": {"en": "Mine"},
    "fields": {
        "gpu": {"type": "number", "title": {"en": "GPU"}, "maximum": 1, "default": 0.25},
        "text": {"title": {"en": "Text"}, "required": True},
    },
    "job": {"argv": ["echo", "${text}"], "gpu": "${gpu}", "memory_gib": 1},
}


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningApp]:
    with running_app(tmp_path_factory.mktemp("pool")) as running:
        running.client().put("nodes/sim-0", node_body(2))
        running.services.allocations.placer.load()
        yield running


@pytest.fixture(autouse=True)
def clean(pool: RunningApp) -> Iterator[None]:
    """Remove what a test added, so that the next one starts with the shipped templates."""
    yield
    admin = pool.client()
    for row in admin.get("templates").json():
        params = {"tenant": row["tenant"]} if row["tenant"] else None
        if not row["shipped"]:
            assert admin.delete(f"templates/{row['name']}", params=params).status == 204


def add(client: Client, tenant: str | None = None, **change: Any) -> Any:
    return client.post("templates", {"template": MINE | change, "tenant": tenant})


@pytest.fixture(scope="module")
def made(pool: RunningApp) -> dict[str, Client]:
    """The admin, and an admin and a user of two tenants."""
    admin = pool.client()
    found = {"root": admin}
    for tenant in ("blue", "red"):
        assert admin.post("tenants", {"name": tenant}).status == 201
        for role in ("tenant-admin", "user"):
            name = f"{tenant}-{role}"
            assert admin.post("users", {"name": name, "tenant": tenant, "role": role}).status == 201
            found[name] = pool.client(None, token=pool.token(name))
    return found


def live_jobs(client: Client) -> list[str]:
    return [row["id"] for row in client.get("jobs").json()["items"]]


def names(client: Client) -> list[tuple[str, str | None]]:
    rows = client.get("templates").json()
    return [(row["name"], row["tenant"]) for row in rows if not row["shipped"]]


def test_a_version_never_changes_and_the_newest_added_is_the_default(pool: RunningApp) -> None:
    admin = pool.client()
    assert add(admin).status == 201
    assert add(admin).status == 201
    changed = add(admin, summary={"en": "Other"})
    assert (changed.status, changed.code) == (409, "GP-2173")
    assert changed.json()["numbers"] == {"version": 1, "next": 2}
    assert add(admin, version=2, summary={"en": "Other"}).json()["version"] == 2
    versions = admin.get("templates/mine/versions").json()
    assert [(one["version"], one["is_default"]) for one in versions] == [(2, True), (1, False)]
    assert admin.patch("templates/mine", {"default_version": 1}).json()["version"] == 1
    assert admin.get("templates/mine").json()["summary"]["en"] == "Mine"
    assert admin.get("templates/mine?version=2").json()["document"]["summary"]["en"] == "Other"
    assert admin.get("templates/mine?version=3").code == "GP-2170"
    assert admin.patch("templates/mine", {"default_version": 3}).code == "GP-2170"
    events = admin.get("events", params={"limit": 1000}).json()
    assert [event["kind"] for event in events].count("template.added") == 2


def test_a_removed_version_leaves_the_others(pool: RunningApp) -> None:
    admin = pool.client()
    add(admin)
    add(admin, version=2)
    assert admin.delete("templates/mine?version=2").status == 204
    assert admin.get("templates/mine").json()["versions"] == [1]
    assert admin.delete("templates/mine?version=2").code == "GP-2170"
    assert admin.delete("templates/mine").status == 204
    assert admin.get("templates/mine").code == "GP-2170"
    # Its name is free again, for another content too.
    assert add(admin, summary={"en": "Anew"}).status == 201


def test_a_shipped_template_is_disabled_and_extended_and_not_removed(pool: RunningApp) -> None:
    admin = pool.client()
    assert admin.delete("templates/training").code == "GP-2175"
    assert admin.patch("templates/training", {"enabled": False}).json()["enabled"] is False
    refused = pool.client(uid=ALICE).post("templates/training/render", {"values": {"script": "x"}})
    assert (refused.status, refused.code) == (409, "GP-2174")
    assert admin.patch("templates/training", {"enabled": True}).json()["versions"] == [1]
    own = admin.get("templates/training").json()["document"] | {"version": 2}
    assert admin.post("templates", {"template": own}).status == 201
    assert admin.get("templates/training").json()["version"] == 2
    assert admin.delete("templates/training?version=2").status == 204
    assert admin.get("templates/training").json()["version"] == 1
    assert add(admin, name="training").code == "GP-2173"


def test_a_tenants_template_comes_first_there_and_is_absent_elsewhere(
    made: dict[str, Client],
) -> None:
    blue = made["blue-tenant-admin"]
    assert add(blue, summary={"en": "Blue"}).json()["tenant"] == "blue"
    assert add(made["root"], summary={"en": "All"}).json()["tenant"] is None
    assert made["blue-user"].get("templates/mine").json()["summary"]["en"] == "Blue"
    assert made["red-user"].get("templates/mine").json()["summary"]["en"] == "All"
    assert made["red-user"].get("templates/mine?tenant=blue").code == "GP-2170"
    assert names(made["red-user"]) == [("mine", None)]
    assert names(made["root"]) == [("mine", None), ("mine", "blue")]
    assert made["red-tenant-admin"].patch("templates/mine", {"enabled": False}).status == 403
    assert add(made["red-tenant-admin"], "blue").code == "GP-3004"
    assert blue.delete("templates/mine").status == 204
    assert made["blue-user"].get("templates/mine").json()["summary"]["en"] == "All"


def test_templates_of_a_deleted_tenant_are_absent(made: dict[str, Client]) -> None:
    admin = made["root"]
    assert admin.post("tenants", {"name": "short"}).status == 201
    assert add(admin, "short").status == 201
    assert names(admin) == [("mine", "short")]
    assert admin.delete("tenants/short").status == 204
    assert names(admin) == []


def test_a_template_for_others_is_absent(pool: RunningApp, made: dict[str, Client]) -> None:
    admin = made["root"]
    add(admin, name="blues", users={"tenants": ["blue"]})
    add(admin, name="group", users={"groups": ["ml"]})
    add(admin, name="projects", users={"projects": ["vision"]})
    assert names(made["blue-user"]) == [("blues", None), ("projects", None)]
    assert names(made["red-user"]) == [("projects", None)]
    assert made["red-user"].get("templates/blues").code == "GP-2170"
    assert made["red-user"].post("templates/blues/render", {}).code == "GP-2170"
    use = {"values": {"text": "x"}}
    refused = made["red-user"].post("templates/projects/render", use)
    assert refused.status == 403
    assert "vision" in refused.json()["hint"]
    allowed = made["red-user"].post("templates/projects/render", use | {"project": "vision"})
    assert allowed.status == 200
    with pool.store.write() as write:
        find = sa.select(users.c.id).where(users.c.name == "red-user")
        row = {"provider": "p", "issuer": "i", "subject": "s", "groups": ["ml", "x"]}
        write.insert(
            identities,
            **row,
            user_id=write.execute(find).scalar_one(),
            seen_ns=write.now_ns,
            created_ns=write.now_ns,
        )
    assert ("group", None) in names(made["red-user"])


def test_an_older_version_for_fewer_people_is_not_theirs(made: dict[str, Client]) -> None:
    add(made["root"], users={"tenants": ["blue"]})
    add(made["root"], version=2)
    use = {"values": {"text": "x"}, "version": 1}
    assert made["red-user"].post("templates/mine/render", use).code == "GP-2170"
    assert made["blue-user"].post("templates/mine/render", use).status == 200
    for name, versions in (("red-user", [2]), ("blue-user", [2, 1]), ("root", [2, 1])):
        listed = made[name].get("templates/mine/versions").json()
        assert [one["version"] for one in listed] == versions
        shown = made[name].get("templates/mine", params={"version": 1})
        assert shown.status == (404 if name == "red-user" else 200)


def test_wrong_values_are_named_by_field_with_their_bounds(pool: RunningApp) -> None:
    admin = pool.client()
    add(admin)
    before = live_jobs(admin)
    for route in ("render", "run"):
        refused = admin.post(f"templates/mine/{route}", {"values": {"gpu": 3}})
        assert (refused.status, refused.code) == (400, "GP-2171")
        fields = {entry["field"]: entry for entry in refused.json()["numbers"]["fields"]}
        assert fields["gpu"]["value"] == 3
        assert fields["gpu"]["bounds"] == "a number of at most 1"
        assert fields["text"]["problem"] == "a value is needed"
    assert live_jobs(admin) == before


def test_what_render_says_is_what_run_submits_and_what_the_preview_takes(pool: RunningApp) -> None:
    admin = pool.client()
    add(admin)
    before = live_jobs(admin)
    use = {"values": {"text": "${gpu}; `id`"}, "name": "one"}
    made = admin.post("templates/mine/render", use).json()
    assert made["job"]["launch"]["argv"] == ["echo", "${gpu}; `id`"]
    assert made["command"] == (
        "env GPUPOOL_TEMPLATE=mine@1 gpupool submit --gpu 0.25 --memory 1GiB --name one"
        " -- echo '${gpu}; `id`'"
    )
    assert "launch:\n  argv:\n  - echo\n" in made["manifest"]
    assert live_jobs(admin) == before
    assert admin.post("jobs/preview", made["job"]).json()["outcome"] == "fits"
    ran = admin.post("templates/mine/run", use)
    assert ran.status == 201
    job = ran.json()["first"]
    assert (job["name"], job["command"], job["gpu_milli"]) == ("one", ["echo", "${gpu}; `id`"], 250)
    assert JobIn.model_validate(made["job"]).launch.env["GPUPOOL_TEMPLATE"] == "mine@1"


def test_a_run_that_is_repeated_with_its_key_is_one_job(pool: RunningApp) -> None:
    admin = pool.client()
    use = {"values": {"script": "t.py", "parameters": ["lr=1,2,3"], "gpu": 0.1, "memory": 1}}
    key = {"Idempotency-Key": "0123456789abcdef"}
    first = admin.post("templates/sweep/run", use, headers=key)
    again = admin.post("templates/sweep/run", use, headers=key)
    assert (first.status, again.status) == (201, 201)
    assert first.json()["array"] == again.json()["array"]
    assert first.json()["count"] == 3
    arrays = [row["array"] for row in admin.get("jobs").json()["items"] if row["array"]]
    assert set(arrays) == {first.json()["array"]}


def test_several_servers_of_one_port_need_a_network(pool: RunningApp) -> None:
    admin = pool.client()
    use = {"values": {"model": "m", "replicas": 2}, "name": "chat"}
    refused = admin.post("templates/vllm/render", use)
    assert refused.json()["numbers"]["fields"][0]["field"] == "replicas"
    alone = admin.post("templates/vllm/render", {**use, "values": {"model": "m"}}).json()
    assert alone["follow"] == ["gpupool port-forward chat 8000"]
    assert (alone["balancer"], alone["job"]["array"]) == (None, None)
    assert "127.0.0.1" in alone["job"]["launch"]["argv"]
    use["values"]["network"] = "front"
    made = admin.post("templates/vllm/render", use).json()
    assert made["balancer"] == {
        "network": "front",
        "body": {
            "name": "chat-lb",
            "port": 80,
            "target_port": 8000,
            "backends": ["chat"],
            "http": {"check_path": "/health"},
        },
    }
    line = "gpupool network lb-create front chat-lb --backend chat --target-port 8000 --http"
    assert made["follow"] == [f"{line} --check-path /health"]
    assert "0.0.0.0" in made["job"]["launch"]["argv"]
    assert (made["job"]["array"], made["job"]["launch"]["network"]["name"]) == (2, "front")
