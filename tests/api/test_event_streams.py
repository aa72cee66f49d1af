"""`text/event-stream`: the watch and a job's output as a browser's EventSource reads them."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import Any

import pytest
import sqlalchemy as sa

from gpupool.allocations.routes import events as event_routes
from tests.support.api import Client, Exchange, RunningApp
from tests.support.browsers import Browser

EVENTS = {"accept": "text/event-stream"}
#: As many as the consoles of a large company.
STREAMS = 500


class Source:
    """Reads a stream as a browser does."""

    def __init__(self, stream: Exchange) -> None:
        self._stream = stream
        self._text = ""

    def frame(self) -> dict[str, str]:
        """The next frame: its fields by name; `:` is a comment."""
        while "\n\n" not in self._text:
            self._text += self._stream.piece().decode()
        text, _, self._text = self._text.partition("\n\n")
        pairs = (line.partition(":") for line in text.splitlines())
        return {name or ":": value.removeprefix(" ") for name, _, value in pairs}

    def event(self, subject: str) -> dict[str, str]:
        """Read on until an event of that subject."""
        while True:
            found = self.frame()
            if found.get("event") == "message" and json.loads(found["data"])["subject"] == subject:
                return found


def caller(pool: RunningApp, **headers: str) -> Client:
    client = pool.client()
    client.headers = EVENTS | {name.replace("_", "-"): text for name, text in headers.items()}
    return client


def last_seq(pool: RunningApp) -> int:
    return int(pool.client().get("pool").json()["last_event"])


def happen(pool: RunningApp, subject: str, tenant: str | None = None) -> None:
    with pool.store.write() as write:
        tenant_id = None
        if tenant is not None:
            query = sa.text("select id from tenants where name = :name")
            tenant_id = write.execute(query, {"name": tenant}).scalar_one()
        write.event("test.happened", subject, tenant_id=tenant_id)


def test_a_stream_begins_with_its_log_and_numbers_its_events(pool: RunningApp) -> None:
    after = last_seq(pool)
    with caller(pool).stream("watch", params={"after": after}) as stream:
        source = Source(stream)
        first = source.frame()
        assert first["event"] == "log"
        facts = json.loads(first["data"])
        assert facts == {"epoch": stream.answer().headers["gpupool-event-epoch"], "after": after}
        happen(pool, "one\nline")
        found = source.event("one\nline")
    assert stream.answer().headers["content-type"].startswith("text/event-stream")
    assert stream.answer().headers["cache-control"] == "no-store"
    assert int(found["id"]) == json.loads(found["data"])["seq"] == after + 1
    [line] = pool.client().get("events", params={"after": after}).json()
    assert json.loads(found["data"]) == line


def test_a_browser_resumes_after_the_last_event_that_it_had(pool: RunningApp) -> None:
    after = last_seq(pool)
    happen(pool, "had")
    happen(pool, "missed")
    client = caller(pool, Last_Event_ID=str(after + 1))
    # Its address still names the position of its start.
    with client.stream("watch", params={"after": 0}) as stream:
        source = Source(stream)
        assert json.loads(source.frame()["data"])["after"] == after + 1
        assert json.loads(source.frame()["data"])["subject"] == "missed"


@pytest.mark.parametrize("text", ["x", "-1", "1.5", "9" * 19])
def test_a_position_that_is_none_is_refused(pool: RunningApp, text: str) -> None:
    refused = caller(pool, Last_Event_ID=text).get("watch")
    assert (refused.status, refused.code) == (400, "GP-1005")


def test_a_position_of_another_log_is_refused(pool: RunningApp) -> None:
    refused = caller(pool).get("watch", params={"after": 0, "epoch": "e-another"})
    assert (refused.status, refused.code) == (409, "GP-4004")


def test_a_silent_stream_has_comments(pool: RunningApp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_routes, "HEARTBEAT_SECONDS", 0.01)
    with caller(pool).stream("watch", params={"after": last_seq(pool)}) as stream:
        source = Source(stream)
        source.frame()
        assert source.frame() == {":": ""}


def test_a_browser_sees_the_events_of_its_tenant_alone(pool: RunningApp) -> None:
    admin = pool.client()
    for tenant in ("blue", "red"):
        assert admin.post("tenants", {"name": tenant}).status == 201
    assert admin.post("users", {"name": "bea", "tenant": "blue"}).status == 201
    browser = Browser(pool)
    assert browser.log_in(pool.token("bea")).status == 204
    client = browser.client()
    client.headers = {**client.headers, **EVENTS}
    with client.stream("watch", params={"after": last_seq(pool)}) as stream:
        source = Source(stream)
        source.frame()
        happen(pool, "secret", "red")
        happen(pool, "ours", "blue")
        assert json.loads(source.frame()["data"])["subject"] == "ours"


def test_five_hundred_browsers_cost_one_reading_of_the_log(pool: RunningApp) -> None:
    after = last_seq(pool)
    read: list[str] = []
    browser = Browser(pool)
    browser.log_in(pool.token("root"))
    clients = (caller(pool), browser.client())
    clients[1].headers = {**clients[1].headers, **EVENTS}
    feed = pool.services.allocations.event_feed

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        read.append(statement)

    with ExitStack() as stack:
        streams = []
        for n in range(STREAMS):
            # Half over the socket, as the command line watches; a few by a cookie, whose user may
            # have so many requests at a time.
            client = clients[n % 2 and n < 200]
            streams.append(stack.enter_context(client.stream("watch", params={"after": after})))
        sources = [Source(stream) for stream in streams]
        for source in sources:
            assert source.frame()["event"] == "log"
        happen(pool, "ready")
        for source in sources:
            source.event("ready")
        sa.event.listen(pool.store.engine, "before_cursor_execute", note)
        stack.callback(sa.event.remove, pool.store.engine, "before_cursor_execute", note)
        happen(pool, "one")
        seen = {source.event("one")["id"] for source in sources}
    assert len(seen) == 1
    selects = [statement for statement in read if statement.startswith("SELECT events.")]
    assert len(selects) == 1
    # The rest is the commit itself: no stream asked who its caller is.
    assert [
        statement for statement in read if "users" in statement or "sessions" in statement
    ] == []
    assert feed.waiting <= STREAMS
