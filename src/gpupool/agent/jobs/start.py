"""The start of a job on its node, and a new size while it runs.

The order of a start: the checkpoint is written, a mechanism prepares the cards, the supervisor's
description is written, the supervisor starts the command once. Every step can be the last one
before a crash and can be repeated.
"""

from __future__ import annotations

import errno
import logging
from dataclasses import replace
from pathlib import Path
from typing import Final

from gpupool.agent.jobs.container_start import ContainerHost, contain_job
from gpupool.agent.jobs.demand_check import check_demands
from gpupool.agent.jobs.finish import STOP_GRACE_SECONDS, JobFinisher
from gpupool.agent.jobs.hostfile import write_hostfile
from gpupool.agent.jobs.job_context import JobContext
from gpupool.agent.jobs.job_directory import set_up_directory
from gpupool.agent.jobs.launch import (
    NumaBinding,
    bind_to_numa_nodes,
    check_account,
    make_job_spec,
)
from gpupool.agent.jobs.local_allocation import (
    REASON_LENGTH,
    AllocationTable,
    JobPhase,
    LocalAllocation,
    make_checkpoint,
    make_report,
)
from gpupool.agent.jobs.mechanism_selection import MechanismSelection, select_mechanism
from gpupool.agent.jobs.monitor import JobMonitor
from gpupool.agent.jobs.worker_pool import WorkerPool
from gpupool.agent.supervisor.client import (
    BadSpec,
    FailedToStart,
    JobState,
    JobStatus,
    RepeatedStart,
    SupervisorConflict,
    SupervisorError,
    inspect_job,
    start_supervisor,
    write_spec,
)
from gpupool.agent.supervisor.host_limits import (
    find_usual_bounds,
    limit_host,
    read_memory_bytes,
)
from gpupool.agent.suspension.suspender import JobSuspender, is_suspension_wish
from gpupool.base.errors import GpupoolError, NotFound, ProbeSuspended, VmRejection
from gpupool.mechanisms.contract import AllocationView, NotYet
from gpupool.mechanisms.preparation import prepare_allocation, resize_allocation
from gpupool.mechanisms.released_step import explain_wait
from gpupool.mechanisms.slow_step import PAUSE_SECONDS
from gpupool.model.isolation.claim_needs import read_needs
from gpupool.probes.numa import list_usable_cpus
from gpupool.wire.fleet import WorkOut

DISK_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
SHORTAGES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})
#: Seconds between the attempts to start a job while its node is short of something.
SHORTAGE_PAUSES: Final = (0.1, 0.5, 2.0, 5.0)

log = logging.getLogger(__name__)


