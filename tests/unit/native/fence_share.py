"""For the fence's tests: its C without CUDA compiled alone, and the files of a share."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpupool.mechanisms import regions
from tests.unit.native.front_pool import ROOT, compiler

SRC = ROOT / "native" / "fence" / "src"
INCLUDE = ROOT / "native" / "include"
#: The identity of a process and the parser of /proc that it needs.
PROCESS_ID = (SRC / "process/process_id.c", ROOT / "native/common/proc_stat.c")
HERE = Path(__file__).parent
MIB = 1 << 20
STEPS = 17  # LEDGER_STEPs in ledger.c


def compile_c(target: Path, sources: Sequence[Path], *options: str) -> Path:
    """A program (or with -shared a library) of the fence's CUDA-free files; every warning is an
    error."""
    command = [
        compiler(),
        "-std=gnu11",
        "-D_GNU_SOURCE=",
        "-g",
        "-Wall",
        "-Wextra",
        "-Wshadow",
        "-Werror",
    ]
    command += [
        f"-I{INCLUDE}",
        f"-I{ROOT / 'native'}",
        f"-I{SRC}",
        *map(str, sources),
        *options,
        "-lpthread",
        "-o",
        str(target),
    ]
    subprocess.run(command, check=True)
    return target


def compile_storm(folder: Path, *options: str) -> Path:
    """The program of many processes, with a ledger that can die at each step."""
    header = folder / "step.h"
    header.write_text("void storm_step(int number);\n")
    sources = [HERE / "fence_ledger_storm.c", SRC / "process/ledger.c", *PROCESS_ID]
    steps = ["-DLEDGER_STEP(number)=storm_step(number)", "-include", str(header)]
    return compile_c(folder / "storm", sources, "-O2", *steps, *options)


def usage_file(path: Path) -> Path:
    regions.make_file(path, regions.empty_usage(), size=regions.USAGE_FILE_BYTES)
    return path


def run(
    *command: object, environment: Mapping[str, str] | None = None, seconds: float = 60
) -> subprocess.CompletedProcess[str]:
    """A program in an environment of its own; nothing of the caller's but PATH."""
    own = {"PATH": os.environ["PATH"], **(environment or {})}
    return subprocess.run(
        [*map(str, command)], text=True, capture_output=True, timeout=seconds, env=own
    )


UUID = "GPU-51090000-0000-0000-0000-0000000000ff"
LIMITS = regions.ShareLimits(
    "allocation", "job", "tenant", "soft", (regions.DeviceLimit(UUID, 1 << 30, 80 << 30),)
)


def make_share(base: Path, limits: regions.ShareLimits = LIMITS) -> Path:
    """The three files below a job's base directory, as the agent makes them."""
    for name in ("share", "usage"):
        (base / name).mkdir(parents=True, exist_ok=True)
    regions.make_file(base / regions.LIMITS_FILE, regions.encode_limits(limits))
    regions.make_file(base / regions.GRANTS_FILE, regions.empty_grants())
    usage_file(base / regions.USAGE_FILE)
    return base
