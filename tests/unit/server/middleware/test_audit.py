"""What is recorded of requests: changes with their effect, refusals soon after, machines never."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from fastapi import Depends

from gpupool.model.tenant import Permission
from gpupool.server.app import MOUNTS
from gpupool.server.middleware.audit import COMPUTING, LOGINS, LOGOUTS
from gpupool.signon.local.locks import FREE_FAILURES
from gpupool.signon.tables import passwords
from gpupool.tenancy.access import require_caller
from tests.support.api import RunningApp, running_app
from tests.support.audit_logs import read_log, verify_log
from tests.support.browsers import Browser

ALICE = 4001
KEY = {"Idempotency-Key": "k-1"}
SECRET = "four words make sentences"


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[RunningApp]:
    with running_app(tmp_path) as pool:
        yield pool


def records(pool: RunningApp) -> list[dict[str, Any]]:
    pool.services.audit.recorder.flush()
    return read_log(pool.store)


def acts(pool: RunningApp) -> list[tuple[Any, ...]]:
    return [
        (one["kind"], one["action"], one["user"], one["status"], one["code"])
        for one in records(pool)
    ]


def add_route(pool: RunningApp, work: Callable[[], None]) -> None:
    caller = Depends(require_caller(Permission.READ))
    pool.app.add_api_route("/api/v1/test", work, methods=["POST"], dependencies=[caller])


def test_a_change_is_recorded_with_everything_about_its_caller(pool: RunningApp) -> None:
    pool.client().post("tenants", {"name": "blue"}, headers=KEY)
    (record,) = records(pool)
    assert record["source"].startswith("uid 0 pid ")
    del record["source"], record["at_ns"], record["hash"]
    assert record == {
        "seq": 1,
        "kind": "change",
        "action": "POST /api/v1/tenants",
        "user": "root",
        "tenant": "default",
        "role": "admin",
        "credential": "socket",
        "objects": ["blue"],
        "status": 201,
        "code": None,
        "request": "k-1",
        "changes": {"name": "blue"},
        "times": 1,
        "previous": "0" * 64,
    }


def test_a_repetition_of_a_request_is_no_second_act(pool: RunningApp) -> None:
    for _ in range(3):
        assert pool.client().post("tenants", {"name": "blue"}, headers=KEY).status == 201
    assert len(records(pool)) == 1


def test_a_record_costs_one_statement_and_no_transaction(pool: RunningApp) -> None:
    said: list[str] = []
    commits: list[object] = []
    engine = pool.store.engine
    admin = pool.client()
    admin.post("tenants", {"name": "first"})
    sa.event.listen(
        engine, "before_cursor_execute", lambda *call: said.append(" ".join(call[2].split()))
    )
    sa.event.listen(engine, "commit", commits.append)
    assert admin.post("tenants", {"name": "blue"}).status == 201
    inserts = [text for text in said if "audit_records" in text]
    assert [text.split("(")[0].strip() for text in inserts] == ["INSERT INTO audit_records"]
    assert len(commits) == 1
    # The head is read and written with the pool's row, as the end of the event log is.
    assert len([text for text in said if text.startswith("UPDATE pool")]) == 1


def test_a_reading_writes_nothing(pool: RunningApp) -> None:
    for path in ("tenants", "jobs", "pool", "audit", "audit/head"):
        assert pool.client().get(path).status == 200
    assert records(pool) == []


def test_refusals_by_rights_are_recorded_also_of_readings(pool: RunningApp) -> None:
    pool.client().post("tenants", {"name": "blue"})
    pool.client().post("users", {"name": "ada", "tenant": "blue"})
    ada = pool.client(uid=None, token=pool.token("ada"))
    before = len(records(pool))
    assert ada.delete("tenants/blue").status == 403
    assert ada.get("cohorts").status == 403
    assert ada.get("jobs/j-foreign").status == 404
    assert ada.get("audit").status == 404
    assert ada.post("jobs/j-foreign/stop").status == 404
    assert ada.post("jobs", {"shape": 1}).status == 422
    found = records(pool)[before:]
    assert [(one["action"], one["status"], one["objects"]) for one in found] == [
        ("DELETE /api/v1/tenants/{tenant}", 403, ["blue"]),
        ("GET /api/v1/cohorts", 403, []),
        ("GET /api/v1/jobs/{job}", 404, ["j-foreign"]),
        ("POST /api/v1/jobs/{job}/stop", 404, ["j-foreign"]),
        ("POST /api/v1/jobs", 422, []),
    ]
    assert {one["kind"] for one in found} == {"refusal"}
    assert {(one["user"], one["source"]) for one in found} == {("ada", "192.0.2.1")}
    assert found[0]["credential"].startswith("token t-")


def test_a_wrong_credential_is_recorded_without_it_and_a_stranger_is_not(pool: RunningApp) -> None:
    assert pool.client(uid=None).get("tenants").status == 401
    assert records(pool) == []
    assert pool.client(uid=None, token="gpp_t-0000000000_secret").get("tenants").status == 401
    (record,) = records(pool)
    assert (record["action"], record["status"]) == ("authenticate", 401)
    assert (record["user"], record["source"]) == (None, "192.0.2.1")
    assert "secret" not in json.dumps(record)


def test_logins_name_the_user_and_failures_the_account(pool: RunningApp) -> None:
    pool.client().post("users", {"name": "ada"})
    assert pool.client().put("users/ada/password", {"password": SECRET}).status == 204
    stranger = pool.client(uid=None)
    before = len(records(pool))
    right = {"user": "ada", "password": SECRET}
    assert stranger.post("/login/local", right | {"password": "wrong " + SECRET}).status == 401
    assert stranger.post("/login/local", right).status == 200
    assert stranger.post("/login/local", right | {"user": SECRET}).status == 401
    assert stranger.post("/login", {"token": pool.token("ada")}).status == 200
    logins = [
        (one["user"], one["status"], "ada" in one["objects"])
        for one in records(pool)[before:]
        if one["kind"] == "login"
    ]
    assert sorted(logins, key=str) == [
        ("ada", None, False),
        ("ada", None, True),
        (None, 401, False),
        (None, 401, True),
    ]
    assert SECRET not in json.dumps(records(pool))


def test_a_locked_login_is_recorded_with_its_code(pool: RunningApp) -> None:
    pool.client().post("users", {"name": "ada"})
    pool.client().put("users/ada/password", {"password": SECRET})
    wrong = {"user": "ada", "password": "wrong " + SECRET}
    with pool.store.write() as write:
        write.execute(passwords.update().values(failures=FREE_FAILURES - 1))
    codes = [pool.client(uid=None).post("/login/local", wrong).code for _ in range(2)]
    assert codes == ["GP-3042", "GP-3043"]
    found = [(one["code"], one["objects"]) for one in records(pool) if one["kind"] == "login"]
    assert found == [("GP-3042", ["ada"]), ("GP-3043", ["ada"])]


def test_a_session_of_a_browser_is_named_and_its_logout_too(pool: RunningApp) -> None:
    browser = Browser(pool)
    assert browser.log_in(pool.token("root")).status == 204
    assert browser.post("tenants", {"name": "blue"}).status == 201
    assert browser.post("/logout").status == 204
    change, logout = records(pool)[-2:]
    assert change["credential"].startswith("session s-")
    assert (logout["kind"], logout["user"]) == ("logout", "root")


def test_a_program_of_a_tenant_is_told_apart(pool: RunningApp) -> None:
    pool.client().post("users", {"name": "ci", "kind": "service", "role": "tenant-admin"})
    program = pool.client(uid=None, token=pool.token("ci"))
    assert program.post("tenants/default/projects", {"name": "chat"}).status == 201
    assert records(pool)[-1]["credential"].startswith("service-token t-")


def test_what_machines_report_is_not_recorded(pool: RunningApp) -> None:
    pool.client().post("users", {"name": "node", "role": "agent"})
    agent = pool.client(uid=None, token=pool.token("node"))
    before = len(records(pool))
    assert agent.put("nodes/node-1", {"devices": []}).status in (200, 201, 204)
    assert agent.post("nodes/node-1/reports", {"reports": []}).status in (200, 204)
    assert agent.put("nodes/node-1", {"devices": 7}).status == 422
    assert len(records(pool)) == before
    assert agent.get("jobs").status == 403
    assert records(pool)[-1]["user"] == "node"


def test_a_request_that_computes_is_not_recorded_and_one_that_acts_is(pool: RunningApp) -> None:
    admin = pool.client()
    assert admin.post("sso/explain", {"groups": []}).status == 200
    assert records(pool) == []
    add_route(pool, lambda: None)
    assert admin.post("test").status == 200
    assert acts(pool) == [("request", "POST /api/v1/test", "root", 200, None)]


def test_an_effect_whose_answer_fails_is_recorded_twice(pool: RunningApp) -> None:
    def work() -> None:
        with pool.store.write() as write:
            write.event("test.done", "thing-1", tenant_id=1)
        raise RuntimeError("behind the commit")

    add_route(pool, work)
    assert pool.client().post("test").status == 500
    change, answer = records(pool)
    assert (change["kind"], change["objects"], change["status"]) == ("change", ["thing-1"], 200)
    assert (answer["kind"], answer["status"], answer["code"]) == ("answer", 500, "GP-5900")
    assert answer["data"]["of_seq"] == change["seq"]


def test_a_change_that_rolls_back_leaves_a_refusal_alone(pool: RunningApp) -> None:
    assert pool.client().post("tenants", {"name": "blue"}).status == 201
    assert pool.client().post("tenants", {"name": "blue"}).status == 409
    assert [(one["kind"], one["status"]) for one in records(pool)] == [
        ("change", 201),
        ("refusal", 409),
    ]
    assert verify_log(pool.store).fault is None


def test_every_action_that_is_treated_apart_is_a_route() -> None:
    routes = set[str]()
    for mount in MOUNTS:
        for route in mount.router.routes:
            for method in getattr(route, "methods", None) or ():
                routes.add(f"{method} {mount.prefix}{getattr(route, 'path', '')}")
    assert routes >= COMPUTING | LOGINS | LOGOUTS
