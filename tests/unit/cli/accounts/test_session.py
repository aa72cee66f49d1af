"""`gpupool session`: lists, and ends one or every session of a user."""

from __future__ import annotations

from tests.unit.cli.golden import AnswerWith, GoldenLine, TypedLine
from tests.unit.client.scripted_pool import ScriptedPool


def test_session_list_prints_the_recorded_output(golden_line: GoldenLine) -> None:
    golden_line("sessions", "session list")


def test_session_end_ends_each_that_is_named(answer_with: AnswerWith, type_line: TypedLine) -> None:
    for session in ("s-1", "s-2"):
        answer_with("DELETE", f"sessions/{session}", None, 204)
    assert type_line("session end s-1 s-2") == (0, "s-1 ended\ns-2 ended\n", "")


def test_session_end_of_a_user_ends_every_one(
    pool: ScriptedPool, answer_with: AnswerWith, type_line: TypedLine
) -> None:
    answer_with("GET", "sessions", {"items": [{"id": "s-7"}], "next": None})
    answer_with("DELETE", "sessions/s-7", None, 204)
    assert type_line("session end --user alice") == (0, "s-7 ended\n", "")
    assert "user=alice" in pool.requests[0].target
    answer_with("GET", "sessions", {"items": [], "next": None})
    assert type_line("session end --user bob") == (0, "no sessions\n", "")


def test_session_end_asks_for_one_or_the_other(pool: ScriptedPool, type_line: TypedLine) -> None:
    for line in ("session end", "session end s-1 --user alice"):
        code, _, err = type_line(line)
        assert (code, err.splitlines()[0]) == (
            2,
            "gpupool: GP-1005: session end needs sessions or --user",
        )
    assert pool.requests == []
