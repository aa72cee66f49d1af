"""The processes of one job: listed, stopped and continued by signals.

All of them are below the job's supervisor. A stopped tree starts no process, so what is listed
after the stop is complete.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Collection, Mapping

from gpupool.agent.monitoring.usage import Process, read_processes, sum_process_trees
from gpupool.agent.supervisor.freeze import is_process_stopped, stop_processes
from gpupool.mechanisms.suspend import TrackedProcess


class JobTree:
    """The processes below one supervisor."""

    def __init__(
        self, supervisor_pid: int, release_locks: Callable[[Collection[int]], None]
    ) -> None:
        """Look at nothing yet.

        Args:
            supervisor_pid: the supervisor, which is not one of the job's processes.
            release_locks: called with processes that were just stopped; a simulated card has a lock
                that a stopped process must not hold.
        """
        self._supervisor_pid = supervisor_pid
        self._release_locks = release_locks

    def list_all(self) -> list[TrackedProcess]:
        found = read_processes()
        return [
            TrackedProcess(pid, found[pid].start_ticks) for pid in sorted(self._list_pids(found))
        ]

    def is_alive(self, process: TrackedProcess) -> bool:
        return process in self.list_all()

    def is_stopped(self) -> bool:
        """Whether no process of the job runs: all are stopped, or there is none."""
        return all(map(is_process_stopped, self._list_pids(read_processes())))

    def stop(self) -> None:
        self._release_locks(stop_processes(self._supervisor_pid))

    def go_on(self) -> None:
        for pid in self._list_pids(read_processes()):
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                continue

    def _list_pids(self, found: Mapping[int, Process]) -> frozenset[int]:
        tree = sum_process_trees(found, [self._supervisor_pid]).get(self._supervisor_pid)
        return tree.pids if tree else frozenset()
