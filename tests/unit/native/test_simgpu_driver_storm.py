"""The simulated driver under the sanitizers: threads that use it in every way at once, and forks in
the middle."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.unit.native.fence_build import CUDA, Headers
from tests.unit.native.front_pool import NATIVE, SANITIZERS, compiler
from tests.unit.native.simgpu_cuda import make_machine

DRIVER = NATIVE / "simgpu" / "driver"
MODEL = NATIVE / "simgpu" / "model"
STORM = Path(__file__).parent / "simgpu_driver_storm.c"
TSAN = ("-fsanitize=thread", "-g", "-O1")


def compile_one(source: Path, target: Path, options: Sequence[str]) -> Path:
    subprocess.run([compiler(), *options, "-c", str(source), "-o", str(target)], check=True)
    return target


def build(folder: Path, headers: Headers, sanitizers: Sequence[str]) -> Path:
    """The driver's own sources, the model, what is generated for them and the storm, as one
    program."""
    options = [
        *("-std=gnu11", "-D_GNU_SOURCE", "-fPIC", "-Wno-deprecated-declarations", *sanitizers),
        *(f"-I{NATIVE}", f"-I{DRIVER}", f"-I{MODEL}", *headers.options),
    ]
    with ThreadPoolExecutor(2) as pool:
        ours = [
            pool.submit(compile_one, s, folder / f"d-{s.stem}.o", options)
            for s in sorted(DRIVER.glob("*/*.c"))
        ]
        model = [
            pool.submit(compile_one, s, folder / f"m-{s.stem}.o", options)
            for s in (*sorted(MODEL.glob("*/*.c")), NATIVE / "common/proc_stat.c")
        ]
        objects = [str(future.result()) for future in ours]
        below = [str(future.result()) for future in model]
    includes = [
        word for path in headers.options if path != "-isystem" for word in ("--include", path)
    ]
    subprocess.run(
        [sys.executable, "-B", str(DRIVER / "gen" / "generate.py"), "--symbols", str(headers.folder / "symbols.json"),
         "--reader", str(CUDA), *includes, "--out", str(folder / "made"), *objects],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    made = [str(path) for path in sorted((folder / "made").glob("*.c"))]
    storm = folder / "storm"
    subprocess.run(
        [
            compiler(),
            *options,
            *made,
            str(STORM),
            *objects,
            *below,
            "-o",
            str(storm),
            "-pthread",
            "-ldl",
        ],
        check=True,
    )
    return storm


@pytest.mark.parametrize(
    "sanitizers",
    [
        pytest.param(SANITIZERS, id="address", marks=pytest.mark.nightly),
        pytest.param(TSAN, id="thread"),
    ],
)
def test_a_storm_of_threads_leaves_no_trace(
    sanitizers: Sequence[str], headers: Headers, tmp_path: Path
) -> None:
    storm = build(tmp_path, headers, sanitizers)
    environment = dict(os.environ, GPUPOOL_SIMGPU=str(make_machine(tmp_path)))
    done = subprocess.run(
        [storm, "15", "6"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
