"""`gpupool quota`: guarantees are shown as a table or a tree, and written with their generation."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.cli.main import main
from tests.unit.cli.golden import GoldenLine
from tests.unit.cli.sample import sample_pool


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("quota", "quota show nlp"),
        ("quota-tree", "quota"),
    ],
)
def test_quota_prints_the_recorded_output(name: str, line: str, golden_line: GoldenLine) -> None:
    golden_line(name, line)


def test_a_quota_is_written_naming_the_generation_that_was_read(tmp_path: Path) -> None:
    with sample_pool(tmp_path) as running:
        assert main(["--state-dir", str(tmp_path), "quota", "set", "nlp", "--gpus", "4"]) == 0
        put = running.requests[-1]
    assert (put.method, put.headers["if-match"]) == ("PUT", '"4"')


def test_hours_are_set_as_a_budget_beside_the_quota(tmp_path: Path) -> None:
    with sample_pool(tmp_path) as running:
        words = ["--state-dir", str(tmp_path), "quota", "set", "nlp"]
        main([*words, "--gpu-hours", "500/month"])
        assert [(one.method, one.target) for one in running.requests] == [
            ("PUT", "/api/v1/budgets")
        ]
        body = running.requests[0].json
        assert (body["unit"], body["period"], body["tenant"]) == ("gpu-hours", "month", "nlp")
        assert body["amount"] == 500 * 3_600_000
        main([*words, "--gpus", "4", "--gpu-hours", "1200/quarter"])
        assert [one.method for one in running.requests[1:]] == ["GET", "PUT", "PUT"]


@pytest.mark.parametrize("hours", ["x/month", "5/week", "0"])
def test_hours_that_are_none_change_no_quota(tmp_path: Path, hours: str) -> None:
    with sample_pool(tmp_path) as running:
        words = ["--state-dir", str(tmp_path), "quota", "set", "nlp", "--gpus", "4"]
        assert main([*words, "--gpu-hours", hours]) == 2
        assert running.requests == []
