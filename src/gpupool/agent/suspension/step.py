"""Suspends or resumes the processes of one job, in a process of its own.

`python -m gpupool.agent.suspension.step GOAL FOLDER SUPERVISOR_PID LIBRARY [MACHINE]` prints the
outcome as JSON. GOAL is `suspend` or `resume`, with `-closed` after it for a closed share. It may be
killed at any line and started again. `MACHINE` is the file of simulated cards. Must stay small: its
start is part of every wake-up.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict
from pathlib import Path

from gpupool.agent.suspension.job_tree import JobTree
from gpupool.base.errors import ServiceUnavailable
from gpupool.mechanisms.suspend import CheckpointDriver, JobMover, MoveNotes, MoveOutcome

SUSPEND = "suspend"
RESUME = "resume"
#: After a goal: the job's share is closed, so its processes are not stopped.
CLOSED = "-closed"


def main(arguments: Sequence[str]) -> int:
    """Reach the goal or say why not. Returns 0 in both cases."""
    named, folder, supervisor_pid, library, *rest = arguments
    goal = named.removesuffix(CLOSED)
    machine = rest[0] if rest else None
    # The driver reads it; the agent's own choice of cards is not the job's.
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    if machine is not None:
        os.environ["GPUPOOL_SIMGPU"] = machine
    tree = JobTree(int(supervisor_pid), _make_lock_release(machine))
    notes = MoveNotes(Path(folder))
    try:
        driver = CheckpointDriver(Path(library))
    except ServiceUnavailable as error:
        _print_outcome(_describe_standing(goal, notes, error.message))
        return 0
    mover = JobMover(driver, tree, notes, stops=goal == named)
    _print_outcome(mover.suspend() if goal == SUSPEND else mover.resume())
    return 0


def _describe_standing(goal: str, notes: MoveNotes, reason: str) -> MoveOutcome:
    """Say where the job is while the driver cannot be asked."""
    if goal == RESUME:
        return MoveOutcome("suspended", 0, reason)
    # A step that was killed may have moved a part of it.
    return MoveOutcome("running" if notes.is_empty() else "mixed", 0, reason)


def read_outcome(output: str) -> MoveOutcome | None:
    """Return the outcome that a step printed last; None where it ended without one."""
    for line in reversed(output.splitlines()):
        try:
            document = json.loads(line)
        except ValueError:
            continue
        return MoveOutcome(**document)
    return None


def _make_lock_release(machine: str | None) -> Callable[[Collection[int]], None]:
    def release(stopped: Collection[int]) -> None:
        if machine is None:
            return
        # Only here: real cards need no ctypes view of a machine's file.
        from gpupool.probes.simgpu import SimulatedMachine
        from gpupool.probes.simgpu_lock import stop_without_lock

        with SimulatedMachine(Path(machine)) as cards:
            stop_without_lock(cards, stopped)

    return release


def _print_outcome(outcome: MoveOutcome) -> None:
    print(json.dumps(asdict(outcome)), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
