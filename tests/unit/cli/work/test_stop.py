"""`gpupool stop`: which jobs are ended, and what is said of each end."""

from __future__ import annotations

import pytest

from gpupool.cli.work import stop
from gpupool.cli.work.stop import grace_seconds
from tests.unit.cli.golden import AnswerWith, GoldenLine, TypedLine
from tests.unit.cli.sample import job
from tests.unit.client.scripted_pool import ScriptedPool


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("stop", "stop train"),
        ("stop-nothing", "stop"),
    ],
)
def test_stop_prints_the_recorded_output(name: str, line: str, golden_line: GoldenLine) -> None:
    golden_line(name, line)


def test_a_grace_of_nothing_is_understood() -> None:
    assert (grace_seconds("0"), grace_seconds("1m")) == (0, 60)


def test_stop_tries_every_job_and_ends_with_the_first_error(
    pool: ScriptedPool, answer_with: AnswerWith, type_line: TypedLine
) -> None:
    refusal = {"code": "GP-3003", "detail": "no job 'gone'", "hint": ""}
    answer_with("POST", "jobs/gone/stop", refusal, 404)
    code, out, err = type_line("stop gone train")
    assert (code, out) == (5, "train stopped\n")
    assert err == "gpupool: GP-3003: no job 'gone'\n"


def test_stop_without_waiting_asks_for_no_end(
    pool: ScriptedPool, answer_with: AnswerWith, type_line: TypedLine
) -> None:
    answer_with("POST", "jobs/train/stop", [job("train", "running")])
    assert type_line("stop train --no-wait --grace 5s")[1] == "train is being stopped\n"
    assert [one.json for one in pool.requests] == [{"grace_seconds": 5}]


def test_stop_all_and_names_together_are_refused(pool: ScriptedPool, type_line: TypedLine) -> None:
    assert type_line("stop train --all")[0] == 2
    assert pool.requests == []


def test_stop_all_ends_live_jobs_of_the_caller_after_the_plan(
    pool: ScriptedPool, answer_with: AnswerWith, type_line: TypedLine
) -> None:
    answer_with("GET", "jobs", {"items": [job("train")], "next": None})
    out = type_line("stop --all --yes")[1]
    assert out.splitlines()[0] == "will end train (running, 0.30 GPU (30 % compute) + 8192 MiB)"
    assert "live=true&user=alice" in pool.requests[1].target
    assert pool.requests[-1].target == "/api/v1/jobs/j-0000000001/stop"


def test_stop_all_says_that_nothing_lives(answer_with: AnswerWith, type_line: TypedLine) -> None:
    answer_with("GET", "jobs", {"items": [], "next": None})
    assert type_line("stop --all") == (0, "no live jobs\n", "")


def test_a_job_that_ended_since_it_was_listed_is_no_error(
    pool: ScriptedPool, answer_with: AnswerWith, type_line: TypedLine
) -> None:
    ended = {"code": "GP-2007", "detail": "train has ended", "hint": ""}
    answer_with("POST", "jobs/train/stop", ended, 409)
    code, _, err = type_line("stop train")
    assert (code, err) == (3, "gpupool: GP-2007: train has ended\n")
    answer_with("GET", "jobs", {"items": [job("train")], "next": None})
    answer_with("POST", "jobs/j-0000000001/stop", ended, 409)
    answer_with("GET", "jobs/j-0000000001", job("train", "done"))
    assert type_line("stop --all --yes")[0] == 0


def test_a_job_that_outlives_its_grace_is_named_and_the_code_is_1(
    pool: ScriptedPool,
    answer_with: AnswerWith,
    type_line: TypedLine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stop, "PATIENCE_SECONDS", 0)
    answer_with("POST", "jobs/train/stop", [job("train", "running")])
    code, out, err = type_line("stop train --grace 0")
    assert (code, out) == (1, "")
    assert err == ("gpupool: train has not ended yet (it is running); gpupool show train\n")
