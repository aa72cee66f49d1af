"""SCIM as identity providers call it: the tester of a client library, and what Entra ID and Okta send."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpupool.base.errors import SignonRefused
from gpupool.signon.rules import ExternalPerson
from gpupool.wire.signon import RuleIn, RulesIn
from tests.support.api import Answer, Client, RunningApp, running_app
from tests.support.scim_client import make_scim_client

ROOT = "/scim/v2"
USER = "urn:ietf:params:scim:schemas:core:2.0:User"
GROUP = "urn:ietf:params:scim:schemas:core:2.0:Group"
PATCH = "urn:ietf:params:scim:api:messages:2.0:PatchOp"


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningApp]:
    with running_app(tmp_path_factory.mktemp("scim")) as running:
        admin = running.client()
        for tenant in ("nlp", "vision"):
            assert admin.post("tenants", {"name": tenant}).status == 201
        rules = [
            RuleIn(group="admins", role="admin", tenant="nlp"),
            RuleIn(group="gpu-nlp", role="user", tenant="nlp"),
            RuleIn(group="gpu-vision", role="user", tenant="vision"),
        ]
        body = RulesIn(rules=rules).model_dump()
        assert admin.put("sso/rules", body).status == 200
        yield running


def account(pool: RunningApp, name: str, tenant: str = "nlp") -> Client:
    admin = pool.client()
    body = {"name": name, "tenant": tenant, "role": "scim", "kind": "service"}
    assert admin.post("users", body).status == 201
    return pool.client(None, token=pool.token(name, scopes=["scim"]))


def add(caller: Client, user_name: str, **more: Any) -> Answer:
    body = {"schemas": [USER], "userName": user_name, "active": True, **more}
    return caller.post(f"{ROOT}/Users", body)


def add_group(caller: Client, name: str, *members: str) -> str:
    body = {"schemas": [GROUP], "displayName": name, "members": [{"value": one} for one in members]}
    made = caller.post(f"{ROOT}/Groups", body)
    assert made.status == 201, made.body
    return str(made.json()["id"])


def patch(caller: Client, path: str, *operations: dict[str, Any]) -> Answer:
    return caller.patch(f"{ROOT}/{path}", {"schemas": [PATCH], "Operations": list(operations)})


def person(pool: RunningApp, name: str) -> dict[str, Any] | None:
    found = pool.client().get(f"users/{name}")
    return dict(found.json()) if found.status == 200 else None


def leaver(pool: RunningApp, name: str) -> dict[str, Any]:
    rows = pool.client().get("sso/leavers", params={"all": "true"}).json()["items"]
    (row,) = [row for row in rows if row["user"] == name]
    return dict(row)


#: What the tester sends that no identity provider does. A person without `active` is active, and the
#: name of a member is the person's own.
DEVIATIONS = ("did not remove attribute 'active'", "unexpected value for 'members'")


@pytest.mark.nightly
def test_the_tester_of_the_client_library_finds_no_fault(pool: RunningApp) -> None:
    from scim2_tester import Status, check_server

    client = make_scim_client(account(pool, "tester"))
    results = check_server(client)
    assert len(results) > 20
    faults = [
        f"{one.title}: {one.reason}"
        for one in results
        if one.status not in (Status.SUCCESS, Status.SKIPPED, Status.ACCEPTABLE, Status.COMPLIANT)
    ]
    others = [one for one in faults if not any(known in one for known in DEVIATIONS)]
    assert others == [], "\n".join(others)
    assert len(faults) <= 3


def test_groups_give_the_rights_that_rules_say_and_no_others(pool: RunningApp) -> None:
    entra = account(pool, "entra")
    made = add(entra, "alice@example.org", externalId="oid-1").json()
    assert person(pool, "alice") is None
    group = add_group(entra, "gpu-nlp", made["id"])
    found = person(pool, "alice")
    assert found is not None
    assert (found["tenant"], found["role"], found["disabled"]) == ("nlp", "user", False)
    # Roles of the pool and of other tenants are not this account's to give.
    add_group(entra, "admins", made["id"])
    add_group(entra, "gpu-vision", made["id"])
    found = person(pool, "alice")
    assert found is not None
    assert (found["tenant"], found["role"]) == ("nlp", "user")
    removed = patch(
        entra,
        f"Groups/{group}",
        {"op": "Remove", "path": "members", "value": [{"value": made["id"]}]},
    )
    assert removed.status == 200, removed.body
    found = person(pool, "alice")
    assert found is not None
    assert found["disabled"]
    row = leaver(pool, "alice")
    assert (row["tenant"], row["provider"], row["act"]) == ("nlp", "entra", "keep")
    assert row["due_ns"] - row["made_ns"] == 3600 * 10**9
    # A person that gets a group within the hour is no leaver any more.
    add_group(entra, "gpu-nlp", made["id"])
    found = person(pool, "alice")
    assert found is not None
    assert not found["disabled"]


def test_a_role_of_the_pool_outlives_the_groups_of_one_tenant(pool: RunningApp) -> None:
    ping = account(pool, "ping")
    made = add(ping, "olga@example.org", externalId="o-1").json()
    group = add_group(ping, "gpu-nlp", made["id"])
    changed = pool.client().patch("users/olga", {"role": "operator"})
    assert changed.status == 200, changed.body
    removed = patch(ping, f"Groups/{group}", {"op": "Remove", "path": "members"})
    assert removed.status == 200, removed.body
    found = person(pool, "olga")
    assert found is not None
    assert (found["role"], found["disabled"]) == ("operator", False)


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "Replace", "path": "active", "value": "False"},
        {"op": "replace", "value": {"active": False}},
        {"op": "replace", "path": "active", "value": False},
    ],
)
@pytest.mark.sampled(3)
def test_a_deactivated_person_is_a_leaver_in_every_words(
    pool: RunningApp, operation: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    number = request.node.callspec.indices["operation"]
    okta = account(pool, f"okta-{number}")
    made = add(okta, f"bob-{number}@example.org", externalId=f"b-{number}").json()
    add_group(okta, "gpu-nlp", made["id"])
    assert patch(okta, f"Users/{made['id']}", operation).json()["active"] is False
    found = person(pool, f"bob-{number}")
    assert found is not None
    assert found["disabled"]
    row = leaver(pool, f"bob-{number}")
    assert row["due_ns"] is None
    assert (row["provider"], row["act"]) == (f"okta-{number}", "keep")
    # A login that the provider still lets through gives back no right that SCIM has taken away.
    sessions = pool.services.signon.sessions
    name = f"okta-{number}"
    known = ExternalPerson(name, f"scim:{name}", f"b-{number}", "bob", ("gpu-nlp",))
    with pytest.raises(SignonRefused, match="deactivated"):
        sessions.open_token(known)
    back = patch(okta, f"Users/{made['id']}", {"op": "Replace", "path": "active", "value": "True"})
    assert back.json()["active"] is True
    found = person(pool, f"bob-{number}")
    assert found is not None
    assert not found["disabled"]
    assert sessions.open_token(known).user == f"bob-{number}"
    assert okta.delete(f"{ROOT}/Users/{made['id']}").status == 204
    assert okta.get(f"{ROOT}/Users/{made['id']}").status == 404
    found = person(pool, f"bob-{number}")
    assert found is not None
    assert found["disabled"]


@pytest.mark.parametrize("has_user", [True, False])
def test_a_deactivated_person_logs_in_as_no_user_of_its_own(
    pool: RunningApp, has_user: bool
) -> None:
    name = "ada" if has_user else "abe"
    provider = account(pool, f"of-{name}")
    made = add(provider, name, externalId=f"{name}-1").json()
    if has_user:
        add_group(provider, "gpu-nlp", made["id"])
    off = patch(
        provider, f"Users/{made['id']}", {"op": "replace", "path": "active", "value": False}
    )
    assert off.json()["active"] is False
    admin = pool.client()
    if has_user:
        assert admin.delete(f"users/{name}").status == 204
        assert admin.post("users", {"name": name, "tenant": "nlp"}).status == 201
    known = ExternalPerson(f"of-{name}", f"scim:of-{name}", f"{name}-1", name, ("gpu-nlp",))
    with pytest.raises(SignonRefused, match=f"has deactivated {name} by SCIM"):
        pool.services.signon.sessions.open_token(known)
    assert person(pool, f"{name}-2") is None
    # What the provider says of the former person is nothing to the next one of its name.
    assert provider.delete(f"{ROOT}/Users/{made['id']}").status == 204
    found = person(pool, name)
    assert (found is None) == (not has_user)
    assert found is None or not found["disabled"]


def test_filters_find_one_person_and_a_name_is_taken_once(pool: RunningApp) -> None:
    okta = account(pool, "okta")
    made = add(okta, "Carol@Example.org", externalId="c-1", name={"givenName": "Carol"})
    assert made.status == 201
    assert made.headers["content-type"].startswith("application/scim+json")
    for text in (
        'userName eq "carol@example.ORG"',
        'externalId eq "c-1"',
        'name.givenName sw "Ca"',
    ):
        found = okta.get(f"{ROOT}/Users", params={"filter": text}).json()
        assert [one["userName"] for one in found["Resources"]] == ["Carol@Example.org"]
    assert (
        okta.get(f"{ROOT}/Users", params={"filter": 'userName eq "no"'}).json()["totalResults"] == 0
    )
    again = add(okta, "carol@example.org")
    assert (again.status, again.json()["scimType"]) == (409, "uniqueness")
    wrong = okta.get(f"{ROOT}/Users", params={"filter": "userName is"})
    assert (wrong.status, wrong.json()["scimType"]) == (400, "invalidFilter")


def test_an_account_sees_nothing_of_another_one(pool: RunningApp) -> None:
    mine = account(pool, "first")
    other = account(pool, "second", "vision")
    made = add(mine, "dave@example.org", externalId="d-1").json()
    assert other.get(f"{ROOT}/Users/{made['id']}").status == 404
    assert other.delete(f"{ROOT}/Users/{made['id']}").status == 404
    assert other.get(f"{ROOT}/Users").json()["totalResults"] == 0
    group = {"schemas": [GROUP], "displayName": "g", "members": [{"value": made["id"]}]}
    assert other.post(f"{ROOT}/Groups", group).status == 400


def test_only_a_token_of_a_service_account_with_that_scope_alone_may(pool: RunningApp) -> None:
    admin = pool.client()
    assert admin.get(f"{ROOT}/Users").status == 403
    assert pool.client(None).get(f"{ROOT}/Users").status == 401
    assert admin.post("users", {"name": "person-scim", "role": "scim"}).status == 201
    assert pool.client(None, token=pool.token("person-scim")).get(f"{ROOT}/Users").status == 403
    assert account(pool, "third").get("jobs").status == 403


def test_a_person_that_moved_to_another_tenant_is_left_alone(pool: RunningApp) -> None:
    mine = account(pool, "moving")
    made = add(mine, "erin@example.org", externalId="e-1").json()
    group = add_group(mine, "gpu-nlp", made["id"])
    assert pool.client().patch("users/erin", {"tenant": "vision"}).status == 200
    assert mine.delete(f"{ROOT}/Groups/{group}").status == 204
    assert mine.get(f"{ROOT}/Users").status == 200
    found = person(pool, "erin")
    assert found is not None
    assert (found["tenant"], found["disabled"]) == ("vision", False)
    assert (
        patch(
            mine, f"Users/{made['id']}", {"op": "replace", "path": "active", "value": False}
        ).status
        == 409
    )
