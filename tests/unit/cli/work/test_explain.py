"""`gpupool explain`: the sentence, the counts behind it, and what would help."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.cli.work.explain import MEMBERS, format_answer
from tests.unit.cli.golden import GoldenLine
from tests.unit.cli.sample import explained, explained_gang


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("explain", "explain big"),
        ("explain-gang", "explain mpi"),
    ],
)
def test_explain_prints_the_recorded_output(name: str, line: str, golden_line: GoldenLine) -> None:
    golden_line(name, line)


def answer(**changes: Any) -> dict[str, Any]:
    return {**explained(), **changes}


@pytest.mark.parametrize(
    ("following", "line"),
    [
        ("sweep.3", "sweep is an array of 9 jobs; the next of 4 that wait:"),
        (None, "sweep is an array of 9 jobs; its last job:"),
    ],
)
def test_explain_of_an_array_says_first_which_job_it_is_about(
    following: str | None, line: str
) -> None:
    array = {"name": "sweep", "size": 9, "not_made": 4, "next": following}
    assert format_answer(answer(array=array)).splitlines()[0] == line
    assert format_answer(answer()).splitlines()[0].startswith("big (pending): needs 16")


def test_explain_of_a_small_gang_has_every_member_and_counts_no_rest() -> None:
    gang = explained_gang()["gang"]
    few = {**gang, "members": gang["members"][:MEMBERS]}
    lines = format_answer(answer(gang=few)).splitlines()
    assert "  gang mpi: 16 of 16 members running" in lines
    assert "more" not in lines[-1]
    more = {**gang, "members": gang["members"][: MEMBERS + 1]}
    assert format_answer(answer(gang=more)).endswith("\n    and 1 more: -o json has all")


def test_explain_cannot_be_made_to_move_the_cursor() -> None:
    text = format_answer(answer(sentence="a\x1b[2J", hints=["b\nc"], holders=["d\re"]))
    assert "\x1b" not in text
    assert "  b\\nc" in text.splitlines()
    assert "    d\\re" in text.splitlines()


def test_explain_prints_the_mechanism_of_a_claim_that_demands_one() -> None:
    plan = {
        "needs": {"isolation": "hard"},
        "mechanism": None,
        "mechanism_why": "",
        "rejected": [
            {
                "mechanism": "fence",
                "reason": "memory is soft, hard is asked",
                "model": "H200",
                "cards": 2,
                "advice": "",
            }
        ]
        * 14,
    }
    lines = format_answer(answer(**plan)).splitlines()
    assert "  mechanism: none now" in lines
    assert lines.count("  not fence on 2 × H200: memory is soft, hard is asked") == 12
    assert "  and 2 more: -o json has all" in lines
    assert "mechanism" not in format_answer(answer(**{**plan, "needs": {}}))
