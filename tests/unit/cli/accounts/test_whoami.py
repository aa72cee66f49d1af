"""`gpupool whoami`: the caller as the pool knows it, and what its tenant may take."""

from __future__ import annotations

import pytest

from tests.unit.cli.golden import AnswerWith, GoldenLine, TypedLine
from tests.unit.cli.sample import answers
from tests.unit.client.scripted_pool import ScriptedPool


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("whoami", "whoami"),
    ],
)
def test_whoami_prints_the_recorded_output(name: str, line: str, golden_line: GoldenLine) -> None:
    golden_line(name, line)


def test_whoami_says_when_no_account_runs_the_callers_jobs(
    answer_with: AnswerWith, type_line: TypedLine
) -> None:
    answer_with("GET", "whoami", {**answers()["whoami"], "unix_user": None})
    assert "jobs run as  nobody: no Unix user is bound\n" in type_line("whoami")[1]


def test_whoami_ends_with_what_quotas_leave_the_tenant(
    answer_with: AnswerWith, type_line: TypedLine
) -> None:
    yours = {"tenant": "nlp", "firm_milli": 500, "preemptible_milli": 500}
    yours |= {"most_firm_milli": 500, "most_preemptible_milli": 500}
    answer_with("GET", "capacity", {**answers()["capacity"], "yours": yours})
    assert type_line("whoami")[1].splitlines()[-1].split() == ["may", "take", "now", "0.50", "GPU"]


def test_whoami_says_what_is_spent_of_the_callers_budgets(
    answer_with: AnswerWith, type_line: TypedLine
) -> None:
    who = answers()["whoami"]
    mine = {"tenant": who["tenant"], "user": None, "project": None, "unit": "gpu-hours"}
    mine |= {"period_name": "2026-11", "amount": 500 * 3_600_000, "spent": 9 * 3_600_000}
    mine["forecast"] = {"end": 40 * 3_600_000}
    rows = [
        {**mine, "user": who["user"], "project": "web", "forecast": None},
        mine,
        {**mine, "user": "another", "period_name": "of another user"},
        {**mine, "tenant": "another", "period_name": "of another tenant"},
    ]
    answer_with("GET", "budgets", rows)
    lines = [line.split(maxsplit=1) for line in type_line("whoami")[1].splitlines()[-4:]]
    assert lines == [
        ["budget", "9.00 GPU-hours of 500.00 GPU-hours spent in 2026-11 (project web)"],
        ["forecast", "--"],
        ["budget", "9.00 GPU-hours of 500.00 GPU-hours spent in 2026-11"],
        ["forecast", "40.00 GPU-hours at its end"],
    ]


def test_whoami_as_json_asks_for_no_capacity(pool: ScriptedPool, type_line: TypedLine) -> None:
    assert type_line("whoami -o json")[0] == 0
    assert [one.target for one in pool.requests] == ["/api/v1/whoami"]
