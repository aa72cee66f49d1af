"""The share of a job that is suspended while idle: closed in its fence in place of a stopped tree.

Programs of a closed share run on. Their first call of the driver waits in the fence and wakes the
job (docs/decisions/0068).
"""

from __future__ import annotations

import time
from typing import Final

from gpupool.agent.jobs.job_context import JobContext
from gpupool.agent.jobs.local_allocation import LocalAllocation
from gpupool.agent.monitoring.fence_counters import read_fence_usage
from gpupool.mechanisms.fenced_files import close_share, is_share_closed
from gpupool.wire.fleet import WorkOut

#: Seconds between the close of a share and the look at whether its job works.
CLOSE_SECONDS: Final = 0.1


class IdleShares:
    """Closes and opens the shares of one agent's jobs. Each call runs under the lock of its job."""

    def __init__(self, context: JobContext) -> None:
        self._context = context
        #: When this agent closed each share, in monotonic seconds.
        self._closed_at: dict[str, float] = {}

    def explain_work_since(self, allocation: LocalAllocation, work: WorkOut) -> str:
        """Say that a job works again which is to be suspended only while it is idle."""
        if not work.only_idle:
            return ""
        usage = read_fence_usage(allocation.key, self._context.state_dir)
        if self._context.idle_clock.has_worked(allocation.checkpoint.job, usage):
            return "it works on its cards again"
        return ""

    def close(self, allocation: LocalAllocation) -> float:
        """Close a share; return the seconds after which its job may be moved. Idempotent.

        A thread that had passed the fence just before has entered the driver by then, and what it
        submits is seen. Else it could wait inside the driver, where it wakes no agent.
        """
        if not is_share_closed(allocation.key, self._context.state_dir):
            close_share(allocation.key, self._context.state_dir, closed=True)
            self._closed_at[allocation.key] = time.monotonic()
            self._context.reach_step("share-closed")
        closed_at = self._closed_at.get(allocation.key, 0.0)
        return closed_at + CLOSE_SECONDS - time.monotonic()

    def open_again(self, allocation: LocalAllocation) -> None:
        """Open a share; the programs that wait go on at once. Idempotent."""
        close_share(allocation.key, self._context.state_dir, closed=False)
        self._closed_at.pop(allocation.key, None)
        self._context.reach_step("share-opened")
        self._context.arbiter.notify_change(allocation.key)

    def report_wake(self, allocation: LocalAllocation) -> None:
        """Report that a program of a closed share wants to work.

        Once for each suspend that is in force: the reporter repeats it until the server has it.
        """
        work = allocation.suspended_work
        if work is None or allocation.pending_suspension is not None:
            return  # its program rings again
        if allocation.woken_generation != work.generation:
            allocation.woken_generation = work.generation
            self._context.queue_report(allocation.make_report("woken", work.generation))
            self._context.reach_step("wake-reported")
