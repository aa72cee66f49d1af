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
from gpupool.agent.suspension.idle_share import IdleShares
from gpupool.agent.suspension.job_tree import JobTree
from gpupool.agent.suspension.record import (
    SuspensionRecord,
    locate_folder,
    read_record,
    remove_record,
    write_record,
)
from gpupool.agent.suspension.step import CLOSED, RESUME, SUSPEND, read_outcome
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
        self.shares = IdleShares(context)

    def move_job(self, allocation: LocalAllocation, work: WorkOut) -> None:
        """Begin or continue what the server wants. Idempotent; does not block for the driver.

        The checkpoint is written first, so that an end that comes meanwhile names the generation.
        """
        if allocation.phase is not JobPhase.RUNNING:
            return
        if work.generation < allocation.checkpoint.generation:
            return
        answer = allocation.suspension_answer
        if answer is not None and answer.generation == work.generation:
            # Asked again before the answer arrived: a second try could end otherwise.
            self._context.queue_report(answer)
            return
        allocation.pending_suspension = work
        if not allocation.supervisor_pid:
            return  # not connected yet: the next heartbeat comes back to it
        if allocation.checkpoint.generation != work.generation:
            allocation.checkpoint = replace(allocation.checkpoint, generation=work.generation)
            self._context.directories.write_checkpoint(allocation.checkpoint)
        self._context.reach_step(f"{work.want}-noted")
        self._continue_move(allocation, work)

    def keep_suspended(self, allocation: LocalAllocation) -> None:
        """Suspend a job again that is back although the server has given its cards away.

        Another process of its own account can do that. Does nothing for any other job.
        """
        record = read_record(self._locate_folder(allocation))
        work = allocation.suspended_work
        if record is None or work is None or allocation.stop_grace_seconds is not None:
            return
        if allocation.pending_suspension is not None:
            return
        tree = JobTree(record.supervisor_pid, _hold_no_lock)
        is_held = record.is_closed or tree.is_stopped()
        if is_held and not self._measure_card_bytes(tree, work):
            return
        log.warning("job %s is back although it is suspended: suspending it again", work.job)
        self._continue_move(allocation, work, is_back=True)

    def _continue_move(
        self, allocation: LocalAllocation, work: WorkOut, *, is_back: bool = False
    ) -> None:
        """Take the next step of a wish, unless it was answered or another one came."""
        if allocation.phase is not JobPhase.RUNNING:
            return
        if not is_back and allocation.pending_suspension is not work:
            return
        record = read_record(self._locate_folder(allocation))
        if record is None and work.want == RESUME:
            self._report(allocation, work, "resumed")
            return
        try:
            view = self._context.make_view(work)
        except NotFound as error:
            self._answer_without_card(allocation, work, record, error.message)
            return
        if record is None:
            tree = JobTree(allocation.supervisor_pid, _hold_no_lock)
            card_bytes = self._measure_card_bytes(tree, work)
            reason = self.shares.explain_work_since(allocation, work)
            reason = reason or self._explain_refusal(allocation, view, tree, card_bytes)
            if reason:
                self._report(allocation, work, "resumed", reason=reason)
                return
            record = SuspensionRecord(
                allocation.supervisor_pid, card_bytes, is_closed=work.only_idle
            )
            write_record(self._locate_folder(allocation), record)
            self._context.reach_step("suspend-recorded")
        if work.want == SUSPEND and record.is_closed and not record.is_checked:
            self._close_share(allocation, work, record)
            return
        if work.want == SUSPEND and record.is_suspended and not is_back:
            # The server asks under a new generation, or this agent is new.
            self._settle(allocation, work, record, MoveOutcome("suspended", 0))
            return
        self._run_step(allocation, work, view, record, is_back=is_back)

    def _close_share(
        self, allocation: LocalAllocation, work: WorkOut, record: SuspensionRecord
    ) -> None:
        """Close the share, and move the job if it did no work in the moment after that."""
        seconds = self.shares.close(allocation)
        if seconds > 0:
            self._look_after(seconds, allocation, work, is_back=False)
            return
        reason = self.shares.explain_work_since(allocation, work)
        if reason:
            self.shares.open_again(allocation)
            remove_record(self._locate_folder(allocation))
            self._report(allocation, work, "resumed", reason=reason)
            return
        write_record(self._locate_folder(allocation), replace(record, is_checked=True))
        self._continue_move(allocation, work)

    def _answer_without_card(
        self,
        allocation: LocalAllocation,
        work: WorkOut,
        record: SuspensionRecord | None,
        reason: str,
    ) -> None:
        """Answer a wish of which a card is not on the node; one that has begun is tried again."""
        if record is None:
            self._report(allocation, work, "resumed", reason=reason)
        elif record.is_suspended:
            self._settle(allocation, work, record, MoveOutcome("suspended", 0, reason))
        else:
            self._workers.submit_after(RETRY_SECONDS, self._continue_move, allocation, work)

    def _locate_folder(self, allocation: LocalAllocation) -> Path:
        return locate_folder(self._context.state_dir, allocation.key)

    def _explain_refusal(
        self, allocation: LocalAllocation, view: AllocationView, tree: JobTree, card_bytes: int
    ) -> str:
        refusal = explain_refusal(allocation.checkpoint.mechanism, view)
        if not refusal and _find_library(view) is None:
            refusal = "this node has no libcuda.so.1"
        if not refusal and tree.list_all() and tree.is_stopped():
            # A resume would let a job go on that its fence has frozen.
            refusal = "its processes are stopped already, by its fence or by hand"
        room = measure_host_room(self._context.find_cgroups(allocation.checkpoint.job))
        return refusal or explain_host_shortage(card_bytes, room)

    def _measure_card_bytes(self, tree: JobTree, work: WorkOut) -> int:
        """Return what the job has on its cards now, as the cards say."""
        pids = {process.pid for process in tree.list_all()}
        uuids = [seat.uuid for seat in work.seats]
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
        *,
        is_back: bool,
    ) -> None:
        folder = self._locate_folder(allocation)
        name = f"{work.want}-{work.generation}"
        if has_other_step(folder, name):
            # A step of an earlier wish, begun by an agent that was killed: never two at a time.
            self._look_after(LOOK_SECONDS, allocation, work, is_back=is_back)
            return
        library = _find_library(view)
        goal = f"{work.want}{CLOSED}" if record.is_closed else work.want
        command = [sys.executable, "-m", "gpupool.agent.suspension.step", goal, str(folder)]
        command += [str(record.supervisor_pid), str(library)]
        if view.machine is not None:
            command.append(str(view.machine / "machine"))
        answer = run_slow_step(folder, name, command, "its memory is moved")
        if isinstance(answer, NotYet):
            self._look_after(LOOK_SECONDS, allocation, work, is_back=is_back)
            return
        self._context.reach_step(f"{work.want}-moved")
        outcome = _read_answer(answer)
        forget_slow_step(folder, name)
        if outcome.state == "mixed" or (work.want == SUSPEND and _is_lost(record, outcome)):
            log.warning("job %s is tried again: %s", work.job, outcome.reason)
            self._look_after(RETRY_SECONDS, allocation, work, is_back=is_back)
        else:
            self._settle(allocation, work, record, outcome)

    def _look_after(
        self, seconds: float, allocation: LocalAllocation, work: WorkOut, *, is_back: bool
    ) -> None:
        step = self._continue_back if is_back else self._continue_move
        self._workers.submit_after(seconds, step, allocation, work)

    def _continue_back(self, allocation: LocalAllocation, work: WorkOut) -> None:
        if allocation.suspended_work is work and allocation.pending_suspension is None:
            self._continue_move(allocation, work, is_back=True)

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
                write_record(self._locate_folder(allocation), replace(record, is_suspended=True))
            # Also after a resume that failed: what is kept is the suspend.
            allocation.suspended_work = work.model_copy(update={"want": SUSPEND})
            # A stopped process that waits for its turn would have its share's time for nothing. Of
            # a closed share none waits for time, and the arbiter hears the first that wakes.
            if not record.is_closed:
                self._context.arbiter.remove_share(allocation.key)
            used = record.card_bytes
            self._report(allocation, work, "suspended", reason=outcome.reason, used_bytes=used)
            return
        allocation.suspended_work = None
        self._context.idle_clock.restart(allocation.checkpoint.job)
        if record.is_closed:
            self.shares.open_again(allocation)
        remove_record(self._locate_folder(allocation))
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
        allocation.suspension_answer = report
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
