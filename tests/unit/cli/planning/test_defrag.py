"""`gpupool defrag`: what is asked of the solver, and the plan for people."""

from __future__ import annotations

import pytest

from gpupool.cli.planning.defrag import format_plan
from tests.unit.cli.golden import GoldenLine, TypedLine
from tests.unit.cli.sample import defrag_plan
from tests.unit.client.scripted_pool import ScriptedPool


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("defrag", "defrag"),
        ("defrag-apply", "defrag --apply --yes"),
    ],
)
def test_defrag_prints_the_recorded_output(name: str, line: str, golden_line: GoldenLine) -> None:
    golden_line(name, line)


def test_defrag_sends_its_bounds_to_the_solver(pool: ScriptedPool, type_line: TypedLine) -> None:
    type_line(
        "defrag --cards 4 --blocks 2 --seconds 0 --max-moves 3 --max-per-tenant 1 --max-lost 2h"
    )
    assert pool.requests[-1].json == {
        "cards": 4,
        "blocks": 2,
        "seconds": 0,
        "max_moves": 3,
        "max_moves_per_tenant": 1,
        "max_lost_seconds": 7200,
    }


def test_defrag_names_blocks_unless_they_are_whole_nodes() -> None:
    plan = defrag_plan().model_dump(mode="json")
    assert "blocks" not in format_plan(plan)
    head = format_plan({**plan, "blocks": [0, 2]}).splitlines()[0]
    assert head.endswith("whole cards 12 -> 12; whole nodes 0 -> 1; blocks 0 -> 2")


def test_defrag_without_moves_says_how_many_jobs_may_move() -> None:
    plan = {**defrag_plan().model_dump(mode="json"), "moves": [], "movable": 1}
    first, held = format_plan(plan).splitlines()
    assert first.startswith("nothing to gain: 1 job with --preemptible may be moved")
    assert held.startswith("no move takes what reservations hold")


@pytest.mark.parametrize("seconds", ["61", "-1", "1.5"])
def test_defrag_seconds_beyond_the_api_bounds_are_refused(
    seconds: str, pool: ScriptedPool, type_line: TypedLine
) -> None:
    code, _, err = type_line(f"defrag --seconds {seconds}")
    assert code == 2
    assert "a whole number from 0 to 60" in err
    assert pool.requests == []
