"""`gpupool mode` prints the steps of a switch, what blocks it, and how far it is."""

from __future__ import annotations

import json
from typing import Any

from tests.unit.cli.golden import AnswerWith, TypedLine
from tests.unit.client.scripted_pool import ScriptedPool

PLAN: dict[str, Any] = {
    "device": "node-1:0",
    "mode": "plain",
    "wanted": "mig",
    "steps": ["wait for 2 shares to end; no new one is placed there", "turn MIG mode on"],
    "blocked_by": [],
    "needs": "idle-card",
    "seconds": 5.0,
    "state": "planned",
    "reason": "",
}


def test_a_dry_run_prints_every_step_and_says_that_nothing_was_changed(
    pool: ScriptedPool, answer_with: AnswerWith, type_line: TypedLine
) -> None:
    answer_with("POST", "devices/node-1:0/mode", PLAN)
    code, output, _ = type_line("mode node-1:0 mig --dry-run")
    assert code == 0
    assert output == (
        "node-1:0: plain -> mig  (nothing was changed)\n"
        "  1. wait for 2 shares to end; no new one is placed there\n"
        "  2. turn MIG mode on\n"
        "takes about 5 s once the card is free\n"
    )
    assert pool.requests[-1].json == {"mode": "mig", "dry_run": True}


def test_a_blocked_dry_run_names_the_reason_and_exits_with_1(
    answer_with: AnswerWith, type_line: TypedLine
) -> None:
    blocked = {**PLAN, "blocked_by": ["process 812 has /dev/nvidia0 open"]}
    answer_with("POST", "devices/node-1:0/mode", blocked)
    code, output, _ = type_line("mode node-1:0 mig --dry-run")
    assert code == 1
    assert "blocked: process 812 has /dev/nvidia0 open\n" in output


def test_a_switch_under_way_says_how_far_it_is(
    answer_with: AnswerWith, type_line: TypedLine
) -> None:
    begun = {**PLAN, "state": "switching", "reason": "the card is being reset"}
    answer_with("POST", "devices/node-1:0/mode", begun)
    _, output, _ = type_line("mode node-1:0 mig")
    assert output.startswith("node-1:0: plain -> mig  (switching: the card is being reset)\n")
    assert output.endswith("gpupool show node-1:0 says how far it is\n")


def test_a_card_in_the_mode_is_one_line(answer_with: AnswerWith, type_line: TypedLine) -> None:
    answer_with("POST", "devices/0/mode", {**PLAN, "mode": "mig", "steps": [], "state": "done"})
    assert type_line("mode 0 mig")[1] == "node-1:0 is in mode mig\n"


def test_the_plan_is_printed_as_json(answer_with: AnswerWith, type_line: TypedLine) -> None:
    answer_with("POST", "devices/0/mode", PLAN)
    assert json.loads(type_line("mode 0 mig --dry-run -o json")[1]) == PLAN


def test_a_mistyped_mode_is_refused_with_those_that_exist(type_line: TypedLine) -> None:
    code, _, error = type_line("mode 0 migg")
    assert code != 0
    assert "plain, mig, mps, passthrough, sriov" in error
