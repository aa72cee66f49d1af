"""Watching: every event once, in order, whatever happens to the connection."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from gpupool.base.client_settings import ClientSettings
from gpupool.base.errors import PoolNotRunning
from gpupool.client.transport import Api
from gpupool.client.watch import LONGEST_PAUSE_SECONDS, watch_events
from tests.unit.client.scripted_pool import HANG_UP, Request, ScriptedPool, chunked, reply

LOG = [{"seq": n, "kind": "job.running" if n % 2 else "job.ended"} for n in range(1, 41)]


def lines(events: list[dict[str, object]]) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def breaking_pool(asked: Request) -> bytes:
    """Gives a few events and breaks off, sometimes inside one, sometimes before the first."""
    if asked.target == "/healthz":
        return reply({"ready": True})
    after = int(asked.target.partition("after=")[2])
    if asked.connection % 3 == 0:
        return HANG_UP
    given = lines(LOG[after : after + 3])
    cut = asked.connection % 2 == 0
    return chunked(given + lines(LOG[after + 3 : after + 4])[:9] if cut else given, end=not cut)


def test_nothing_is_lost_and_nothing_comes_twice_over_broken_connections(tmp_path: Path) -> None:
    with (
        ScriptedPool(tmp_path, breaking_pool) as pool,
        Api(ClientSettings(state_dir=tmp_path)) as api,
    ):
        seen = list(itertools.islice(watch_events(api, pause=lambda _: None), len(LOG)))
        assert seen == LOG
        assert len({asked.connection for asked in pool.requests}) > 10


def test_it_begins_after_the_number_given(tmp_path: Path) -> None:
    with ScriptedPool(tmp_path, breaking_pool), Api(ClientSettings(state_dir=tmp_path)) as api:
        assert next(watch_events(api, 17, pause=lambda _: None))["seq"] == 18


def test_a_pool_that_repeats_itself_is_heard_once(tmp_path: Path) -> None:
    def repeats(asked: Request) -> bytes:
        return reply({}) if asked.target == "/healthz" else chunked(lines(LOG[:5]) + lines(LOG[:8]))

    with ScriptedPool(tmp_path, repeats), Api(ClientSettings(state_dir=tmp_path)) as api:
        assert list(itertools.islice(watch_events(api), 8)) == LOG[:8]


def test_kinds_that_are_not_wanted_are_passed_over_but_counted(tmp_path: Path) -> None:
    with ScriptedPool(tmp_path, breaking_pool), Api(ClientSettings(state_dir=tmp_path)) as api:
        ended = watch_events(api, kinds=frozenset({"job.ended"}), pause=lambda _: None)
        assert [event["seq"] for event in itertools.islice(ended, 10)] == list(range(2, 22, 2))


def test_a_pool_that_is_away_is_tried_ever_more_slowly_and_found_again(tmp_path: Path) -> None:
    pauses: list[float] = []
    first = ScriptedPool(tmp_path, breaking_pool)
    found: list[ScriptedPool] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 8:
            (tmp_path / "gpupool.sock").unlink()
            found.append(ScriptedPool(tmp_path, breaking_pool))

    events = watch_events(Api(ClientSettings(state_dir=tmp_path)), pause=pause)
    seen = [next(events)["seq"] for _ in range(3)]
    first.stop()
    seen += [next(events)["seq"] for _ in range(6)]
    assert seen == list(range(1, 10))
    assert max(pauses) == LONGEST_PAUSE_SECONDS
    found[0].stop()


def test_a_pool_that_is_not_there_at_the_start_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(PoolNotRunning):
        next(watch_events(Api(ClientSettings(state_dir=tmp_path))))
