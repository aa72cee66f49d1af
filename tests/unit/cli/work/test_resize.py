"""`gpupool resize`: the change as one line, and what is still to come as a notice."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpupool.cli.work.resize import describe_change
from tests.unit.cli.golden import AnswerWith, TypedLine
from tests.unit.cli.sample import GIB, job
from tests.unit.client.scripted_pool import ScriptedPool


def resized(sharing: str = "fixed", **changes: Any) -> dict[str, Any]:
    now = job(gpu_milli=500, share="0.50 GPU (50 % compute) + 8192 MiB", sharing=sharing)
    facts: dict[str, Any] = {"job": now, "changed": True, "gpu_milli_before": 300}
    facts |= {"memory_bytes_before": 8 * GIB, "applied": True, "applied_milliseconds": 31.4}
    return {**facts, "note": "", **changes}


def test_a_change_is_both_shares_and_the_time_until_it_is_in_force() -> None:
    assert describe_change(resized()) == (
        "train: 0.30 GPU (30 % compute) + 8192 MiB -> 0.50 GPU (50 % compute) + 8192 MiB, "
        "in force after 31 ms"
    )
    assert describe_change(resized(applied=False)).endswith("(50 % compute) + 8192 MiB")
    assert describe_change(resized(applied_milliseconds=None)).endswith("+ 8192 MiB")


def test_a_size_that_the_job_has_already_is_no_change() -> None:
    assert describe_change(resized(changed=False)) == (
        "train: 0.50 GPU (50 % compute) + 8192 MiB already"
    )


def test_of_best_effort_no_compute_before_is_claimed() -> None:
    assert "30 %" not in describe_change(resized(sharing="best-effort"))


@pytest.mark.parametrize(
    ("changes", "line", "notice"),
    [
        ({"note": "it keeps 9 GiB"}, "resize train --gpu 0.5", "gpupool: it keeps 9 GiB\n"),
        (
            {"applied": False},
            "resize train --gpu 0.5",
            "gpupool: it is booked; its node has not answered yet and applies it as soon as it does\n",
        ),
        ({"applied": False}, "resize train --gpu 0.5 --no-wait", ""),
        ({}, "resize train --gpu 0.5", ""),
    ],
)
def test_resize_notices_what_is_still_to_come(
    changes: dict[str, Any],
    line: str,
    notice: str,
    pool: ScriptedPool,
    answer_with: AnswerWith,
    type_line: TypedLine,
) -> None:
    answer_with("POST", "jobs/train/resize", resized(**changes))
    code, _, err = type_line(line)
    assert (code, err) == (0, notice)
    assert ("wait_seconds=10" in pool.requests[-1].target) == ("--no-wait" not in line)


def test_resize_as_json_is_the_answer(answer_with: AnswerWith, type_line: TypedLine) -> None:
    answer_with("POST", "jobs/train/resize", resized(note="kept"))
    code, out, err = type_line("resize train --gpu 0.5 -o json")
    assert (code, json.loads(out), err) == (0, resized(note="kept"), "")
