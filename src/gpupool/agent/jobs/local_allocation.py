"""The record that one agent has of each allocation: its phase, its supervisor, what was reported.

`PHASE_CHANGES` is the life of an allocation on its node. A `LocalAllocation` is changed under its
own lock only; its phase may be read without the lock. Must not know how a job starts or ends.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from gpupool.agent.jobs.checkpoint import Checkpoint
from gpupool.agent.supervisor.client import SupervisorConnection
from gpupool.agent.supervisor.socket_watch import SocketWatch
from gpupool.wire.fleet import ReportIn, WorkOut

#: Characters of a report's reason that the server accepts.
REASON_LENGTH: Final = 400


class JobPhase(enum.Enum):
    """How far an allocation is on this node."""

    #: On disk and not started. The server will say whether it still wants the job.
    WAITING = "waiting"
    STARTING = "starting"
    #: A supervisor has the job; its command may still wait for a client to attach.
    RUNNING = "running"
    #: Nothing of the job is left on the node. The end is reported until the server confirms it.
    ENDED = "ended"


#: The phases that may follow each phase. Every step can be repeated after a crash, so a phase may
#: also follow itself. An allocation waits only in an agent that found it on disk.
PHASE_CHANGES: Final[Mapping[JobPhase, frozenset[JobPhase]]] = MappingProxyType(
    {
        JobPhase.WAITING: frozenset({JobPhase.STARTING, JobPhase.RUNNING, JobPhase.ENDED}),
        JobPhase.STARTING: frozenset({JobPhase.RUNNING, JobPhase.ENDED}),
        JobPhase.RUNNING: frozenset({JobPhase.ENDED}),
        JobPhase.ENDED: frozenset(),
    }
)


@dataclass
class LocalAllocation:
    """One allocation for which this agent still has something to do."""

    checkpoint: Checkpoint
    directory: Path
    phase: JobPhase
    lock: threading.RLock = field(default_factory=threading.RLock)
    connection: SupervisorConnection | None = None
    supervisor_pid: int = 0
    #: Seconds between SIGTERM and SIGKILL; None while no stop was requested.
    stop_grace_seconds: int | None = None
    #: Until when (`time.monotonic`) it may finish requests of load balancers before it is stopped.
    drain_deadline: float | None = None
    #: The grace of a guest that is shutting down after its power button was pressed.
    power_down_seconds: int | None = None
    started_ns: int | None = None
    #: The last state of the job that was reported: "prepared", "running" or empty.
    reported_state: str = ""
    #: Whether the job's private mounts were made.
    has_mounts: bool = True
    #: Why its fence ended the job; replaces the reason in the report of its end.
    violation: str = ""
    #: Why the job cannot run here; kept so that a repeated end has the same reason.
    refusal: str = ""
    #: Whether the job was looked at again soon after a step failed.
    is_retried: bool = False
    #: Why mechanisms of its plan refused it, by name; empty in an agent that found it running.
    refused: Mapping[str, str] = field(default_factory=dict)
    #: A start that is still to be tried: it is queued, or waits for a slow step of its mechanism.
    pending_start: WorkOut | None = None
    #: Why the start waits, as last reported.
    waiting_for: str = ""
    #: The confirmed report of an end whose files could not be removed yet.
    confirmed_end: ReportIn | None = None
    #: A resize that is not in force yet.
    pending_resize: WorkOut | None = None
    #: A suspend or resume that was not reported yet.
    pending_suspension: WorkOut | None = None
    #: The report of the last suspend or resume.
    suspension_answer: ReportIn | None = None
    #: The suspend that is in force.
    suspended_work: WorkOut | None = None
    #: The generation of the last suspend from which a program of it wanted to wake.
    woken_generation: int = 0
    _phase_lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def key(self) -> str:
        """The allocation's id."""
        return self.checkpoint.allocation

    def enter_phase(self, phase: JobPhase) -> bool:
        """Change the phase as `PHASE_CHANGES` allows. Thread-safe; never blocks for long.

        Returns:
            False if the table does not allow the change: another thread has gone further.
        """
        with self._phase_lock:
            if phase is not self.phase and phase not in PHASE_CHANGES[self.phase]:
                return False
            self.phase = phase
            return True

    def make_report(self, state: Any, generation: int | None = None, **facts: Any) -> ReportIn:
        """Make a report about this allocation.

        Args:
            state: The state of the report, as `wire.fleet.ReportIn` names it.
            generation: The generation that the report names; None is the checkpoint's.
            facts: Further fields of the report.
        """
        if generation is None:
            generation = self.checkpoint.generation
        return make_report(self.key, generation, state, **facts)

    def close_connection(self, watch: SocketWatch) -> None:
        """Close the connection to the supervisor and stop watching it. Idempotent."""
        if self.connection is not None:
            watch.forget(self.connection.fileno())
            self.connection.close()
            self.connection = None
            watch.forget_start(self.key)


class AllocationTable:
    """Every `LocalAllocation` by its id. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._allocations: dict[str, LocalAllocation] = {}

    def get(self, allocation: str) -> LocalAllocation | None:
        """Return the record of an allocation, or None."""
        with self._lock:
            return self._allocations.get(allocation)

    def add(self, allocation: LocalAllocation) -> None:
        """Add an allocation, or replace the record that has its id."""
        with self._lock:
            self._allocations[allocation.key] = allocation

    def remove(self, allocation: LocalAllocation, finish: Callable[[], None]) -> bool:
        """Remove an allocation.

        Args:
            allocation: The record to remove.
            finish: Called under the table's lock if this was the job's last allocation here, so
                that no new allocation of the job can come between.

        Returns:
            False if the table does not have this record.
        """
        with allocation.lock, self._lock:
            if self._allocations.get(allocation.key) is not allocation:
                return False
            others = [one for one in self._allocations.values() if one is not allocation]
            job = allocation.checkpoint.job
            if all(other.checkpoint.job != job for other in others):
                finish()
            del self._allocations[allocation.key]
            return True

    def list_all(self) -> list[LocalAllocation]:
        """List every allocation."""
        with self._lock:
            return list(self._allocations.values())

    def list_in_phase(self, *phases: JobPhase) -> list[LocalAllocation]:
        """List the allocations that are in one of the phases."""
        return [one for one in self.list_all() if one.phase in phases]

    def find_other(self, work: WorkOut) -> LocalAllocation | None:
        """Find another allocation of the same job that has not ended here."""
        for one in self.list_all():
            is_same_job = one.checkpoint.job == work.job
            if is_same_job and one.key != work.allocation and one.phase is not JobPhase.ENDED:
                return one
        return None


def make_checkpoint(work: WorkOut, mechanism: str) -> Checkpoint:
    """Make the checkpoint of an allocation that a mechanism prepares."""
    port = "" if work.network is None else work.network.id
    return Checkpoint(
        work.allocation, work.generation, work.job, mechanism, work.attached, network_port=port
    )


def make_report(allocation: str, generation: int, state: Any, **facts: Any) -> ReportIn:
    """Make a report about an allocation. A reason that is too long is cut."""
    facts["reason"] = facts.get("reason", "")[:REASON_LENGTH]
    return ReportIn(allocation=allocation, generation=generation, state=state, **facts)
