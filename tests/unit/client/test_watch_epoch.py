"""A watcher remembers which event log it reads, and says so when the pool has another one."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from gpupool.base.client_settings import ClientSettings
from gpupool.base.errors import EventsReset
from gpupool.client.sdk import Pool
from gpupool.client.transport import Api
from gpupool.client.watch import watch_events
from tests.unit.client.scripted_pool import Request, ScriptedPool, reply

RESTORED_AT = 5
RESTORED_END = 9


def line(seq: int) -> bytes:
    event = {
        "seq": seq,
        "at_ns": 1,
        "kind": "job.running",
        "subject": "j",
        "tenant": None,
        "data": {},
    }
    return json.dumps(event).encode() + b"\n"


def restored_pool(begun: str | None = "e-old") -> Callable[[Request], bytes]:
    """Gives five events of its first log on the first watch, then has a restored log that ends with
    event 9."""
    epochs = [begun]

    def answer(asked: Request) -> bytes:
        if asked.target == "/healthz":
            return reply({"ready": True})
        query = parse_qs(urlsplit(asked.target).query)
        after = int(query["after"][0])
        epoch = epochs[0]
        if query.get("epoch", [epoch])[0] != epoch:
            numbers = {"last_event": RESTORED_END, "event_epoch": epoch}
            problem = {
                "code": "GP-4004",
                "detail": "the event log was replaced",
                "hint": "look",
                "numbers": numbers,
            }
            return reply(problem, 409, kind="application/problem+json")
        epochs[0] = "e-new"
        header = f"Gpupool-Event-Epoch: {epoch}\r\n"
        end = RESTORED_AT if epoch == "e-old" else RESTORED_END + 3
        given = b"".join(line(seq) for seq in range(after + 1, end + 1))
        return reply(given, headers=header, kind="application/x-ndjson")

    return answer


def test_a_watcher_tells_of_a_restored_log_and_goes_on_after_its_end(tmp_path: Path) -> None:
    resets: list[EventsReset] = []
    with ScriptedPool(tmp_path, restored_pool()), Api(ClientSettings(state_dir=tmp_path)) as api:
        events = watch_events(api, pause=lambda _: None, on_reset=resets.append)
        seen = [event["seq"] for event in itertools.islice(events, 8)]
    assert seen == [1, 2, 3, 4, 5, 10, 11, 12]
    assert [error.details["event_epoch"] for error in resets] == ["e-new"]


def test_a_watcher_that_cannot_tell_raises(tmp_path: Path) -> None:
    with ScriptedPool(tmp_path, restored_pool()), Api(ClientSettings(state_dir=tmp_path)) as api:
        events = watch_events(api, pause=lambda _: None)
        assert [next(events)["seq"] for _ in range(5)] == [1, 2, 3, 4, 5]
        with pytest.raises(EventsReset):
            next(events)


def test_a_watcher_that_begins_with_another_logs_epoch_is_told(tmp_path: Path) -> None:
    resets: list[EventsReset] = []
    with (
        ScriptedPool(tmp_path, restored_pool("e-new")),
        Api(ClientSettings(state_dir=tmp_path)) as api,
    ):
        events = watch_events(
            api, 3, epoch="e-before", pause=lambda _: None, on_reset=resets.append
        )
        assert next(events)["seq"] == RESTORED_END + 1
    assert len(resets) == 1


def test_the_sdk_warns_of_a_restored_log(tmp_path: Path) -> None:
    warned = pytest.warns(
        RuntimeWarning, match="the event log was replaced; going on after event 9"
    )
    with ScriptedPool(tmp_path, restored_pool()), Pool(tmp_path) as pool, warned:
        seen = [event.seq for event in itertools.islice(pool.watch(), 6)]
    assert seen[-1] == RESTORED_END + 1
