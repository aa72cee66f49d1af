"""What is kept of a pool's log for a replay of its last days."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from gpupool.base.errors import HistoryTooShort
from gpupool.simulation.traces import history
from gpupool.simulation.traces.history import EventHistory

SINCE = 1000


def event(at_ns: int, kind: str, **data: Any) -> Mapping[str, Any]:
    return {
        "at_ns": at_ns,
        "kind": kind,
        "subject": str(data.get("name", "GPU-1")),
        "tenant": "nlp",
        "data": data,
    }


def card() -> Mapping[str, Any]:
    return {
        **event(1, "device.added", model="T4", memory_bytes=1 << 30, state="adopted"),
        "subject": "n1:0",
    }


def submitted(at_ns: int, name: str, **more: Any) -> Mapping[str, Any]:
    return event(at_ns, "job.submitted", name=name, shape={"gpu_milli": 500}, **more)


def placed(at_ns: int, name: str) -> Mapping[str, Any]:
    return event(at_ns, "job.placed", name=name)


def test_history_keeps_cards_of_all_time_and_jobs_since_then() -> None:
    found = EventHistory(SINCE)
    found.add_events([card(), submitted(SINCE - 1, "old"), placed(SINCE - 1, "old")])
    found.add_events([submitted(SINCE, "new"), placed(SINCE + 5, "new")])
    trace = found.build_trace("the log")
    assert [one.job for one in trace.arrivals] == ["new"]
    assert [node.name for node in trace.nodes] == ["n1"]


def test_history_without_a_placed_job_is_too_short() -> None:
    found = EventHistory(SINCE)
    found.add_events([card(), submitted(SINCE, "a"), placed(SINCE - 1, "old")])
    with pytest.raises(HistoryTooShort) as caught:
        found.build_trace("the log")
    assert caught.value.message == "the log tells of no job that was placed"
    assert caught.value.hint == "further back: --history 90d"


def test_waits_end_at_the_first_start_of_a_single_job() -> None:
    found = EventHistory(SINCE)
    found.add_events([submitted(2000, "a"), placed(2300, "a"), placed(9000, "a")])
    found.add_events([submitted(2000, "g", gang="x"), placed(2500, "g")])
    found.add_events([submitted(2000, "many", count=2), placed(2700, "many")])
    assert found.waits_ns == [300]


def test_history_of_too_many_events_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MOST_EVENTS", 2)
    found = EventHistory(SINCE)
    found.add_events([card(), submitted(SINCE, "a")])
    with pytest.raises(HistoryTooShort, match="more than 2 events"):
        found.add_events([placed(SINCE, "a")])
