"""The command that runs a job script of Slurm as it is: with its interpreter and its variables."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Final

from gpupool.base.errors import BadManifest
from gpupool.dialects.batch.script import JobClaim
from gpupool.dialects.batch.slurm_options import read_options, read_typed_options
from gpupool.dialects.batch.slurm_values import read_indices

#: Slurm's output environment variables (sbatch(1)) that a job has, with their values in a shell.
_VARIABLES: Final[Mapping[str, str]] = {
    "SLURM_JOB_ID": '"$GPUPOOL_JOB"',
    "SLURM_JOBID": '"$GPUPOOL_JOB"',
    "SLURM_SUBMIT_DIR": '"$PWD"',
    "SLURM_NNODES": '"${GPUPOOL_GANG_SIZE:-1}"',
    "SLURM_JOB_NUM_NODES": '"${GPUPOOL_GANG_SIZE:-1}"',
    "SLURM_NODEID": '"${GPUPOOL_GANG_RANK:-0}"',
    "SLURM_JOB_NODELIST": '"${GPUPOOL_GANG_HOSTS:-$(uname -n)}"',
}
#: Those that depend on what the script asks for.
_OF_SCRIPT: Final = ("SLURM_JOB_NAME", "SLURM_CPUS_PER_TASK", "SLURM_GPUS_ON_NODE")
_OF_ARRAYS: Final = ("SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT")
VARIABLES: Final = frozenset((*_VARIABLES, *_OF_SCRIPT, *_OF_ARRAYS))
#: Has the shell lines that set them: in the command they would fill the list of jobs.
EXPORTS_VARIABLE: Final = "GPUPOOL_SBATCH_EXPORTS"
_SHELL: Final = ("sh", "-c", f'eval "${EXPORTS_VARIABLE}"; exec "$@"', "sbatch")


def build_command(script: str, path: str, arguments: Sequence[str]) -> tuple[str, ...]:
    """Build the command of a script: a shell sets Slurm's variables and becomes the interpreter.

    It needs what `build_exports` makes in its environment, as `EXPORTS_VARIABLE`.

    Args:
        path: The script's absolute path; its first line names the interpreter.

    Raises:
        BadManifest: The first line names no interpreter; sbatch refuses that too.
    """
    first = script.partition("\n")[0]
    interpreter = shlex.split(first.removeprefix("#!")) if first.startswith("#!") else []
    if not interpreter:
        raise BadManifest(
            f"{path} does not begin with the line of an interpreter, such as #!/bin/bash",
            hint="add it; gpupool submit -- COMMAND  runs a command without a script",
        )
    return (*_SHELL, *interpreter, path, *arguments)


def build_exports(script: str, path: str, job: JobClaim, typed: Sequence[str] = ()) -> str:
    """Build the shell lines that set Slurm's variables in a job.

    Args:
        typed: Options of the command line.
    """
    values = dict(_VARIABLES)
    values["SLURM_JOB_NAME"] = shlex.quote(job.name or path.rpartition("/")[2])
    values["SLURM_CPUS_PER_TASK"] = str(max(1, job.cpu_milli // 1000))
    values["SLURM_GPUS_ON_NODE"] = str(job.ask.count)
    options = dict(read_options(script)) | dict(read_typed_options(typed))
    if job.array is not None:
        indices = [number for part in read_indices(options["array"]) for number in part]
        values["SLURM_ARRAY_JOB_ID"] = '"$GPUPOOL_JOB"'
        values["SLURM_ARRAY_TASK_COUNT"] = str(len(indices))
        values["SLURM_ARRAY_TASK_ID"] = _select_index(indices)
    return "\n".join(f"export {name}={value}" for name, value in values.items())


def _select_index(indices: Sequence[int]) -> str:
    """Write what a shell computes of GPUPOOL_ARRAY_INDEX, which counts from 0."""
    step = indices[1] - indices[0] if len(indices) > 1 else 1
    if list(indices) == list(range(indices[0], indices[0] + step * len(indices), step)):
        return f"$(({indices[0]} + {step} * GPUPOOL_ARRAY_INDEX))"
    words = " ".join(map(str, indices))
    return f'$(echo {words} | cut -d" " -f$((GPUPOOL_ARRAY_INDEX + 1)))'
