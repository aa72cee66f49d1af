"""`gpupool use`: a line for each stretch of time."""

from __future__ import annotations

import json
from typing import Any

from gpupool.wire.views.job_pages import JobUseOut
from tests.unit.cli.golden import AnswerWith, GoldenLine, TypedLine
from tests.unit.cli.sample import GIB, NOON

PATH = "jobs/train/use"


def use(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "job": "j-0000000001",
        "name": "train",
        "held_milli": 300,
        "held_bytes": 8 * GIB,
        "at_ns": [NOON, NOON + 10**10],
        "gpu_percent": [None, 29.0],
        "share_percent": [None, 96.7],
        "memory_bytes": [3 * GIB, None],
    }
    return JobUseOut.model_validate({**found, **changes}).model_dump()


def test_use_prints_the_recorded_output(answer_with: AnswerWith, golden_line: GoldenLine) -> None:
    answer_with("GET", PATH, use())
    golden_line("use", "use train")


def test_a_job_without_any_says_why(answer_with: AnswerWith, type_line: TypedLine) -> None:
    nothing: dict[str, Any] = {
        name: [] for name in ("at_ns", "gpu_percent", "share_percent", "memory_bytes")
    }
    answer_with("GET", PATH, use(**nothing))
    assert "no use is known" in "".join(type_line("use train")[1:])
    assert type_line("use train -o csv")[1] == "at_ns,gpu_percent,share_percent,memory_bytes\n"


def test_json_has_columns_and_csv_has_rows(answer_with: AnswerWith, type_line: TypedLine) -> None:
    answer_with("GET", PATH, use())
    assert json.loads(type_line("use train -o json")[1]) == use()
    assert type_line("use train -o csv")[1].splitlines()[1] == f"{NOON},,,{3 * GIB}"
