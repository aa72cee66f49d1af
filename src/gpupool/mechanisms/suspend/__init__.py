"""Takes the memory of a job's processes off its cards and brings it back, by the driver's calls.

The driver moves one process at a time, by its pid (`cuCheckpointProcess*`). This package decides in
which order the processes of a job are moved and what is undone where one of them cannot be. It
knows no job and no server.
"""

from gpupool.mechanisms.suspend.checkpoint_driver import (
    CheckpointCallError,
    CheckpointDriver,
    ProcessState,
)
from gpupool.mechanisms.suspend.host_memory import measure_host_room
from gpupool.mechanisms.suspend.job_mover import JobMover, JobProcesses, MoveOutcome, TrackedProcess
from gpupool.mechanisms.suspend.move_notes import MoveNotes
from gpupool.mechanisms.suspend.refusals import explain_host_shortage, explain_refusal

__all__ = [
    "CheckpointCallError",
    "CheckpointDriver",
    "JobMover",
    "JobProcesses",
    "MoveNotes",
    "MoveOutcome",
    "ProcessState",
    "TrackedProcess",
    "explain_host_shortage",
    "explain_refusal",
    "measure_host_room",
]
