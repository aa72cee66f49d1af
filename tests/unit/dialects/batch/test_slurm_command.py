"""A script of Slurm runs by its own interpreter, with the variables that it expects."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from gpupool.base.errors import BadManifest
from gpupool.dialects.batch.slurm import understand_script
from gpupool.dialects.batch.slurm_command import (
    EXPORTS_VARIABLE,
    VARIABLES,
    build_command,
    build_exports,
)

CARD = "#SBATCH --gres=gpu:2"


def run_script(
    tmp_path: Path, text: str, *arguments: str, typed: tuple[str, ...] = (), **variables: str
) -> str:
    script = tmp_path / "it's a job.sh"
    script.write_text(text)
    job = understand_script(text, typed=typed, variables=VARIABLES)
    command = build_command(text, str(script), arguments)
    environment = {"PATH": os.environ["PATH"], "GPUPOOL_JOB": "j-1"} | variables
    environment[EXPORTS_VARIABLE] = build_exports(text, str(script), job, typed)
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=30
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_script_finds_slurms_variables_and_its_arguments(tmp_path: Path) -> None:
    text = (
        f'#!/bin/sh -eu\n{CARD}\n#SBATCH -J "my job" -c 4\n'
        'echo "$SLURM_JOB_ID|$SLURM_JOB_NAME|$SLURM_SUBMIT_DIR|$SLURM_CPUS_PER_TASK"\n'
        'echo "$SLURM_GPUS_ON_NODE|$SLURM_NNODES|$SLURM_NODEID|$1"\n'
    )
    first, second = run_script(tmp_path, text, "a b").splitlines()
    assert first == f"j-1|my job|{tmp_path}|4"
    assert second == "2|1|0|a b"


def test_a_script_runs_by_the_interpreter_of_its_first_line(tmp_path: Path) -> None:
    text = f"#!/usr/bin/env python3\n{CARD}\nimport os, sys\nprint(os.environ['SLURM_JOB_ID'], sys.argv[1])\n"
    assert run_script(tmp_path, text, "x") == "j-1 x\n"


def test_a_script_without_an_interpreter_is_refused_as_sbatch_does() -> None:
    text = f"{CARD}\necho hi\n"
    with pytest.raises(BadManifest, match="does not begin with the line of an interpreter"):
        build_command(text, "/job.sh", ())


@pytest.mark.parametrize(
    ("array", "numbers"),
    [("0-3", [0, 1, 2, 3]), ("1-9:4%2", [1, 5, 9]), ("7", [7]), ("4,1,20-22", [4, 1, 20, 21, 22])],
)
def test_jobs_of_an_array_find_the_numbers_that_were_written(
    tmp_path: Path, array: str, numbers: list[int]
) -> None:
    text = f"#!/bin/sh\n{CARD}\n#SBATCH --array=99\necho $SLURM_ARRAY_TASK_ID $SLURM_ARRAY_TASK_COUNT\n"
    typed = (f"--array={array}",)
    for index, number in enumerate(numbers):
        told = run_script(tmp_path, text, typed=typed, GPUPOOL_ARRAY_INDEX=str(index))
        assert told == f"{number} {len(numbers)}\n"


def test_a_member_of_a_gang_finds_its_node(tmp_path: Path) -> None:
    text = (
        f"#!/bin/sh\n{CARD}\n#SBATCH -N 2\necho $SLURM_NNODES $SLURM_NODEID $SLURM_JOB_NODELIST\n"
    )
    gang = {"GPUPOOL_GANG_SIZE": "2", "GPUPOOL_GANG_RANK": "1", "GPUPOOL_GANG_HOSTS": "a,b"}
    assert run_script(tmp_path, text, **gang) == "2 1 a,b\n"
