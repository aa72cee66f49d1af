"""`gpupool events`: a line for each event, from a number on."""

from __future__ import annotations

from gpupool.cli.pool import events
from tests.unit.cli.golden import AnswerWith, TypedLine
from tests.unit.cli.sample import pool as sample_pool_facts
from tests.unit.client.scripted_pool import ScriptedPool


def test_an_event_is_one_line_and_cannot_be_two() -> None:
    event = {
        "seq": 7,
        "at_ns": 0,
        "kind": "job.running",
        "subject": "j-1",
        "tenant": "t",
        "data": {"a": {"b": 1}, "c": "x\ny", "d": None},
    }
    assert (
        events.format_event(event)
        == '     7  1970-01-01T00:00:00Z  job.running       j-1  tenant=t a={"b":1} c=x\\ny'
    )


def test_events_begin_with_the_last_ones_and_name_the_log(
    pool: ScriptedPool, answer_with: AnswerWith, type_line: TypedLine
) -> None:
    answer_with("GET", "pool", {**sample_pool_facts(), "last_event": 7, "event_epoch": "e1"})
    answer_with("GET", "events", [])
    assert type_line("events -n 3") == (0, "", "")
    assert pool.requests[-1].target == "/api/v1/events?after=4&limit=1000&epoch=e1"
    type_line("events")
    assert "after=0&" in pool.requests[-1].target


def test_events_after_a_number_do_not_ask_for_the_pool(
    pool: ScriptedPool, answer_with: AnswerWith, type_line: TypedLine
) -> None:
    answer_with("GET", "events", [])
    assert type_line("events --after 1200")[0] == 0
    assert [one.target for one in pool.requests] == ["/api/v1/events?after=1200&limit=1000"]
