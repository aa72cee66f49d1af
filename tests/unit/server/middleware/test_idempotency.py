"""A request under an Idempotency-Key takes effect once, whatever is repeated, at once, or killed in
between."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from fastapi import Depends

from gpupool.base.errors import DiskFull
from gpupool.model.tenant import Permission
from gpupool.store.idempotency import KEEP_NS
from gpupool.store.tables import idempotency
from gpupool.store.tables import pool as pool_table
from gpupool.tenancy.access import require_caller
from tests.support.api import Answer, Client, RunningApp, running_app

KEY = {"Idempotency-Key": "k-1"}


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[RunningApp]:
    with running_app(tmp_path) as running:
        yield running


def create(client: Client, name: str = "blue", key: str = "k-1") -> Answer:
    return client.post("tenants", {"name": name}, headers={"Idempotency-Key": key})


def rows(pool: RunningApp) -> int:
    with pool.store.read() as connection:
        return connection.execute(sa.select(sa.func.count()).select_from(idempotency)).scalar_one()


def tenant_names(pool: RunningApp) -> list[str]:
    return [one["name"] for one in pool.client().get("tenants").json()["items"]]


def test_a_repetition_gets_the_same_answer_and_changes_nothing(pool: RunningApp) -> None:
    first, again = create(pool.client()), create(pool.client())
    assert (first.status, first.body) == (again.status, again.body) == (201, first.body)
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    assert tenant_names(pool) == ["blue", "default"]


def test_without_a_key_a_repetition_is_a_request_of_its_own(pool: RunningApp) -> None:
    assert [pool.client().post("tenants", {"name": "blue"}).status for _ in range(2)] == [201, 409]
    assert rows(pool) == 0


def test_a_repetition_after_a_restart_gets_the_same_answer(tmp_path: Path) -> None:
    with running_app(tmp_path) as pool:
        first = create(pool.client())
    with running_app(tmp_path) as pool:
        assert create(pool.client()).body == first.body


@pytest.mark.parametrize("method", ["DELETE", "PUT"])
def test_every_method_that_changes_something_can_be_repeated(pool: RunningApp, method: str) -> None:
    pool.client().post("tenants", {"name": "blue"})
    path, body = (
        ("tenants/blue", None)
        if method == "DELETE"
        else ("tenants/blue/quota", {"nominal_milli": 5})
    )
    answers = [pool.client().request(method, path, json_body=body, headers=KEY) for _ in range(2)]
    assert answers[0].status == answers[1].status < 300
    assert answers[0].body == answers[1].body


@pytest.mark.parametrize("path", ["tenants/blue/quota", "cohorts/lab"])
def test_a_repetition_names_the_generation_of_the_first_answer(pool: RunningApp, path: str) -> None:
    pool.client().post("tenants", {"name": "blue"})
    answers = [
        pool.client().request("PUT", path, json_body={"nominal_milli": 5}, headers=KEY)
        for _ in range(2)
    ]
    assert answers[1].headers["idempotency-replayed"] == "true"
    assert answers[1].headers["etag"] == answers[0].headers["etag"]


def test_the_same_key_with_another_body_or_address_is_a_mismatch(pool: RunningApp) -> None:
    create(pool.client())
    for answer in (create(pool.client(), "red"), pool.client().post("tokens", {}, headers=KEY)):
        assert (answer.status, answer.code) == (409, "GP-4002")
    assert tenant_names(pool) == ["blue", "default"]


def test_keys_of_two_users_are_two_keys(pool: RunningApp) -> None:
    for uid in (0, 4001):
        answer = pool.client(uid).post("tokens", {}, headers=KEY)
        assert answer.status == 201, answer.body


def test_a_refusal_is_not_recorded_and_is_judged_anew(pool: RunningApp) -> None:
    pool.client().post("tenants", {"name": "blue"})
    assert create(pool.client()).code == "GP-2006"
    pool.client().delete("tenants/blue")
    assert create(pool.client()).status == 201


@pytest.mark.parametrize("key", ["", "a b", "é", "x" * 129])
def test_a_key_that_cannot_be_kept_is_refused(pool: RunningApp, key: str) -> None:
    assert create(pool.client(), key=key).code == "GP-1000"
    assert tenant_names(pool) == ["default"]


def test_two_at_once_take_effect_once_and_get_one_answer(pool: RunningApp) -> None:
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: create(pool.client()), range(8)))
    assert {answer.status for answer in answers} == {201}
    assert len({answer.body for answer in answers}) == 1
    assert sum("idempotency-replayed" in answer.headers for answer in answers) == 7


def test_a_secret_is_not_kept_to_be_repeated(pool: RunningApp) -> None:
    first = pool.client().post("tokens", {}, headers=KEY)
    secret = first.json()["token"]
    again = pool.client().post("tokens", {}, headers=KEY)
    assert (again.status, again.code) == (409, "GP-4000")
    assert first.json()["id"] in again.json()["detail"]
    with pool.store.read() as connection:
        kept = connection.execute(sa.select(idempotency.c.response)).scalars().all()
    assert secret.split("_")[2] not in json.dumps(kept)
    assert len(pool.client().get("tokens").json()["items"]) == 1


def test_records_go_after_a_day(pool: RunningApp) -> None:
    create(pool.client())
    with pool.store.write() as write:
        write.execute(
            idempotency.update().values(created_ns=pool.store.running_ns(write.now_ns) - KEEP_NS)
        )
    assert create(pool.client()).code == "GP-2006"  # asked anew
    assert create(pool.client(), "red", "k-2").status == 201
    assert rows(pool) == 1


def test_time_in_which_no_server_ran_makes_no_record_older(tmp_path: Path) -> None:
    with running_app(tmp_path) as pool:
        first = create(pool.client())
        with pool.store.write() as write:
            before = write.now_ns - 2 * KEEP_NS
            write.execute(idempotency.update().values(created_ns=before))
        with (
            pool.store.engine.begin() as connection
        ):  # as after two days off, or with a clock that was set forward
            connection.execute(pool_table.update().values(ledger_ns=before))
    with running_app(tmp_path) as pool:
        assert create(pool.client()).body == first.body


def add_route(pool: RunningApp, work: Any) -> None:
    """A route of a room that does not know of keys: it writes, then does something else before it
    answers."""

    @pool.app.post("/api/v1/test", dependencies=[Depends(require_caller(Permission.READ))])
    def act() -> dict[str, str]:
        return work(pool)


def test_a_room_that_knows_nothing_of_keys_is_repeated_as_well(pool: RunningApp) -> None:
    done = []

    def work(pool: RunningApp) -> dict[str, str]:
        with pool.store.write() as write:
            write.event("test.done", f"{len(done)}")
        done.append(1)
        return {"number": str(len(done))}

    add_route(pool, work)
    answers = [pool.client().post("test", {}, headers=KEY).json() for _ in range(3)]
    assert answers == [{"number": "1"}] * 3
    assert len(done) == 1


def test_a_failure_after_the_effect_is_not_done_again(pool: RunningApp) -> None:
    done = []

    def work(pool: RunningApp) -> dict[str, str]:
        with pool.store.write() as write:
            write.event("test.done", "once")
        done.append(1)
        raise ZeroDivisionError

    add_route(pool, work)
    answers = [pool.client().post("test", {}, headers=KEY) for _ in range(2)]
    assert [answer.code for answer in answers] == ["GP-5900", "GP-4000"]
    assert len(done) == 1


def test_a_refusal_after_the_effect_is_never_kept_as_its_answer(pool: RunningApp) -> None:
    def work(pool: RunningApp) -> dict[str, str]:
        with pool.store.write() as write:
            write.event("test.done", "once")
            write.answer(201, {"made": "one"})
        raise DiskFull("the disk is full")

    add_route(pool, work)
    answers = [pool.client().post("test", {}, headers=KEY) for _ in range(2)]
    assert [(answer.status, answer.json()) for answer in answers] == [(201, {"made": "one"})] * 2
    assert "idempotency-replayed" not in answers[0].headers


def test_a_refusal_after_an_effect_without_an_answer_is_not_done_again(pool: RunningApp) -> None:
    def work(pool: RunningApp) -> dict[str, str]:
        with pool.store.write() as write:
            write.event("test.done", "once")
        raise DiskFull("the disk is full")

    add_route(pool, work)
    answers = [pool.client().post("test", {}, headers=KEY) for _ in range(2)]
    assert [answer.code for answer in answers] == ["GP-5006", "GP-4000"]


def test_while_the_first_is_under_way_the_second_waits_for_its_answer(pool: RunningApp) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def work(pool: RunningApp) -> dict[str, str]:
        with pool.store.write() as write:
            write.event("test.done", "once")
        entered.set()
        assert go_on.wait(30)
        return {"done": "yes"}

    add_route(pool, work)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(pool.client().post, "test", {}, headers=KEY)
        assert entered.wait(30)
        second = threads.submit(pool.client().post, "test", {}, headers=KEY)
        assert pool.client().get("/healthz").status == 200  # nobody else waits
        assert not second.done()
        go_on.set()
        assert first.result(30).body == second.result(30).body == b'{"done":"yes"}'


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.support.api import running_app
from gpupool.store import idempotency

def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)

if sys.argv[2] == "before the commit":
    idempotency.record_answer = kill
else:
    idempotency.IdempotentRequest.mark_committed = kill
with running_app(Path(sys.argv[1])) as pool:
    pool.client().post("tenants", {"name": "blue"}, headers={"Idempotency-Key": "k-1"})
"""


@pytest.mark.parametrize(
    ("where", "done"), [("before the commit", False), ("after the commit", True)]
)
def test_killed_between_effect_and_answer_it_is_done_once(
    tmp_path: Path, where: str, done: bool
) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path), where]
    root = Path(__file__).parents[4]
    killed = subprocess.run(
        command, check=False, cwd=root, env={**os.environ, "PYTHONPATH": str(root)}
    )
    assert killed.returncode == -signal.SIGKILL
    with running_app(tmp_path) as pool:
        assert ("blue" in tenant_names(pool)) == done
        answer = create(pool.client())
        assert answer.status == 201
        assert answer.json()["name"] == "blue"
        assert ("idempotency-replayed" in answer.headers) == done
