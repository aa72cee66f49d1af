"""`GET /watch` over the whole app: events as they come, at the cost of one query for all
watchers."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import Any

import pytest
import sqlalchemy as sa

from tests.support.api import Exchange, RunningApp

WATCHERS = 20


def next_event(stream: Exchange, subject: str) -> dict[str, Any]:
    """Read on until that subject; heartbeats are blank lines."""
    while True:
        for line in stream.piece().splitlines():
            if line and json.loads(line)["subject"] == subject:
                found: dict[str, Any] = json.loads(line)
                return found


def happen(pool: RunningApp, subject: str) -> None:
    with pool.store.write() as write:
        write.event("test.happened", subject)


def test_an_event_is_read_once_for_every_watcher(pool: RunningApp) -> None:
    read: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        read.extend([statement] * statement.startswith("SELECT events."))

    with ExitStack() as stack:
        streams = [stack.enter_context(pool.client().stream("watch")) for _ in range(WATCHERS)]
        happen(pool, "ready")
        for stream in streams:
            next_event(stream, "ready")
        sa.event.listen(pool.store.engine, "before_cursor_execute", note)
        stack.callback(sa.event.remove, pool.store.engine, "before_cursor_execute", note)
        happen(pool, "one")
        told = [next_event(stream, "one") for stream in streams]
    assert {(event["kind"], event["seq"]) for event in told} == {("test.happened", told[0]["seq"])}
    assert len(read) == 1


def test_a_watcher_goes_on_after_the_last_number_it_has_seen(pool: RunningApp) -> None:
    with pool.client().stream("watch") as stream:
        happen(pool, "first")
        first = next_event(stream, "first")
    happen(pool, "second")
    with pool.client().stream("watch", params={"after": first["seq"]}) as stream:
        assert json.loads(stream.piece().splitlines()[0])["subject"] == "second"


@pytest.mark.parametrize("path", ["events", "watch"])
def test_a_position_of_another_log_is_refused_with_the_epoch_of_this_one(
    pool: RunningApp, path: str
) -> None:
    told = pool.client().get("pool").json()
    refused = pool.client().get(path, params={"after": 0, "epoch": "e-another"})
    assert (refused.status, refused.code) == (409, "GP-4004")
    assert refused.json()["numbers"]["event_epoch"] == told["event_epoch"]


def test_a_page_and_a_stream_name_the_epoch_that_they_take_back(pool: RunningApp) -> None:
    epoch = pool.client().get("pool").json()["event_epoch"]
    assert epoch
    page = pool.client().get("events", params={"epoch": epoch})
    assert page.status == 200
    assert page.headers["gpupool-event-epoch"] == epoch
    with pool.client().stream("watch", params={"epoch": epoch}) as stream:
        happen(pool, "heard")
        next_event(stream, "heard")
        assert stream.answer().headers["gpupool-event-epoch"] == epoch
