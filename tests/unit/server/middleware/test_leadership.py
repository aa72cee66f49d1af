"""Answers of a server whose lease ends: before a request, in its middle, and in the middle of an
answer."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from gpupool.base.errors import ExpiredLease
from gpupool.server.middleware.leadership import LeadershipMiddleware
from gpupool.store.leadership import LEASE_SECONDS, LeaderLease
from tests.support.hand_clock import Clock


class Lease(LeaderLease):
    """A lease that was renewed at the clock's 0."""

    def __init__(self, clock: Clock) -> None:
        super().__init__("holder", "instance", "http://a:8470", clock=clock)
        self._renewed = 0.0


class Asked:
    """An application that counts requests and sends two parts; the clock may move before each."""

    def __init__(self, clock: Clock, before_head: float = 0.0, before_body: float = 0.0) -> None:
        self._clock, self._before = clock, (before_head, before_body)
        self.count = 0

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        self.count += 1
        self._clock.now += self._before[0]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        self._clock.now += self._before[1]
        await send({"type": "http.response.body", "body": b"whole"})


def ask(app: Any) -> list[Message]:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    asyncio.run(app({"type": "http", "method": "GET", "path": "/", "headers": []}, receive, send))
    return sent


def code_of(sent: list[Message]) -> tuple[int, str]:
    return sent[0]["status"], json.loads(sent[1]["body"])["code"]


def test_a_server_with_its_lease_answers() -> None:
    clock = Clock()
    sent = ask(LeadershipMiddleware(Asked(clock), Lease(clock)))
    assert (sent[0]["status"], sent[1]["body"]) == (200, b"whole")


def test_a_server_without_a_lease_to_hold_answers() -> None:
    sent = ask(LeadershipMiddleware(Asked(Clock()), None))
    assert sent[0]["status"] == 200


def test_a_request_after_the_lease_is_refused_before_it_is_begun() -> None:
    clock = Clock(LEASE_SECONDS)
    app = Asked(clock)
    assert code_of(ask(LeadershipMiddleware(app, Lease(clock)))) == (503, "GP-5035")
    assert app.count == 0


def test_an_answer_is_replaced_when_the_lease_ended_while_it_was_made() -> None:
    clock = Clock()
    app = Asked(clock, before_head=LEASE_SECONDS)
    assert code_of(ask(LeadershipMiddleware(app, Lease(clock)))) == (503, "GP-5036")
    assert app.count == 1


def test_an_answer_that_is_half_out_when_the_lease_ends_breaks_off() -> None:
    clock = Clock()
    with pytest.raises(ExpiredLease):
        ask(LeadershipMiddleware(Asked(clock, before_body=LEASE_SECONDS), Lease(clock)))
