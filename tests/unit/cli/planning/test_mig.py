"""`gpupool mig plan`: what is asked of the pool, and the plan for people."""

from __future__ import annotations

import json
from typing import Any

from gpupool.cli.planning.mig import format_plan
from gpupool.model.partition import write_profiles
from gpupool.probes.mig_tables import list_mig_profiles
from tests.unit.cli.golden import AnswerWith, TypedLine
from tests.unit.client.scripted_pool import ScriptedPool

CARD: dict[str, Any] = {
    "name": "node-1:0",
    "uuid": "GPU-0",
    "partitions": [{"profile": "1g.18gb", "start": 0, "size": 1}],
    "facts": {"profiles": write_profiles(list_mig_profiles("H200"))},
}
JOB: dict[str, Any] = {
    "name": "train",
    "seats": [{"uuid": "GPU-0", "start": 0}],
    "preemptible": True,
    "gang": None,
    "profile": "1g.18gb",
    "count": 1,
}


def test_a_demand_that_needs_a_move_prints_layout_and_move(
    pool: ScriptedPool, answer_with: AnswerWith, type_line: TypedLine
) -> None:
    answer_with("GET", "devices", {"items": [CARD], "next": None})
    answer_with("GET", "jobs", {"items": [JOB], "next": None})
    code, out, _ = type_line("mig plan --demand 4g.71gb")
    assert code == 0
    assert out.splitlines() == [
        "CARD      NOW      PLANNED",
        "node-1:0  1g.18gb  4g.71gb + 1g.18gb",
        "",
        "1 job must move first:",
        "JOB    PROFILE  FROM             TO",
        "train  1g.18gb  node-1:0 unit 0  node-1:0 unit 6",
    ]
    assert any("state=running" in one.target for one in pool.requests)


def test_what_waits_is_the_demand_and_what_does_not_fit_is_refused(
    answer_with: AnswerWith, type_line: TypedLine
) -> None:
    answer_with("GET", "devices", {"items": [CARD], "next": None})
    answer_with("GET", "jobs", {"items": [{**JOB, "count": 8, "preemptible": False}], "next": None})
    code, out, _ = type_line("mig plan")
    assert code == 3
    assert "no slot: 2 x 1g.18gb; no layout of 1 card holds the demand" in out
    code, out, _ = type_line("mig plan -o json")
    assert (code, json.loads(out)["missing"]) == (3, {"1g.18gb": 2})


def test_a_pool_without_cards_in_partition_mode_is_refused(
    answer_with: AnswerWith, type_line: TypedLine
) -> None:
    answer_with("GET", "devices", {"items": [{**CARD, "partitions": None}], "next": None})
    answer_with("GET", "jobs", {"items": [], "next": None})
    code, _, err = type_line("mig plan --demand 1g")
    assert code == 3
    assert "of 1 cards none is in partition mode" in err


def test_nothing_to_plan_says_so() -> None:
    assert format_plan({"cards": [], "moves": [], "missing": {}}) == "no card changes\n"