class JobStarter:
    """The steps of a start. `begin_start` never blocks; all others run under the job's lock."""

    def __init__(
        self,
        context: JobContext,
        finisher: JobFinisher,
        monitor: JobMonitor,
        *,
        table: AllocationTable,
        workers: WorkerPool,
        suspender: JobSuspender,
    ) -> None:
        self._context = context
        self._finisher = finisher
        self._monitor = monitor
        self._table = table
        self._workers = workers
        self._suspender = suspender

    def begin_start(self, work: WorkOut, allocation: LocalAllocation | None) -> None:
        """Queue the start of a job, or report it as lost if it cannot start here.

        Args:
            work: What the server wants.
            allocation: The record of the allocation, in phase WAITING; None if there is none.
        """
        directory = self._context.directories.path(work.job)
        other = self._table.find_other(work)
        if work.started and _is_lost(directory, allocation):
            self._report_lost(work, allocation, "nothing of it is left on its node")
        elif other is not None:
            self._monitor.request_stop(other, STOP_GRACE_SECONDS)
            reason = "another run of this job was found on its node and ended"
            self._report_lost(work, allocation, reason)
        else:
            self._queue_start(work, allocation, directory)

    def _queue_start(
        self, work: WorkOut, allocation: LocalAllocation | None, directory: Path
    ) -> None:
        if allocation is None:
            allocation = LocalAllocation(make_checkpoint(work, ""), directory, JobPhase.STARTING)
            self._table.add(allocation)
        if allocation.enter_phase(JobPhase.STARTING):
            allocation.pending_start = work
            self._workers.submit(self._start_with_retries, allocation, work)

    def _report_lost(self, work: WorkOut, allocation: LocalAllocation | None, reason: str) -> None:
        report = make_report(work.allocation, work.generation, "lost", reason=reason)
        if allocation is None:
            self._context.queue_report(report)
        else:
            self._workers.submit(self._finisher.close_allocation, allocation, report)

    def _start_with_retries(self, allocation: LocalAllocation, work: WorkOut) -> None:
        """Start the job; again after a pause if the node is short of descriptors or memory."""
        for pause in SHORTAGE_PAUSES:
            try:
                self._start(allocation, work)
                return
            except OSError as error:
                if error.errno not in SHORTAGES or allocation.phase is not JobPhase.STARTING:
                    raise
                log.warning("job %s waits for its node's resources: %s", work.job, error)
            if self._workers.closing.wait(pause):
                return
        self._start(allocation, work)

    def _start(self, allocation: LocalAllocation, work: WorkOut) -> None:
        """Start the job once. Every refusal becomes the end of the job, with its reason."""
        if allocation.phase is not JobPhase.STARTING:
            return
        allocation.pending_start = None  # unless `_start_later` puts it off
        try:
            self._context.reach_step("work-received")
            if allocation.stop_grace_seconds is not None:
                self._finisher.finish_not_started(allocation, "stopped before it started")
                return
            self._prepare_and_start(allocation, work)
        except ProbeSuspended as error:
            # A switch of another card began meanwhile.
            self._start_later(allocation, work, NotYet(error.message, PAUSE_SECONDS))
        except NotFound as error:
            self._finisher.finish_not_started(allocation, error.message)
        except GpupoolError as error:
            self._refuse(allocation, error.message)
        except (BadSpec, SupervisorError) as error:
            self._refuse(allocation, str(error))
        except OSError as error:
            if error.errno not in DISK_FULL:
                raise
            self._refuse(allocation, "the disk of its node is full")

    def _refuse(self, allocation: LocalAllocation, reason: str) -> None:
        """Refuse a job whose command has not begun.

        A job whose command runs is followed instead: its cards would be given to another job.
        """
        if inspect_job(allocation.directory).state is JobState.NOT_STARTED:
            self._finisher.finish_refused(allocation, reason)
        else:
            self._monitor.connect_supervisor(allocation)

    def _prepare_and_start(self, allocation: LocalAllocation, work: WorkOut) -> None:
        context = self._context
        check_account(work, context.settings)
        view = context.make_view(work)
        if reason := explain_wait(view):
            self._start_later(allocation, work, NotYet(reason, PAUSE_SECONDS))
            return
        selection = select_mechanism(work, view, context.state_dir)
        mechanism = selection.mechanism
        allocation.refused = selection.refused
        allocation.checkpoint = make_checkpoint(work, mechanism.name)
        if work.earlier_runs and not work.started:
            context.directories.clear_earlier_run(allocation.checkpoint)
        context.reach_step("begun-anew")
        directory = context.directories.write_checkpoint(allocation.checkpoint)
        work = set_up_directory(work, directory, context.settings)
        context.reach_step("checkpoint-written")
        status = inspect_job(allocation.directory)
        if status.state is JobState.NOT_STARTED:
            prepared = prepare_allocation(mechanism, view, context.state_dir)
            if isinstance(prepared, NotYet):
                context.helpers.start(allocation.key, prepared.helpers)
                self._start_later(allocation, work, prepared)
                return
            self._check_plan(allocation, work, view, selection)
            context.helpers.start(allocation.key, prepared.helpers)
            context.add_to_arbiter(allocation)
            context.reach_step("prepared")
            cgroups = context.find_cgroups(work.job)
            binding = bind_to_numa_nodes(work.numa, list_usable_cpus())
            work = write_hostfile(work, prepared, context.settings.share_mount)
            spec = make_job_spec(work, prepared, context.settings, cgroups, binding)
            if work.container is not None:
                spec = contain_job(spec, work, prepared, directory, self._describe_host())
            port = work.network
            if work.vm is not None:
                vm = work.vm.to_spec()
                self._refuse_live_disk(vm.continues)
                spec, note = context.vms.make_spec(work.job_name, vm, view, prepared, spec, port)
                self._report_notice(allocation, work, "vm", note)
            if port is not None:
                spec = context.networks.join(spec, port, directory, by_tap=work.vm is not None)
                context.reach_step("network-joined")
            self._limit_host(allocation, work, cgroups, binding)
            write_spec(allocation.directory, spec)
            context.reach_step("spec-written")
            status = start_supervisor_once(allocation.directory)
            context.reach_step("shim-started")
        if status.state is JobState.NOT_STARTED:
            raise SupervisorError("its supervisor ended without starting it")
        self._monitor.continue_from(allocation, status)
        if work.want == "resize" and allocation.phase is JobPhase.RUNNING:
            self.resize_job(allocation, work)
        if is_suspension_wish(work):
            self._suspender.move_job(allocation, work)

    def _check_plan(
        self,
        allocation: LocalAllocation,
        work: WorkOut,
        view: AllocationView,
        selection: MechanismSelection,
    ) -> None:
        """Refuse what is weaker than demanded, and report how it differs from the plan."""
        if not work.needs:
            return
        reached = check_demands(
            read_needs(work.needs),
            selection.mechanism,
            view,
            host=self._context.read_host_facts(),
            state_dir=self._context.state_dir,
        )
        difference = selection.describe_difference(reached)
        self._report_notice(allocation, work, "mechanism", difference)

    def _start_later(self, allocation: LocalAllocation, work: WorkOut, answer: NotYet) -> None:
        """Start the job again when its mechanism says so, and report once what it waits for."""
        allocation.pending_start = work
        if allocation.waiting_for != answer.reason:
            allocation.waiting_for = answer.reason
            self._report_notice(allocation, work, "preparing", answer.reason)
        self._workers.submit_after(
            answer.again_in_seconds, self._start_with_retries, allocation, work
        )

    def _describe_host(self) -> ContainerHost:
        context = self._context
        own_pool = context.settings.uid != 0
        pid_max = int(Path("/proc/sys/kernel/pid_max").read_text())
        return ContainerHost(context.container_policy, own_pool, read_memory_bytes(), pid_max)

    def _refuse_live_disk(self, job: str | None) -> None:
        """Raise VmRejection where the VM whose disk is wanted has not ended here."""
        if job is not None and any(one.checkpoint.job == job for one in self._table.list_all()):
            raise VmRejection(f"VM {job} has not ended: its disk is in use")

    def _limit_host(
        self,
        allocation: LocalAllocation,
        work: WorkOut,
        cgroups: tuple[str, ...],
        binding: NumaBinding,
    ) -> None:
        """Limit processors and host memory, and report what this host cannot enforce."""
        bounds = self._context.settings.job_limits
        usual = find_usual_bounds(bounds.processes, bounds.host_memory_bytes(read_memory_bytes()))
        shortfall = limit_host(cgroups, work.cpu_milli, work.host_bytes, binding.cpus or "", usual)
        texts = [text for text in (shortfall, binding.shortfall) if text]
        self._report_notice(allocation, work, "host", "; ".join(texts))

    def _report_notice(
        self, allocation: LocalAllocation, work: WorkOut, notice: str, text: str
    ) -> None:
        """Report what a user should know of the job; nothing where there is no text."""
        if text:
            report = allocation.make_report(
                "noticed", work.generation, notice=notice, reason=text[:REASON_LENGTH]
            )
            self._context.queue_report(report)

    def resize_job(self, allocation: LocalAllocation, work: WorkOut) -> None:
        """Put a new size in force. Idempotent: the server repeats it until it is reported.

        The checkpoint is written first, so that an end that comes meanwhile names the later
        generation.
        """
        context = self._context
        is_outdated = work.generation < allocation.checkpoint.generation
        if allocation.phase is not JobPhase.RUNNING or is_outdated:
            return
        allocation.pending_resize = work
        allocation.checkpoint = replace(allocation.checkpoint, generation=work.generation)
        context.directories.write_checkpoint(allocation.checkpoint)
        context.reach_step("resize-noted")
        mechanism = context.get_mechanism(allocation)
        resize_allocation(mechanism, context.make_view(work), context.state_dir)
        context.arbiter.notify_change(allocation.key)
        context.reach_step("resized")
        allocation.pending_resize = None
        memory_bytes = context.read_memory_used(allocation)
        report = allocation.make_report("resized", work.generation, gpu_memory_bytes=memory_bytes)
        context.queue_report(report)


def start_supervisor_once(directory: Path) -> JobStatus:
    """Start the supervisor of a job, or find that it was started before.

    Returns:
        The job's state after the start. Blocks as `start_supervisor` does.
    """
    try:
        return start_supervisor(directory)
    except (RepeatedStart, SupervisorConflict, FailedToStart):
        return inspect_job(directory)
    except SupervisorError:
        # The program that was called may have been killed after the supervisor began; the
        # directory says whether it began.
        status = inspect_job(directory)
        if status.state is JobState.NOT_STARTED:
            raise
        return status


def _is_lost(directory: Path, allocation: LocalAllocation | None) -> bool:
    """Whether nothing here can say how a job ended that had begun.

    A job whose checkpoint is here may be WAITING only because an agent that was short of
    descriptors could not look at it; its directory is looked at again.
    """
    if allocation is None:
        return not (directory / "exit").exists()
    return inspect_job(directory).state is JobState.NOT_STARTED
