"""`gpupool saved`: the job that is named, the one that calls, or the newest."""

from __future__ import annotations

import json

import pytest

from tests.unit.cli.golden import GoldenLine, TypedLine
from tests.unit.client.scripted_pool import ScriptedPool


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("saved", "saved train"),
    ],
)
def test_saved_prints_the_recorded_output(name: str, line: str, golden_line: GoldenLine) -> None:
    golden_line(name, line)


@pytest.mark.parametrize(
    ("line", "environ", "job"),
    [
        ("saved train", "j-7", "train"),
        ("saved", "j-7", "j-7"),
        ("saved", "", "last"),
    ],
)
def test_saved_is_of_the_named_job_or_of_the_calling_one(
    line: str,
    environ: str,
    job: str,
    pool: ScriptedPool,
    type_line: TypedLine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GPUPOOL_JOB", environ)
    code, out, _ = type_line(line)
    assert (code, out) == (0, f"{job}: saved; preempted now, it would lose nothing\n")
    assert pool.requests[-1].target == f"/api/v1/jobs/{job}/saved"


def test_saved_as_json_is_the_job(pool: ScriptedPool, type_line: TypedLine) -> None:
    assert json.loads(type_line("saved train -o json")[1])["name"] == "train"
