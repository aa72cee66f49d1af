"""What one agent has something to do with: each allocation with where it stands, in a table that many threads read.

A `Held` is changed under its own lock only.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpupool.agent.checkpoint import Checkpoint
from gpupool.agent.supervisor import Connection
from gpupool.agent.watch import Watch
from gpupool.wire.fleet import ReportIn, WorkOut


class Phase(enum.Enum):
    WAITING = "waiting"
    """On disk, not started; the server will say whether it still wants it."""
    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"
    """Nothing of it is left on the node; the server is told until it answers."""


@dataclass
class Held:
    """One allocation this agent has something to do with."""

    checkpoint: Checkpoint
    directory: Path
    phase: Phase
    lock: threading.RLock = field(default_factory=threading.RLock)
    connection: Connection | None = None
    supervisor_pid: int = 0
    stop_grace: int | None = None
    started_ns: int | None = None
    told: str = ""
    mounted: bool = True
    """Its private mounts were made."""
    verdict: str = ""
    """Why its fence had it ended."""
    refusal: str = ""
    """Why it cannot run here; kept so that an end that could not be finished is finished with this reason."""
    again: bool = False
    """It was looked at again soon after a step that failed."""
    unsized: WorkOut | None = None
    """A resize that could not be put in force yet."""

    @property
    def key(self) -> str:
        return self.checkpoint.allocation

    def report(self, state: Any, generation: int | None = None, **facts: Any) -> ReportIn:
        """What is told of it, under the generation it has unless another one is named."""
        return report_of(self.key, self.checkpoint.generation if generation is None else generation, state, **facts)

    def hang_up(self, watch: Watch) -> None:
        """Speak with its supervisor no more. Idempotent."""
        if self.connection is not None:
            watch.forget(self.connection.fileno())
            self.connection.close()
            self.connection = None
            watch.forget_start(self.key)


class HeldTable:
    """Every `Held` by its allocation. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[str, Held] = {}

    def get(self, allocation: str) -> Held | None:
        with self._lock:
            return self._held.get(allocation)

    def remember(self, held: Held) -> None:
        with self._lock:
            self._held[held.key] = held

    def forget(self, held: Held, finish: Callable[[], None]) -> bool:
        """Whether it was known. Where nothing else of its job is here, `finish` is called before anybody can come."""
        with held.lock, self._lock:
            if self._held.get(held.key) is not held:
                return False
            if all(one is held or one.checkpoint.job != held.checkpoint.job for one in self._held.values()):
                finish()
            del self._held[held.key]
            return True

    def all(self) -> list[Held]:
        with self._lock:
            return list(self._held.values())

    def in_phase(self, *phases: Phase) -> list[Held]:
        return [one for one in self.all() if one.phase in phases]

    def other_of(self, work: WorkOut) -> Held | None:
        """Another allocation of the same job that still has something here."""
        same = (one for one in self.all() if one.checkpoint.job == work.job and one.key != work.allocation)
        return next((one for one in same if one.phase is not Phase.ENDED), None)


def checkpoint_of(work: WorkOut, mechanism: str) -> Checkpoint:
    return Checkpoint(work.allocation, work.generation, work.job, mechanism, work.attached)


def report_of(allocation: str, generation: int, state: Any, **facts: Any) -> ReportIn:
    facts["reason"] = facts.get("reason", "")[:400]
    return ReportIn(allocation=allocation, generation=generation, state=state, **facts)
