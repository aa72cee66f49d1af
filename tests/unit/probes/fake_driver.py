"""Asks the NVML probe in a process of its own, with a compiled stand-in for the driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
#: Since the machine was booted; the start of the ended process that the stand-in knows.
STARTED_NS = 123 * 10**9


def compile_driver(folder: Path) -> Path:
    """Compile the stand-in as `libnvidia-ml.so.1`; returns the directory for LD_LIBRARY_PATH."""
    command = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"]
    subprocess.run([*command, folder / "libnvidia-ml.so.1", HERE / "fake_nvml.c"], check=True)
    return folder


def ask_probe(library: Path, scene: str, sys_root: Path, pid: int = 0) -> dict[str, Any]:
    """Return what `nvml_report.py` prints of the probe, for a scene of `fake_nvml.c`."""
    environment = {
        **os.environ,
        "FAKE_NVML_SCENE": scene,
        "FAKE_NVML_PID": str(pid),
        "FAKE_NVML_START_US": _format_wall_us(STARTED_NS),
        "LD_LIBRARY_PATH": str(library),
    }
    script = [sys.executable, str(HERE / "nvml_report.py"), str(sys_root)]
    done = subprocess.run(script, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def _format_wall_us(boot_ns: int) -> str:
    """Return a moment since the boot as NVML gives it: microseconds of the wall clock."""
    return str((time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME) + boot_ns) // 1000)
