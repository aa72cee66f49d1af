"""The driver's calls by their real signatures, and its refusals in words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpupool.base.errors import ServiceUnavailable
from gpupool.mechanisms.suspend import CheckpointCallError, CheckpointDriver
from gpupool.mechanisms.suspend.checkpoint_driver import (
    OUT_OF_MEMORY,
    STILL_BUSY,
    UNKNOWN_PROCESS,
    UNSUPPORTED,
)
from tests.unit.native.simgpu_cuda import LIBRARY, environment, hear, make_machine, running

CALLER = f"""
import sys
from pathlib import Path
from gpupool.mechanisms.suspend import CheckpointCallError, CheckpointDriver
driver = CheckpointDriver(Path("{LIBRARY}"))
pid = int(sys.argv[1])
print(driver.read_state(1), driver.read_state(pid).name)
driver.lock(pid, 1000)
print(driver.read_state(pid).name)
try:
    driver.restore(pid)
except CheckpointCallError as error:
    print(error.call, error.pid == pid, error.code)
driver.checkpoint(pid)
print(driver.read_state(pid).name)
driver.restore(pid)
driver.unlock(pid)
print(driver.read_state(pid).name)
"""


def test_a_process_is_taken_through_its_states(tmp_path: Path) -> None:
    machine = make_machine(tmp_path, "1xT4")
    text = "cu.start()\nprint('ready', flush=True)\nsys.stdin.readline()"
    with running(machine, text) as process:
        assert hear(process) == "ready"
        command = [sys.executable, "-c", CALLER, str(process.pid)]
        done = subprocess.run(
            command, env=environment(machine), capture_output=True, text=True, check=True
        )
    assert done.stdout.splitlines() == [
        "None RUNNING",
        "LOCKED",
        "restore True 401",
        "CHECKPOINTED",
        "RUNNING",
    ]


def test_a_library_that_is_no_driver_is_refused() -> None:
    with pytest.raises(ServiceUnavailable, match="cannot be loaded"):
        CheckpointDriver(Path("/no/such/libcuda.so.1"))
    with pytest.raises(ServiceUnavailable, match="no checkpoint calls"):
        CheckpointDriver(Path("libc.so.6"))


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (STILL_BUSY, "process 7 has work on a card that does not end"),
        (UNSUPPORTED, "managed memory"),
        (OUT_OF_MEMORY, "too little memory left for process 7"),
        (UNKNOWN_PROCESS, "refused to lock process 7 (CUDA error 1)"),
    ],
)
def test_a_refusal_names_process_and_reason(code: int, words: str) -> None:
    assert words in CheckpointCallError("lock", 7, code).describe()
