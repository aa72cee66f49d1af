"""Readers of the audit log: all, those of a tenant, none; filters, pages and the head."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import Client, RunningApp, running_app


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[RunningApp]:
    with running_app(tmp_path) as pool:
        admin = pool.client()
        for tenant in ("blue", "red"):
            assert admin.post("tenants", {"name": tenant}).status == 201
            assert (
                admin.post(
                    "users", {"name": f"chief-{tenant}", "tenant": tenant, "role": "tenant-admin"}
                ).status
                == 201
            )
        yield pool


def caller(pool: RunningApp, user: str) -> Client:
    return pool.client(uid=None, token=pool.token(user))


def items(client: Client, **params: Any) -> list[dict[str, Any]]:
    answer = client.get("audit", params={"order": "oldest", **params})
    assert answer.status == 200, answer.body
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


def test_a_tenants_admin_sees_its_tenant_alone_without_where_others_were(pool: RunningApp) -> None:
    chief = caller(pool, "chief-blue")
    other = caller(pool, "chief-red")
    assert chief.post("tenants/blue/projects", {"name": "chat"}).status == 201
    assert other.post("tenants/red/projects", {"name": "secret-project"}).status == 201
    found = items(chief)
    assert {one["user"] for one in found} == {"root", "chief-blue"}
    assert not any("chief-red" in str(one) or "secret-project" in str(one) for one in found)
    sources = {one["user"]: one["source"] for one in found}
    assert sources == {"root": None, "chief-blue": "192.0.2.1"}
    assert chief.get("audit", params={"tenant": "red"}).status == 404
    assert chief.get("audit/head").status == 404


@pytest.mark.parametrize("role", ["user", "viewer", "operator"])
def test_other_roles_find_no_audit_log(pool: RunningApp, role: str) -> None:
    tenant = {} if role == "operator" else {"tenant": "blue"}
    assert pool.client().post("users", {"name": "ada", "role": role, **tenant}).status == 201
    ada = caller(pool, "ada")
    assert (ada.get("audit").status, ada.get("audit/head").status) == (404, 404)


def test_an_auditor_sees_all_and_where_it_came_from(pool: RunningApp) -> None:
    assert pool.client().post("users", {"name": "eye", "role": "auditor"}).status == 201
    eye = caller(pool, "eye")
    assert items(eye) == items(pool.client())
    assert all(one["source"] for one in items(eye))
    assert eye.get("audit/head").json()["seq"] == len(items(eye))


def test_filters_narrow_and_join(pool: RunningApp) -> None:
    admin = pool.client()
    admin.delete("tenants/nope")
    assert [one["objects"] for one in items(admin, object="blue")] == [["blue"]]
    assert items(admin, object="blu") == []
    assert items(admin, object="%") == []
    assert {one["action"] for one in items(admin, action="/users")} == {"POST /api/v1/users"}
    assert [one["status"] for one in items(admin, kind="refusal")] == [404]
    assert [one["objects"] for one in items(admin, action="DELETE", user="root")] == [["nope"]]
    assert items(admin, user="chief-blue") == []
    assert items(admin, tenant="red")[-1]["objects"] == ["chief-red"]
    assert "blue" not in str(items(admin, tenant="red"))
    assert admin.get("audit", params={"tenant": "nope"}).status == 404
    instants = [one["at_ns"] for one in items(admin)]
    assert [one["at_ns"] for one in items(admin, since_ns=instants[2])] == instants[2:]
    assert [one["at_ns"] for one in items(admin, until_ns=instants[2])] == instants[:2]


@pytest.mark.parametrize("order", ["newest", "oldest"])
def test_pages_join_to_the_whole_list(pool: RunningApp, order: str) -> None:
    admin = pool.client()
    whole = admin.get("audit", params={"order": order}).json()["items"]
    found: list[dict[str, Any]] = []
    after = None
    while True:
        params = {"order": order, "limit": 3} | ({} if after is None else {"after": after})
        page = admin.get("audit", params=params).json()
        found += page["items"]
        after = page["next"]
        if after is None:
            break
    assert found == whole
    seqs = [one["seq"] for one in whole]
    assert seqs == sorted(seqs, reverse=order == "newest")
    assert admin.get("audit", params={"after": "x"}).code == "GP-1005"


def test_the_head_goes_into_the_event_log_when_it_moved(pool: RunningApp) -> None:
    service = pool.services.audit
    service.keep()
    service.keep()
    events = pool.client().get("events").json()
    heads = [one for one in events if one["kind"] == "audit.head"]
    known = pool.client().get("audit/head").json()
    assert [(one["subject"], one["data"]) for one in heads] == [
        (str(known["seq"]), {"hash": known["hash"]})
    ]
