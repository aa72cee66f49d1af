"""No answer goes out before what it may tell of is on disk."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gpupool.base.errors import DiskFull
from gpupool.server.middleware.acknowledge import DurableAnswer, DurableAnswerMiddleware

LENGTH = {"type": "http.response.start", "status": 200, "headers": [(b"Content-Length", b"2")]}
STREAM = {"type": "http.response.start", "status": 200, "headers": []}
BODY = {"type": "http.response.body", "body": b"ok"}
SCOPE = {"type": "http", "method": "GET", "path": "/x", "headers": []}


class Durability:
    """Counts its waits; the one of that number fails."""

    def __init__(self, fails_at: int = 0) -> None:
        self.waits = 0
        self.fails_at = fails_at

    async def await_durable(self) -> None:
        self.waits += 1
        if self.waits == self.fails_at:
            raise DiskFull("the disk is full")


def answer(durability: Any, *messages: dict[str, Any]) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def talk() -> None:
        made = DurableAnswer(SCOPE, receive, send, durability)
        for message in messages:
            await made.send(message)

    asyncio.run(talk())
    return sent


def test_a_head_with_a_length_waits_with_its_body_for_one_flush() -> None:
    durability = Durability()
    assert answer(durability, LENGTH, BODY) == [LENGTH, BODY]
    assert durability.waits == 1


def test_a_head_without_a_length_goes_out_by_itself() -> None:
    durability = Durability()
    assert answer(durability, STREAM) == [STREAM]
    assert durability.waits == 1


def test_lost_commits_are_answered_by_the_error_in_place_of_the_answer() -> None:
    sent = answer(Durability(fails_at=1), LENGTH, BODY, BODY)
    assert [one["type"] for one in sent] == ["http.response.start", "http.response.body"]
    assert sent[0]["status"] == 507
    assert (b"connection", b"close") in sent[0]["headers"]


def test_an_answer_that_is_half_out_breaks_off() -> None:
    with pytest.raises(DiskFull):
        answer(Durability(fails_at=2), STREAM, BODY)


@pytest.mark.parametrize("path", ["/healthz", "/services/web/v1/chat"])
def test_what_tells_of_no_commit_waits_for_nothing(path: str) -> None:
    durability: Any = Durability()

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send(BODY)

    async def ask(path: str) -> None:
        async def ignore(_message: Any) -> None:
            return

        layer = DurableAnswerMiddleware(app, durability)
        await layer({**SCOPE, "path": path}, ignore, ignore)  # type: ignore[arg-type]

    asyncio.run(ask(path))
    assert durability.waits == 0
    asyncio.run(ask("/api/v1/pool"))
    assert durability.waits == 1
