"""Plans of moves are shown, asked about and made, with the generations that they were read with."""

from __future__ import annotations

import json
from typing import Any

from gpupool.cli.planning.moves import describe_reserved
from tests.unit.cli.golden import AnswerWith, TypedLine
from tests.unit.cli.sample import defrag_plan
from tests.unit.client.scripted_pool import ScriptedPool


def reserved(cards: int) -> dict[str, Any]:
    return {"reserved": {"cards": cards, "gpu_milli": 1500, "memory_bytes": 1 << 30}}


def test_reserved_capacity_is_told_in_both_numbers_or_not_at_all() -> None:
    assert describe_reserved(reserved(1)) == (
        "no move takes what reservations hold: 1.50 GPU + 1024 MiB of what is free now, on 1 card\n"
    )
    assert describe_reserved(reserved(0)) == ""


def test_moves_are_made_with_the_generations_of_the_plan(
    pool: ScriptedPool, type_line: TypedLine
) -> None:
    assert type_line("defrag --apply --yes")[0] == 0
    assert pool.requests[-1].target == "/api/v1/defrag/moves"
    assert pool.requests[-1].json == {
        "moves": [{"job": "j-0000000001", "cards": ["GPU-9"], "generations": [7]}]
    }


def test_moves_are_not_made_without_apply(pool: ScriptedPool, type_line: TypedLine) -> None:
    code, out, _ = type_line("defrag --plan -o json")
    assert (code, json.loads(out)["applied"]) == (0, None)
    assert [one.target for one in pool.requests] == ["/api/v1/defrag/plan"]


def test_moves_without_a_yes_are_not_made(pool: ScriptedPool, type_line: TypedLine) -> None:
    code, out, err = type_line("defrag --apply")
    assert code == 2
    assert out.endswith("will stop 1 job and start it again\n")
    assert err.startswith("gpupool: GP-1005: nothing was done")
    assert [one.target for one in pool.requests] == ["/api/v1/defrag/plan"]


def test_an_empty_plan_asks_nothing_and_moves_nothing(
    pool: ScriptedPool, answer_with: AnswerWith, type_line: TypedLine
) -> None:
    empty = {**defrag_plan().model_dump(mode="json"), "moves": []}
    answer_with("POST", "defrag/plan", empty)
    assert type_line("defrag --apply")[0] == 0
    assert len(pool.requests) == 1


def test_an_applied_plan_as_json_has_the_jobs_that_move(
    pool: ScriptedPool, type_line: TypedLine
) -> None:
    code, out, _ = type_line("defrag --apply --yes -o json")
    plan = json.loads(out.partition("\n")[2])
    assert (code, plan["applied"]) == (0, {"moving": ["j-0000000001"], "ended": []})
