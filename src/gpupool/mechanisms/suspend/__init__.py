"""Takes the memory of a job's processes off its cards and brings it back, by the driver's calls.

The driver moves one process at a time, by its pid (`cuCheckpointProcess*`). This package decides in
which order the processes of a job are moved and what is undone where one of them cannot be. It
knows no job and no server. `host_memory` and `refusals` are imported by name: the process that
calls the driver needs neither, and its start is part of every wake-up.
"""

from gpupool.mechanisms.suspend.checkpoint_driver import (
    CheckpointCallError,
    CheckpointDriver,
    ProcessState,
)
from gpupool.mechanisms.suspend.job_mover import JobMover, JobProcesses, MoveOutcome, TrackedProcess
from gpupool.mechanisms.suspend.move_notes import MoveNotes

__all__ = [
    "CheckpointCallError",
    "CheckpointDriver",
    "JobMover",
    "JobProcesses",
    "MoveNotes",
    "MoveOutcome",
    "ProcessState",
    "TrackedProcess",
]
