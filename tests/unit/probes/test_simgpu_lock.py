"""Stopped processes, and the lock of a simulated machine."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from gpupool.probes.simgpu import SimulatedMachine
from gpupool.probes.simgpu_lock import stop_without_lock
from tests.unit.native.simgpu_model import User


def test_a_process_stopped_inside_the_lock_is_let_out_of_it_and_holds_up_nobody(
    machine: SimulatedMachine, program: Path, path: Path, user: User
) -> None:
    user.ask("context", 1)
    with User(program, path) as stopped:
        stopped.ask("lock")
        os.kill(stopped.pid, signal.SIGSTOP)
        stopped.say("unlock")
        assert stop_without_lock(machine, [user.process.pid + 1_000_000, stopped.pid]) == 1
        assert machine.find_lock_holder() is None
        assert user.ask("submit", 1, 1000) == user.ask("wait", 1) == 0
        assert Path(f"/proc/{stopped.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T", (
            "still stopped"
        )
        assert stop_without_lock(machine, [stopped.pid]) == 0
