"""Suspends or resumes all processes of a job, or leaves all of them as they were.

Order of a suspend: every process is locked, then every process is moved to the host, then the whole
tree is stopped, because a stopped tree starts no new process on the card; the processes of a closed
share run on and wait in its fence. Order of a resume: the
tree goes on, every process is moved back, and only then is the first one unlocked. So at each
instant either nothing of the job is unlocked, or nothing of it is on the host. Both continue from
the driver's states, after a kill at any line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from gpupool.mechanisms.suspend.checkpoint_driver import (
    UNKNOWN_PROCESS,
    CheckpointCallError,
    ProcessDriver,
    ProcessState,
)
from gpupool.mechanisms.suspend.move_notes import MoveNotes

#: Milliseconds for which a lock waits for submitted work. A kernel that runs longer refuses the
#: suspend, and the job runs on.
LOCK_TIMEOUT_MS: Final = 10_000
#: So often the tree is looked at again because a process began meanwhile.
LOOKS: Final = 5


@dataclass(frozen=True)
class TrackedProcess:
    """A process of the job. `start_ticks` tells it from a later one with its pid."""

    pid: int
    start_ticks: int

    @property
    def key(self) -> str:
        return f"{self.pid}:{self.start_ticks}"


class JobProcesses(Protocol):
    """The processes of one job."""

    def list_all(self) -> Iterable[TrackedProcess]:
        """List every living process of the job."""
        ...

    def is_alive(self, process: TrackedProcess) -> bool: ...

    def stop(self) -> None:
        """Stop all processes (SIGSTOP). Idempotent."""
        ...

    def go_on(self) -> None:
        """Let all processes go on (SIGCONT). Idempotent."""
        ...


@dataclass(frozen=True)
class MoveOutcome:
    """What became of the job.

    Attributes:
        state: where its memory is. "mixed": it could not be brought into one state, and the move
            must be tried again.
        processes: how many of its processes use the driver.
        reason: why it is not what was wanted; empty where it is.
    """

    state: Literal["suspended", "running", "mixed"]
    processes: int
    reason: str = ""


class JobMover:
    """Moves the processes of one job. Blocks as long as the driver does."""

    def __init__(
        self,
        driver: ProcessDriver,
        processes: JobProcesses,
        notes: MoveNotes,
        lock_timeout_ms: int = LOCK_TIMEOUT_MS,
        *,
        stops: bool = True,
    ) -> None:
        """Move nothing yet.

        Args:
            driver: Calls the driver.
            processes: The job's processes.
            notes: Which of them this pool has locked.
            lock_timeout_ms: For so long a lock waits for submitted work.
            stops: Whether the tree is stopped after the move. Not for a closed share, whose fence
                holds every call back, of later processes too.
        """
        self._driver = driver
        self._processes = processes
        self._notes = notes
        self._lock_timeout_ms = lock_timeout_ms
        self._stops = stops

    def suspend(self) -> MoveOutcome:
        """Bring every process to the host, or none. Idempotent."""
        try:
            for _ in range(LOOKS):
                states = self._read_states()
                if _are_all(states, ProcessState.CHECKPOINTED):
                    # A process that began before the stop shows only after it.
                    self._stop()
                    states = self._read_states()
                    if _are_all(states, ProcessState.CHECKPOINTED):
                        return MoveOutcome("suspended", len(states))
                self._processes.go_on()
                self._lock_all(states)
                self._checkpoint_all()
        except CheckpointCallError as error:
            return self._undo(error.describe())
        return self._undo("the job starts new processes on the card again and again")

    def resume(self) -> MoveOutcome:
        """Bring every process back to its cards and let it run, or none. Idempotent."""
        self._processes.go_on()
        try:
            self._restore_all()
        except CheckpointCallError as error:
            reason = error.describe()
            try:
                self._checkpoint_all()
            except CheckpointCallError as second:
                return MoveOutcome("mixed", len(self._read_states()), second.describe())
            self._stop()
            return MoveOutcome("suspended", len(self._read_states()), reason)
        try:
            self._unlock_all()
            states = self._read_states()
        except CheckpointCallError as error:
            return MoveOutcome("mixed", 0, error.describe())
        self._notes.clear()
        return MoveOutcome("running", len(states))

    def _stop(self) -> None:
        if self._stops:
            self._processes.stop()

    def _undo(self, reason: str) -> MoveOutcome:
        outcome = self.resume()
        if outcome.state == "running":
            return MoveOutcome("running", outcome.processes, reason)
        return MoveOutcome("mixed", outcome.processes, f"{reason}; {outcome.reason}")

    def _read_states(self) -> dict[TrackedProcess, ProcessState]:
        found = {}
        for process in self._processes.list_all():
            state = self._driver.read_state(process.pid)
            if state is not None and self._processes.is_alive(process):
                found[process] = state
        return found

    def _lock_all(self, states: Mapping[TrackedProcess, ProcessState]) -> None:
        for process, state in states.items():
            if state is ProcessState.FAILED:
                raise UnsuitableProcess(process.pid, "failed in an earlier suspend or resume")
            if state is ProcessState.RUNNING:
                self._notes.announce(process.key, "lock")
                self._move(process, "lock")
            elif not self._notes.has(process.key):
                raise UnsuitableProcess(process.pid, "was locked by another program")

    def _checkpoint_all(self) -> None:
        self._move_all(ProcessState.LOCKED, "checkpoint")

    def _restore_all(self) -> None:
        self._move_all(ProcessState.CHECKPOINTED, "restore")

    def _unlock_all(self) -> None:
        self._move_all(ProcessState.LOCKED, "unlock")

    def _move_all(self, state: ProcessState, move: str) -> None:
        """Make a move with every process of this pool that is in a state."""
        for process, found in self._read_states().items():
            if found is state and self._notes.has(process.key):
                self._notes.announce(process.key, move)
                self._move(process, move)

    def _move(self, process: TrackedProcess, move: str) -> None:
        """Make one move; a process that has ended meanwhile needs none."""
        try:
            if move == "lock":
                self._driver.lock(process.pid, self._lock_timeout_ms)
            else:
                getattr(self._driver, move)(process.pid)
        except CheckpointCallError as error:
            if error.code != UNKNOWN_PROCESS or self._processes.is_alive(process):
                raise


class UnsuitableProcess(CheckpointCallError):
    """A process in a state from which it cannot be suspended."""

    def __init__(self, pid: int, reason: str) -> None:
        super().__init__("lock", pid, UNKNOWN_PROCESS)
        self._reason = reason

    def describe(self) -> str:
        return f"process {self.pid} {self._reason}"


def _are_all(states: Mapping[TrackedProcess, ProcessState], wanted: ProcessState) -> bool:
    return all(state is wanted for state in states.values())
