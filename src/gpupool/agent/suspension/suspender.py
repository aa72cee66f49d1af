"""Carries out what the server wants of a job: its memory on the host, or on its cards.

Each call of `move_job` takes the next step and never waits for the driver: a process of its own
calls it (`step`). The record is written before that process begins. Every outcome is reported,
`suspended` or `resumed`, with a reason where it is not what was wanted. A report is repeated until
the server has it, because the server asks again.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Final

from gpupool.agent.jobs.job_context import JobContext
from gpupool.agent.jobs.local_allocation import JobPhase, LocalAllocation
from gpupool.agent.jobs.worker_pool import WorkerPool
from gpupool.agent.suspension.job_tree import JobTree
from gpupool.agent.suspension.record import (
    SuspensionRecord,
    locate_folder,
    read_record,
    remove_record,
    write_record,
)
from gpupool.agent.suspension.step import RESUME, SUSPEND, read_outcome
from gpupool.base.errors import NotFound
from gpupool.mechanisms.contract import AllocationView, NotYet
from gpupool.mechanisms.driver.installed_driver import CUDA, find_installed_driver
from gpupool.mechanisms.slow_step import (
    StepResult,
    forget_slow_step,
    is_step_running,
    run_slow_step,
)
from gpupool.mechanisms.suspend import MoveOutcome
from gpupool.mechanisms.suspend.host_memory import measure_host_room
from gpupool.mechanisms.suspend.refusals import explain_host_shortage, explain_refusal
from gpupool.wire.fleet import WorkOut
from gpupool_native import simgpu_dir

#: Seconds between two looks at a step that runs; part of every wake-up.
LOOK_SECONDS: Final = 0.02
#: Seconds until a job is tried again that could be brought into neither state.
RETRY_SECONDS: Final = 5.0

log = logging.getLogger(__name__)


class JobSuspender:
    """The suspends and resumes of one agent. Each call runs under the lock of its job."""

    def __init__(self, context: JobContext, workers: WorkerPool) -> None:
        self._context = context
        self._workers = workers

    def move_job(self, allocation: LocalAllocation, work: WorkOut) -> None:
        """Take the next step to what the server wants. Idempotent; does not block for the driver.

        The checkpoint is written first, so that an end that comes meanwhile names the generation.
        """
        if allocation.phase is not JobPhase.RUNNING:
            return
        if work.generation < allocation.checkpoint.generation:
            return
        allocation.pending_suspension = work
        if not allocation.supervisor_pid:
            return  # not connected yet: the next heartbeat comes back to it
        if allocation.checkpoint.generation != work.generation:
            allocation.checkpoint = replace(allocation.checkpoint, generation=work.generation)
            self._context.directories.write_checkpoint(allocation.checkpoint)
        self._context.reach_step(f"{work.want}-noted")
        folder = locate_folder(self._context.state_dir, allocation.key)
        record = read_record(folder)
        try:
            view = self._context.make_view(work)
        except NotFound as error:
            state = "resumed" if record is None else "suspended"
            self._report(allocation, work, state, reason=error.message)
            return
        if record is None and work.want == RESUME:
            self._report(allocation, work, "resumed")
            return
        if record is None:
            record = SuspensionRecord(
                allocation.supervisor_pid, self._measure_card_bytes(allocation, view)
            )
            reason = self._explain_refusal(allocation, view, record)
            if reason:
                self._report(allocation, work, "resumed", reason=reason)
                return
            write_record(folder, record)
            self._context.reach_step("suspend-recorded")
        if work.want == SUSPEND and record.is_suspended and self._is_stopped(allocation, record):
            # The server asks under a new generation, or this agent is new.
            self._settle(allocation, work, record, MoveOutcome("suspended", 0))
            return
        self._run_step(allocation, work, view, record)

    def keep_suspended(self, allocation: LocalAllocation) -> None:
        """Suspend a job again whose processes go on although the server has given its cards away.

        Another process of its own account can do that. Does nothing for any other job.
        """
        record = read_record(locate_folder(self._context.state_dir, allocation.key))
        work = allocation.suspended_work
        if record is None or work is None or self._is_stopped(allocation, record):
            return
        log.warning("job %s goes on although it is suspended: suspending it again", work.job)
        self.move_job(allocation, work)

    def _is_stopped(self, allocation: LocalAllocation, record: SuspensionRecord) -> bool:
        is_ending = allocation.stop_grace_seconds is not None
        return is_ending or JobTree(record.supervisor_pid, _hold_no_lock).is_stopped()

    def _explain_refusal(
        self, allocation: LocalAllocation, view: AllocationView, record: SuspensionRecord
    ) -> str:
        room = measure_host_room(self._context.find_cgroups(allocation.checkpoint.job))
        refusal = explain_refusal(allocation.checkpoint.mechanism, view)
        if not refusal and _find_library(view) is None:
            refusal = "this node has no libcuda.so.1"
        return refusal or explain_host_shortage(record.card_bytes, room)

    def _measure_card_bytes(self, allocation: LocalAllocation, view: AllocationView) -> int:
        """Return what the job has on its cards now, as the cards say."""
        tree = JobTree(allocation.supervisor_pid, _hold_no_lock)
        pids = {process.pid for process in tree.list_all()}
        uuids = [granted.device.uuid for granted in view.granted]
        total = 0
        for probe in self._context.probes.values():
            for usage in probe.observe(uuids).values():
                for process in usage.processes or ():
                    if process.pid in pids:
                        total += process.memory_bytes or 0
        return total

    def _run_step(
        self,
        allocation: LocalAllocation,
        work: WorkOut,
        view: AllocationView,
        record: SuspensionRecord,
    ) -> None:
        folder = locate_folder(self._context.state_dir, allocation.key)
        name = f"{work.want}-{work.generation}"
        if has_other_step(folder, name):
            # A step of an earlier wish, begun by an agent that was killed: never two at a time.
            self._workers.submit_after(LOOK_SECONDS, self.move_job, allocation, work)
            return
        library = _find_library(view)
        command = [sys.executable, "-m", "gpupool.agent.suspension.step", work.want, str(folder)]
        command += [str(record.supervisor_pid), str(library)]
        if view.machine is not None:
            command.append(str(view.machine / "machine"))
        answer = run_slow_step(folder, name, command, "its memory is moved")
        if isinstance(answer, NotYet):
            self._workers.submit_after(LOOK_SECONDS, self.move_job, allocation, work)
            return
        self._context.reach_step(f"{work.want}-moved")
        outcome = _read_answer(answer)
        forget_slow_step(folder, name)
        if outcome.state == "mixed" or (work.want == SUSPEND and _is_lost(record, outcome)):
            log.warning("job %s is tried again: %s", work.job, outcome.reason)
            self._workers.submit_after(RETRY_SECONDS, self.move_job, allocation, work)
        else:
            self._settle(allocation, work, record, outcome)

    def _settle(
        self,
        allocation: LocalAllocation,
        work: WorkOut,
        record: SuspensionRecord,
        outcome: MoveOutcome,
    ) -> None:
        """Take in a job that is wholly suspended or wholly runs, and report it."""
        if outcome.state == "suspended":
            if not record.is_suspended:
                folder = locate_folder(self._context.state_dir, allocation.key)
                write_record(folder, replace(record, is_suspended=True))
            allocation.suspended_work = work
            # A stopped process that waits for its turn would have its share's time for nothing.
            self._context.arbiter.remove_share(allocation.key)
            used = record.card_bytes
            self._report(allocation, work, "suspended", reason=outcome.reason, used_bytes=used)
            return
        allocation.suspended_work = None
        remove_record(locate_folder(self._context.state_dir, allocation.key))
        self._context.reach_step("resume-recorded")
        self._context.add_to_arbiter(allocation)
        self._report(allocation, work, "resumed", reason=outcome.reason)

    def _report(
        self,
        allocation: LocalAllocation,
        work: WorkOut,
        state: str,
        *,
        reason: str = "",
        used_bytes: int | None = None,
    ) -> None:
        allocation.pending_suspension = None
        report = allocation.make_report(
            state, work.generation, reason=reason, gpu_memory_bytes=used_bytes
        )
        self._context.queue_report(report)
        self._context.reach_step(f"{work.want}-reported")


def is_suspension_wish(work: WorkOut) -> bool:
    """Whether the server wants the job suspended or resumed."""
    return work.want in (SUSPEND, RESUME)


def continue_suspended_job(context: JobContext, allocation: LocalAllocation) -> None:
    """Let the processes of a suspended job go on, so that they receive the signal of a stop.

    Their memory stays on the host. Idempotent; does nothing for a job that is not suspended.
    """
    record = read_record(locate_folder(context.state_dir, allocation.key))
    if record is not None:
        JobTree(record.supervisor_pid, _hold_no_lock).go_on()


def has_other_step(folder: Path, name: str) -> bool:
    """Whether a step of another wish still runs. Forgets the results of those that have ended."""
    found = False
    for lock in folder.glob("step-*.lock"):
        other = lock.name.removeprefix("step-").removesuffix(".lock")
        if other == name or not other.startswith((f"{SUSPEND}-", f"{RESUME}-")):
            continue
        if is_step_running(folder, other):
            found = True
        else:
            forget_slow_step(folder, other)
    return found


def _read_answer(answer: StepResult) -> MoveOutcome:
    outcome = read_outcome(answer.output)
    if outcome is None:
        end = answer.output.strip().splitlines()[-1:] or [f"exit code {answer.exit_code}"]
        return MoveOutcome("mixed", 0, f"the step ended without an outcome: {end[0]}")
    return outcome


def _is_lost(record: SuspensionRecord, outcome: MoveOutcome) -> bool:
    """Whether a job that was suspended runs, and could not be suspended again.

    Its own user can do that. Its cards were given to others, so it is tried until it succeeds.
    """
    return record.is_suspended and outcome.state == "running"


def _find_library(view: AllocationView) -> Path | None:
    """Return the driver that the job's cards have; None where the node has none."""
    if view.machine is not None:
        return simgpu_dir() / "libcuda.so.1"
    files = find_installed_driver(root=view.seat.driver_root).files.get(CUDA, ())
    return files[0] if files else None


def _hold_no_lock(_stopped: Collection[int]) -> None:
    """Do nothing: nothing is stopped through this tree."""
