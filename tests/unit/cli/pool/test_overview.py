"""`gpupool overview`: sentences with numbers, and a table for each thing that there is."""

from __future__ import annotations

import json
from typing import Any

from gpupool.wire.views.overviews import OverviewOut
from tests.unit.cli.golden import AnswerWith, GoldenLine, TypedLine
from tests.unit.cli.sample import GIB, NOON, NOW, job, queued, room


def overview(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "at_ns": NOW,
        "seq": 81,
        "simulated": True,
        "cards": {"total": 16, "open": 13, "draining": 1, "failed": 2, "observed": 0},
        "capacity_milli": 16_000,
        "held_milli": 9300,
        "free_milli": 4700,
        "models": room().model_dump()["models"],
        "tenants": [
            {"tenant": "team-nlp", "held_milli": 6300, "held_bytes": 400 * GIB},
            {"tenant": "default", "held_milli": 3000, "held_bytes": 90 * GIB},
        ],
        "waiting": 4,
        "queue": queued(),
        "failing": [
            {
                "device": "node-1:7",
                "model": "H200",
                "state": "adopted",
                "health": "failed",
                "reason": "XID 79",
            }
        ],
        "failing_total": 1,
        "silent_nodes": ["node-2"],
        "mine": {"pending": 1, "starting": 0, "running": 2, "recent": [job()]},
        "today": {
            "since_ns": NOON - 12 * 3600 * 10**9,
            "until_ns": NOON,
            "held_card_milliseconds": 40 * 3_600_000,
            "idle_card_milliseconds": 152 * 3_600_000,
        },
    }
    return OverviewOut.model_validate({**found, **changes}).model_dump()


def test_overview_prints_the_recorded_output(
    answer_with: AnswerWith, golden_line: GoldenLine
) -> None:
    answer_with("GET", "overview", overview())
    golden_line("overview", "overview")


def test_an_empty_pool_is_one_sentence_and_the_day(
    answer_with: AnswerWith, type_line: TypedLine
) -> None:
    cards = {"total": 0, "open": 0, "draining": 0, "failed": 0, "observed": 0}
    empty: dict[str, Any] = {name: [] for name in ("models", "tenants", "queue", "failing")}
    mine = {"pending": 0, "starting": 0, "running": 0, "recent": []}
    found = overview(
        **empty,
        cards=cards,
        mine=mine,
        simulated=False,
        waiting=1,
        held_milli=0,
        capacity_milli=0,
        free_milli=0,
        silent_nodes=[],
        today={
            "since_ns": 0,
            "until_ns": 0,
            "held_card_milliseconds": 0,
            "currency": "CNY",
            "cost_micro": 1_230_000,
        },
    )
    answer_with("GET", "overview", found)
    code, out, _ = type_line("overview")
    assert code == 0
    assert out.splitlines() == [
        "0.00 of 0.00 GPU are held, 0.00 can be handed out now; 1 job waits",
        "today: 0.00 card hours held, 1.23 CNY",
    ]


def test_json_is_the_answer(answer_with: AnswerWith, type_line: TypedLine) -> None:
    answer_with("GET", "overview", overview())
    assert json.loads(type_line("overview -o json")[1]) == overview()
