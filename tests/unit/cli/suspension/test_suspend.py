"""`gpupool suspend` and `resume`: one line for people, the reason where a node could not do it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpupool.cli.suspension.facts import describe_suspension
from gpupool.cli.work.ps import describe_state
from tests.unit.cli.golden import AnswerWith, TypedLine
from tests.unit.cli.sample import GIB, job

SINCE = 1_800_000_000_000_000_000


def suspended(state: str = "suspended", note: str | None = None) -> dict[str, Any]:
    facts = {"state": state, "since_ns": SINCE, "host_bytes": 3 * GIB, "note": note}
    return job(state="running", suspension=facts)


def test_a_suspend_says_how_much_main_memory_it_takes(
    answer_with: AnswerWith, type_line: TypedLine
) -> None:
    answer_with("POST", "jobs/train/suspend", suspended())
    assert type_line("suspend train") == (0, "train: suspended, 3072 MiB in main memory\n", "")


def test_a_move_that_takes_long_is_waited_for(
    answer_with: AnswerWith, type_line: TypedLine
) -> None:
    answer_with("POST", "jobs/train/suspend", suspended("suspending"))
    answer_with("GET", f"jobs/{suspended()['id']}", suspended())
    assert type_line("suspend train")[:2] == (0, "train: suspended, 3072 MiB in main memory\n")
    code, out, err = type_line("suspend train --no-wait")
    assert (code, out) == (0, "")
    assert "is being suspended" in err


@pytest.mark.parametrize(
    ("verb", "state", "where"),
    [("suspend", "failed", "runs on"), ("resume", "suspended", "stays suspended")],
)
def test_what_the_node_could_not_do_is_an_error_with_its_reason(
    verb: str, state: str, where: str, answer_with: AnswerWith, type_line: TypedLine
) -> None:
    answer_with("POST", f"jobs/train/{verb}", suspended(state, "a kernel does not end"))
    code, out, err = type_line(f"{verb} train")
    assert (code, out) == (3, "")
    assert f"job train {where}: a kernel does not end" in err


def test_a_resume_says_what_the_job_has_again(
    answer_with: AnswerWith, type_line: TypedLine
) -> None:
    now = job(state="running", suspension=None)
    answer_with("POST", "jobs/train/resume", now)
    assert type_line("resume train") == (0, f"train: runs, {now['share']}\n", "")
    code, out, _ = type_line("resume train -o json")
    assert (code, json.loads(out)) == (0, now)


def test_lists_show_the_state_of_a_job_that_is_away() -> None:
    assert describe_state(suspended()) == "suspended"
    assert describe_state(suspended("failed")) == "running"
    # A server from before the field has none.
    assert describe_state({"state": "running"}) == "running"
    assert describe_suspension({"state": "running"}) == []
    ((name, text),) = describe_suspension(suspended(note="no room"))
    assert name == "suspended"
    assert str(text).endswith("3072 MiB in main memory; no room")
