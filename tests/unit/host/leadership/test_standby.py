"""What a standby answers, when it may lead, and where it is allowed."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import pytest
from starlette.types import Message

from gpupool.base.errors import BadOption
from gpupool.host.leadership.standby import (
    ASK_SECONDS,
    LeaderView,
    check_allowed,
    create_standby_app,
    find_advertised_address,
)
from gpupool.host.state.directory import PoolMarker
from gpupool.store.leadership import LeaderRecord

POSTGRES = "postgresql://gpupool@db/gpupool"


def leader(left_seconds: float) -> LeaderRecord:
    return LeaderRecord("holder", "instance", 3, "https://a:8443", left_seconds)


@dataclass
class Answered:
    status_code: int
    headers: dict[str, str]
    body: Any


class Client:
    """Requests to a standby that has this view."""

    def __init__(self, view: LeaderView) -> None:
        self._app = create_standby_app(lambda: view)

    def get(self, path: str) -> Answered:
        return self.request("GET", path)

    def request(self, method: str, path: str) -> Answered:
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        async def receive() -> Message:
            return {"type": "http.request", "body": b""}

        asyncio.run(
            self._app(
                {"type": "http", "method": method, "path": path, "headers": []}, receive, send
            )
        )
        headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return Answered(sent[0]["status"], headers, json.loads(sent[1]["body"]))


def client(view: LeaderView) -> Client:
    return Client(view)


def test_healthz_says_standby_and_who_leads() -> None:
    answer = client(LeaderView(leader(2.0))).get("/healthz")
    assert answer.status_code == 200
    assert {
        "ready": False,
        "role": "standby",
        "leader": "https://a:8443",
        "well": True,
    }.items() <= answer.body.items()


def test_healthz_fails_while_the_database_does_not_answer() -> None:
    answer = client(LeaderView(leader(2.0), "the database does not answer")).get("/healthz")
    assert (answer.status_code, answer.body["failing"]) == (503, ["database"])


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/api/v1/pool"), ("POST", "/api/v1/jobs"), ("GET", "/metrics")]
)
def test_everything_else_names_the_leader_and_when_to_ask_again(method: str, path: str) -> None:
    answer = client(LeaderView(leader(2.0))).request(method, path)
    problem = answer.body
    assert (answer.status_code, problem["code"], answer.headers["retry-after"]) == (
        503,
        "GP-5035",
        "1",
    )
    assert problem["numbers"]["leader"] == "https://a:8443"
    assert "the leader is https://a:8443; nothing was done" in problem["detail"]


@pytest.mark.parametrize(
    ("view", "may", "pause"),
    [
        (LeaderView(leader(2.0)), False, ASK_SECONDS),
        (LeaderView(leader(0.2)), False, 0.21),
        (LeaderView(leader(0.0)), True, 0.01),
        (LeaderView(None), True, ASK_SECONDS),
        (LeaderView(None, "no answer"), False, ASK_SECONDS),
    ],
)
def test_a_standby_may_lead_once_the_lease_is_over_by_the_database(
    view: LeaderView, may: bool, pause: float
) -> None:
    assert view.may_lead is may
    assert view.pause_seconds == pytest.approx(pause)


def test_a_standby_on_sqlite_is_refused_with_the_reason() -> None:
    with pytest.raises(BadOption, match="a pool on SQLite has one server"):
        check_allowed(PoolMarker("p-1", standby=True))
    check_allowed(PoolMarker("p-1", standby=True, store=POSTGRES))


def test_a_server_on_every_address_is_advertised_by_its_machine() -> None:
    assert (
        find_advertised_address(PoolMarker("p-1", listeners=("10.0.0.5:8470",)))
        == "http://10.0.0.5:8470"
    )
    secure = find_advertised_address(PoolMarker("p-1", listeners=(":8443",), tls_cert="c.pem"))
    assert secure.startswith("https://")
    assert secure.endswith(":8443")
    assert "://:" not in secure
