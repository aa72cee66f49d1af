"""Policies for leavers' jobs, and those whose jobs wait."""

from __future__ import annotations

from tests.unit.cli.golden import AnswerWith, TypedLine

POLICY = {
    "provider": None,
    "tenant": "nlp",
    "act": "keep",
    "keep_seconds": 30 * 86400,
    "until_ns": None,
    "heir": None,
    "changed_by": "root",
    "changed_ns": 1,
}


def test_a_policy_is_set_with_its_time(answer_with: AnswerWith, type_line: TypedLine) -> None:
    answer_with("PUT", "sso/leaver-policies", POLICY)
    code, out, _ = type_line("sso policy-set keep --tenant nlp --for 30d")
    assert (code, out) == (0, "leavers of nlp, any provider: keep for 30d\n")


def test_leavers_say_what_keeps_their_jobs(answer_with: AnswerWith, type_line: TypedLine) -> None:
    row = {
        "user": "ann",
        "tenant": "nlp",
        "provider": "corp",
        "reason": "gone",
        "act": "hand-over",
        "until_ns": None,
        "heir": "bob",
        "state": "open",
        "note": "bob has left",
        "stopped": 0,
        "handed": 2,
        "made_by": "root",
        "made_ns": 1,
        "ended_ns": None,
    }
    answer_with("GET", "sso/leavers", {"items": [row], "next": None})
    code, out, _ = type_line("sso leavers")
    assert code == 0
    assert "hand over to bob" in out
    assert "bob has left" in out
