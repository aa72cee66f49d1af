"""`gpupool user`: what is sent of a user, and what is told of one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.cli.golden import AnswerWith, GoldenLine, TypedLine
from tests.unit.client.scripted_pool import ScriptedPool


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("users", "user list"),
    ],
)
def test_user_list_prints_the_recorded_output(
    name: str, line: str, golden_line: GoldenLine
) -> None:
    golden_line(name, line)


def known_user(**changes: Any) -> dict[str, Any]:
    facts = {"name": "ci", "role": "user", "tenant": "nlp"}
    return {**facts, "unix_user": None, "run_as": None, "disabled": False, **changes}


def test_user_add_sends_the_word_none_as_null_for_accounts_only(
    pool: ScriptedPool, answer_with: AnswerWith, type_line: TypedLine
) -> None:
    answer_with("POST", "users", known_user(run_as="builder"))
    told = type_line("user add ci --tenant none --run-as builder --unix-user none")
    assert told == (0, "ci: user of nlp, jobs run as builder\n", "")
    assert pool.requests[-1].json == {
        "name": "ci",
        "tenant": "none",
        "unix_user": None,
        "run_as": "builder",
    }


def test_user_set_without_a_property_is_refused_before_any_request(
    pool: ScriptedPool, type_line: TypedLine
) -> None:
    code, _, err = type_line("user set ci")
    assert (code, err.splitlines()[0]) == (2, "gpupool: GP-1005: nothing to change")
    assert pool.requests == []


@pytest.mark.parametrize(("switch", "disabled"), [("--disable", True), ("--enable", False)])
def test_user_set_disables_and_enables_and_tells_it(
    switch: str,
    disabled: bool,
    pool: ScriptedPool,
    answer_with: AnswerWith,
    type_line: TypedLine,
) -> None:
    answer_with("PATCH", "users/ci", known_user(disabled=disabled, unix_user="bob"))
    end = ", disabled" if disabled else ""
    assert type_line(f"user set ci {switch}")[1] == (
        f"ci: user of nlp, known as Unix user bob{end}\n"
    )
    assert pool.requests[-1].json == {"disabled": disabled}


REMOVAL = "will remove user ci of nlp, its tokens, schedules, services and subscriptions\n"


def test_user_remove_needs_a_yes(
    pool: ScriptedPool, answer_with: AnswerWith, type_line: TypedLine
) -> None:
    answer_with("GET", "users/ci", known_user())
    answer_with("DELETE", "users/ci", None, 204)
    code, out, err = type_line("user remove ci")
    assert (code, out) == (2, REMOVAL)
    assert err.startswith("gpupool: GP-1005: nothing was done")
    assert [one.method for one in pool.requests] == ["GET"]
    assert type_line("user remove ci --yes")[1].splitlines()[-1] == "ci removed"
    assert pool.requests[-1].method == "DELETE"


EMPTY = {"user": "ci", "to": "bob", "dry_run": True, "units": [], "handed": 0, "jobs": 0}
NOTHING = "ci has no jobs, schedules or reservations to hand over\n"


def test_user_set_hands_over_nothing_of_a_user_without_jobs(
    answer_with: AnswerWith, type_line: TypedLine
) -> None:
    answer_with("POST", "users/ci/handover", EMPTY)
    answer_with("PATCH", "users/ci", known_user(disabled=True))
    code, out, err = type_line("user set ci --disable --hand-over bob --yes")
    assert (code, out) == (0, f"{NOTHING}will disable user ci\nci: user of nlp, disabled\n"), err


def test_user_remove_and_handover_say_that_there_is_nothing(
    answer_with: AnswerWith, type_line: TypedLine
) -> None:
    answer_with("POST", "users/ci/handover", EMPTY)
    answer_with("GET", "users/ci", known_user())
    answer_with("PATCH", "users/ci", known_user(disabled=True))
    answer_with("DELETE", "users/ci", None)
    removed = type_line("user remove ci --hand-over bob --yes")
    assert removed == (0, f"{NOTHING}{REMOVAL}ci removed\n", "")
    # Without a question, also for programs: nothing would change.
    assert type_line("user handover ci --to bob") == (0, NOTHING, "")
    code, out, _ = type_line("user handover ci --to bob -o json")
    assert (code, '"handed": 0' in out) == (0, True)
