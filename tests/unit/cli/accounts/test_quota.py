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
