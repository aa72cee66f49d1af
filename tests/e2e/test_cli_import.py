"""`gpupool import` as one types it, by the installed program, where there is no pool and no home
for one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import yaml

GPUPOOL = Path(sys.executable).with_name("gpupool")
MANIFEST = """
kind: Pod
metadata: {name: train}
spec:
  containers:
    - name: main
      resources: {limits: {nvidia.com/gpu: 2, nvidia.com/gpumem: 8192, nvidia.com/gpucores: 30}}
"""


def run(tmp_path: Path, *words: str, given: str = MANIFEST) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "GPUPOOL_STATE_DIR": str(tmp_path / "none")}
    return subprocess.run(
        [GPUPOOL, "import", *words],
        input=given,
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_pipe_of_two_imports_says_the_same_twice(tmp_path: Path) -> None:
    first = run(tmp_path, "-")
    assert first.returncode == 0, first.stderr
    limits = yaml.safe_load(first.stdout)["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {
        "gpupool.dev/gpus": "2",
        "gpupool.dev/gpu-milli": "300",
        "gpupool.dev/memory": "8Gi",
    }
    again = run(tmp_path, "-", "--strict", given=first.stdout)
    assert (again.returncode, again.stdout, again.stderr) == (0, first.stdout, "")
    assert list(tmp_path.iterdir()) == []


def test_a_refusal_is_one_line_a_hint_and_an_exit_code(tmp_path: Path) -> None:
    refused = run(tmp_path, "-", given=MANIFEST.replace("8192", "8"))
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert refused.stderr == (
        "gpupool: GP-1041: -:7: nvidia.com/gpumem: 8 is 8 MiB, which holds no CUDA context; did you mean 8192?\n"
        "  write 8192 for 8 GiB\n"
    )
