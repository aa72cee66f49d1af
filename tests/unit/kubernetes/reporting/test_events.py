"""Events are written beside the work, at a limited rate, and each once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from gpupool.base.errors import ServiceUnavailable
from gpupool.kubernetes.reporting import events
from gpupool.kubernetes.reporting.counters import ControllerCounters
from gpupool.kubernetes.reporting.events import (
    BURST,
    MOST_DUE,
    Event,
    EventWriter,
    format_micro_time,
)
from gpupool.kubernetes.resources.gpu_node import GpuNode, Mode
from gpupool.model.device import DeviceHealth
from tests.support.kube_builders import gpu_node
from tests.support.scripted_api import CONFLICT, FORBIDDEN, NOT_FOUND, ScriptedApi
from tests.support.virtual_time import end_task, on_virtual_time

NODE = GpuNode.from_json(gpu_node("n0", 2))
PATH = "/apis/events.k8s.io/v1/namespaces/team/events"


def build_event(about: str = "", note: str = "why") -> Event:
    return Event("Pod", "team", "a", "uid-a", "Placed", note, about)


def build_writer(answers: Any = None) -> tuple[EventWriter, ScriptedApi]:
    api = ScriptedApi({("POST", PATH): answers} if answers else None)
    return EventWriter(api, ControllerCounters(), lambda: 0), api


def write_events(writer: EventWriter, *batches: list[Event], seconds: float = 1.0) -> None:
    """Enqueue each batch and let so many seconds pass after it."""

    async def run() -> None:
        writing = asyncio.create_task(writer.run())
        for batch in batches:
            for event in batch:
                writer.enqueue_event(event)
            await asyncio.sleep(seconds)
        await end_task(writing)

    on_virtual_time(run())


def reasons_of(before: GpuNode | None, now: GpuNode | None) -> list[str]:
    writer, _ = build_writer()
    writer.report_ledger_change(before, now)
    return [event.reason for event in writer.pending_events]


def with_health(*health: DeviceHealth) -> GpuNode:
    pairs = zip(NODE.cards, health, strict=True)
    return replace(NODE, cards=tuple(replace(card, health=one) for card, one in pairs))


def test_same_event_again_raises_the_count_of_the_first() -> None:
    writer, api = build_writer()
    write_events(writer, [build_event(note="first")], [build_event(note="second")])
    name = build_event().object_name
    assert api.calls == [("POST", PATH), ("PATCH", f"{PATH}/{name}")]
    assert api.sent[0][2]["note"] == "first"
    assert api.sent[1][2]["series"]["count"] == 2


def test_events_beyond_the_burst_are_written_at_their_rate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A power of two: the clock of virtual time moves by timers alone, so a remainder of a rounded
    # pause would never pass.
    monkeypatch.setattr(events, "PER_SECOND", 4.0)
    writer, api = build_writer()
    more = 10
    due = [build_event(str(number)) for number in range(int(BURST) + more)]
    write_events(writer, due, seconds=0.125)
    assert len(api.sent) == BURST
    writer, api = build_writer()
    write_events(writer, due, seconds=more / 4.0 + 0.125)
    assert len(api.sent) == BURST + more


def test_oldest_of_too_many_events_are_dropped() -> None:
    writer, _ = build_writer()
    for number in range(MOST_DUE + 3):
        writer.enqueue_event(build_event(str(number)))
    pending = writer.pending_events
    assert (len(pending), pending[0].about) == (MOST_DUE, "3")


@pytest.mark.parametrize(
    ("answer", "methods"),
    [
        (CONFLICT, ["POST", "PATCH"]),
        (FORBIDDEN, ["POST", "POST"]),
        (ServiceUnavailable("no answer"), ["POST", "POST"]),
    ],
    ids=["told by the leader before", "refused", "away"],
)
def test_event_that_is_not_there_is_created_again(answer: Exception, methods: list[str]) -> None:
    writer, api = build_writer(answer)
    write_events(writer, [build_event()], [build_event()])
    assert [method for method, _ in api.calls] == methods


def test_event_that_has_expired_is_created_again_at_once() -> None:
    """The API server keeps events for an hour; a card that fails again later must be told."""
    writer, api = build_writer()
    name = build_event().object_name
    api.answer_with("PATCH", f"{PATH}/{name}", NOT_FOUND)
    write_events(writer, [build_event(note="first")], [build_event(note="second")])
    assert [method for method, _ in api.calls] == ["POST", "PATCH", "POST"]
    assert api.sent[2][2]["note"] == "second"


def test_node_that_is_adopted_or_released_is_told_and_a_first_look_is_not() -> None:
    observed = replace(NODE, mode=Mode.OBSERVE)
    assert reasons_of(None, NODE) == reasons_of(NODE, None) == reasons_of(NODE, NODE) == []
    assert reasons_of(observed, NODE) == ["Adopted"]
    assert reasons_of(NODE, observed) == ["Released"]
    assert reasons_of(NODE, replace(NODE, mode=Mode.WHOLE)) == []


def test_card_that_fails_goes_or_comes_back_is_told() -> None:
    ok, failed, warned = DeviceHealth.OK, DeviceHealth.FAILED, DeviceHealth.WARNING
    assert reasons_of(NODE, with_health(ok, failed)) == ["CardLost"]
    assert reasons_of(NODE, with_health(ok, warned)) == []
    assert reasons_of(with_health(ok, failed), NODE) == ["CardBack"]
    assert reasons_of(NODE, replace(NODE, cards=NODE.cards[:1])) == ["CardLost"]
    assert reasons_of(replace(NODE, cards=NODE.cards[:1]), NODE) == [], "a new card is no news"


def test_cards_of_a_silent_agent_are_not_told() -> None:
    assert reasons_of(NODE, replace(with_health(*[DeviceHealth.FAILED] * 2), ready=False)) == []


def test_event_keeps_to_the_lengths_of_the_api() -> None:
    made = replace(build_event(note="n" * 2000), name="x" * 253).to_json(0, "h" * 200)
    assert len(made["note"]) == 1024
    assert len(made["metadata"]["name"]) == 200 + 1 + 16
    assert len(made["reportingInstance"]) == 128
    assert made["eventTime"] == format_micro_time(0) == "1970-01-01T00:00:00.000000Z"
    of_node = replace(build_event(), kind="Node", namespace="")
    assert of_node.path == "/apis/events.k8s.io/v1/namespaces/default/events"
    assert "namespace" not in of_node.to_json(0, "h")["regarding"]
