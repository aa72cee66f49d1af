"""`gpupool sbatch`: the script as it is, the differences before it is submitted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.golden import TypedLine
from tests.unit.client.scripted_pool import ScriptedPool

SCRIPT = """#!/bin/bash
#SBATCH --job-name=train --gres=gpu:1 --time=10:00
#SBATCH --mail-type=END
echo $SLURM_JOB_ID $SLURM_PROCID
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "job.sh"
    path.write_text(SCRIPT)
    return path


def test_sbatch_says_what_is_different_and_submits(
    pool: ScriptedPool, type_line: TypedLine, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUPOOL_SBATCH_EXPORTS", "")  # the command sets it, the test takes it back
    code, out, told = type_line(f"sbatch --time=2:00:00 --parsable {script} --epochs 3")
    assert (code, out.startswith("j-")) == (0, True)
    assert [line.partition(": ")[2].split(":")[0] for line in told.splitlines()] == [
        "different here"
    ] * 2
    assert "--mail-type" in told
    assert "SLURM_PROCID" in told
    (body,) = [request.json for request in pool.requests]
    assert body["name"] == "train"
    assert body["max_seconds"] == 7200
    assert "export SLURM_JOB_NAME=train" in body["launch"]["env"]["GPUPOOL_SBATCH_EXPORTS"]
    assert body["launch"]["argv"][-4:] == ["/bin/bash", str(script), "--epochs", "3"]


def test_sbatch_test_only_submits_nothing(
    pool: ScriptedPool, type_line: TypedLine, script: Path
) -> None:
    code, out, _ = type_line(f"sbatch --test-only -t 5 {script}")
    line = f"gpupool submit --gpu 1 --name train --max-time 300s -- {script}\n"
    assert (code, out, pool.requests) == (0, line, [])


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("sbatch", "needs a SCRIPT"),
        ("sbatch --time=5", "needs a SCRIPT"),
        ("sbatch --time", "needs a SCRIPT"),
        ("sbatch -", "no file that the job could run"),
        ("sbatch --begin=now {script}", "--begin: now"),
        ("sbatch {script}.not", "cannot be read"),
    ],
)
def test_sbatch_refuses_what_it_cannot_do(
    pool: ScriptedPool, type_line: TypedLine, script: Path, line: str, words: str
) -> None:
    code, out, told = type_line(line.format(script=script))
    assert (code, out) == (2, "") or (code, out) == (3, "")
    assert words in told
    assert pool.requests == []
