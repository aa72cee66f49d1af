"""`gpupool submit`: one request, and an id that scripts can take."""

from __future__ import annotations

import json
import sys

import pytest

from gpupool.wire.views.previews import PreviewOut
from tests.unit.cli.golden import AnswerWith, GoldenLine, TypedLine
from tests.unit.cli.sample import job
from tests.unit.client.scripted_pool import ScriptedPool


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("submit", "submit --gpu 0.3 --memory 8GiB -- true"),
    ],
)
def test_submit_prints_the_recorded_output(name: str, line: str, golden_line: GoldenLine) -> None:
    golden_line(name, line)


def test_submit_of_an_array_prints_its_name(
    pool: ScriptedPool, answer_with: AnswerWith, type_line: TypedLine
) -> None:
    answer_with("POST", "jobs", {"first": job("sweep.0"), "array": "sweep", "count": 9}, 201)
    assert type_line("submit --array 9 -- true") == (0, "sweep\n", "")


def test_submit_says_on_a_terminal_what_it_handed_in(
    pool: ScriptedPool,
    answer_with: AnswerWith,
    type_line: TypedLine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    share = "0.30 GPU (30 % compute) + 8192 MiB"
    assert type_line("submit -- true")[2] == f"gpupool: train: {share}; gpupool ps  lists them\n"
    answer_with("POST", "jobs", {"first": job("sweep.0"), "array": "sweep", "count": 9}, 201)
    assert type_line("submit --array 9 -- true")[2] == (
        f"gpupool: 9 jobs sweep.0 ..., each {share}; gpupool ps  lists them\n"
    )


def test_submit_refuses_an_unknown_format_before_the_job_exists(
    pool: ScriptedPool, type_line: TypedLine
) -> None:
    code, _, err = type_line("submit -o yaml -- true")
    assert (code, err.splitlines()[0]) == (2, "gpupool: GP-1005: -o 'yaml' is not known")
    assert pool.requests == []


def test_every_submission_has_a_key_of_its_own(pool: ScriptedPool, type_line: TypedLine) -> None:
    type_line("submit -- true")
    told = json.loads(type_line("submit -o json -- true")[1])
    assert told["first"]["id"] == "j-0000000001"
    keys = {one.headers["idempotency-key"] for one in pool.requests}
    assert len(keys) == 2


PLAN = {
    "share": "0.30 GPU (30 % compute) + 8192 MiB",
    "count": 1,
    "needs": {"isolation": "hard"},
    "mechanism": "fence+memgroup",
    "holds": {"memory": "hard", "compute": "soft", "bandwidth": "none", "fault": "none"},
    "mechanism_why": "memory hard, compute soft, bandwidth none, fault none; now",
    "rejected": [
        {
            "mechanism": "whole",
            "reason": "it serves whole cards alone",
            "model": "H200",
            "cards": 8,
            "advice": "--gpu 1",
        }
    ],
}
PRINTED = """0.30 GPU (30 % compute) + 8192 MiB
mechanism: fence+memgroup: memory hard, compute soft, bandwidth none, fault none; now
not whole on 8 × H200: it serves whole cards alone (--gpu 1)
"""


def test_a_dry_run_prints_the_mechanism_and_submits_nothing(
    pool: ScriptedPool, answer_with: AnswerWith, type_line: TypedLine
) -> None:
    answer_with("POST", "jobs/plan", PLAN)
    line = "submit --dry-run --isolation hard --gpu 0.3 --memory 8GiB -- true"
    assert type_line(line) == (0, PRINTED, "")
    (asked,) = pool.requests
    assert asked.target == "/api/v1/jobs/plan"
    assert json.loads(asked.body)["shape"]["needs"] == {"isolation": "hard"}
    assert json.loads(type_line(f"{line[:6]} -o json{line[6:]}")[1]) == PLAN


def test_a_dry_run_of_an_array_says_how_many_jobs(
    pool: ScriptedPool, answer_with: AnswerWith, type_line: TypedLine
) -> None:
    answer_with("POST", "jobs/plan", {**PLAN, "count": 9, "mechanism": None})
    out = type_line("submit --dry-run --array 9 -- true")[1].splitlines()
    assert out[:2] == ["9 × [0.30 GPU (30 % compute) + 8192 MiB]", "mechanism: none now"]


def test_run_prints_the_plan_of_a_dry_run_too(
    pool: ScriptedPool, answer_with: AnswerWith, type_line: TypedLine
) -> None:
    answer_with("POST", "jobs/plan", PLAN)
    assert type_line("run --dry-run --gpu 0.3 -- true") == (0, PRINTED, "")


def test_an_unknown_isolation_is_refused_before_the_pool_is_asked(
    pool: ScriptedPool, type_line: TypedLine
) -> None:
    code, _, err = type_line("submit --isolation firm -- true")
    assert (code, err.splitlines()[0]) == (2, "gpupool: GP-1005: --isolation 'firm' is not known")
    assert pool.requests == []


@pytest.mark.parametrize("command", ["submit", "run"])
def test_a_preview_asks_and_submits_nothing(
    command: str, pool: ScriptedPool, answer_with: AnswerWith, type_line: TypedLine
) -> None:
    found = PreviewOut(outcome="never", code="GP-2001", share="x", manifest="", reason="too large")
    answer_with("POST", "jobs/preview", found.model_dump())
    code, out, _ = type_line(f"{command} --preview --gpu 0.3 -- true")
    assert (code, out) == (3, "never: x (GP-2001)\ntoo large\n")
    assert [asked.target for asked in pool.requests] == ["/api/v1/jobs/preview"]
    if command == "submit":
        assert json.loads(type_line("submit --preview -o json -- true")[1])["code"] == "GP-2001"
