"""A program that ends is started again, until the command itself is ended."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from gpupool.agent.network.respawn import make_respawning

#: Leaves its process id, and runs until it is killed.
_PROGRAM = ("sh", "-c", 'echo $$ >> "$1"; exec sleep 60', "program")


def read_pids(file: Path, count: int) -> list[int]:
    """Read the process ids of the first runs, once there are so many."""
    deadline = time.monotonic() + 10
    while True:
        lines = file.read_text().splitlines() if file.exists() else []
        if len(lines) >= count:
            return [int(line) for line in lines]
        assert time.monotonic() < deadline, lines
        time.sleep(0.01)  # between two looks from outside


def test_a_killed_program_is_started_again_until_the_command_is_ended(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    command = subprocess.Popen(make_respawning((*_PROGRAM, str(file))), start_new_session=True)
    try:
        (first,) = read_pids(file, 1)
        os.kill(first, signal.SIGKILL)
        second = read_pids(file, 2)[1]
        assert second != first
        command.send_signal(signal.SIGTERM)
        command.wait(10)
        assert not Path(f"/proc/{second}").exists()
        assert len(read_pids(file, 2)) == 2
    finally:
        if command.poll() is None:
            os.killpg(command.pid, signal.SIGKILL)
            command.wait()
