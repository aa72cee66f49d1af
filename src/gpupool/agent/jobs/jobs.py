"""The jobs of one agent, from the server's work to the confirmed report of the end.

`start` begins a job, `monitor` follows it, `finish` ends it; each imports only those after it. This
module owns their shared parts, routes events to them and answers questions about the jobs. The
phases of a job are the table `local_allocation.PHASE_CHANGES`. An agent that starts after a kill
reads the checkpoints and the supervisors' records and goes on. Must not speak with a server:
reports are queued.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from gpupool.agent.jobs.finish import STOP_GRACE_SECONDS, JobFinisher
from gpupool.agent.jobs.job_context import JobContext
from gpupool.agent.jobs.launch import make_end_report
from gpupool.agent.jobs.local_allocation import (
    AllocationTable,
    JobPhase,
    LocalAllocation,
    make_report,
)
from gpupool.agent.jobs.monitor import JobMonitor
from gpupool.agent.jobs.start import JobStarter
from gpupool.agent.jobs.unknown_preparations import UnknownPreparations
from gpupool.agent.jobs.worker_pool import WorkerPool
from gpupool.agent.monitoring.fence_counters import read_fence_usage
from gpupool.agent.monitoring.idle_clock import IdleClock
from gpupool.agent.relay.entrances import RunningJob
from gpupool.agent.supervisor.client import SupervisorError, inspect_job
from gpupool.agent.supervisor.job_spec import read_spec
from gpupool.agent.supervisor.socket_watch import SocketWatch
from gpupool.agent.suspension.suspender import JobSuspender, is_suspension_wish
from gpupool.audit.findings import AuditFinding
from gpupool.audit.mapping_check import FencedJob
from gpupool.mechanisms.fence import FenceMechanism
from gpupool.mechanisms.regions import FenceUsage
from gpupool.model.device import Device
from gpupool.wire.fleet import ReportIn, WorkOut

#: The states of a report after which an allocation is over.
TERMINAL = frozenset({"ended", "lost", "not_started"})

log = logging.getLogger(__name__)


class Jobs:
    """All jobs of an agent. Thread-safe.

    Slow steps run in worker threads, each under the lock of its job; no method here blocks for
    them, except `recover_jobs` and `join`.
    """

    def __init__(self, context: JobContext) -> None:
        self._context = context
        self._table = AllocationTable()
        self._unknown = UnknownPreparations(context.state_dir, self._list_allocations)
        self._watch = SocketWatch(self._handle_readable, self._handle_started)
        self._workers = WorkerPool(self._handle_error)
        self._finisher = JobFinisher(context, self._table, self._watch)
        self._monitor = JobMonitor(
            context, self._finisher, table=self._table, watch=self._watch, workers=self._workers
        )
        self._suspender = JobSuspender(context, self._workers)
        context.arbiter.woken = self._note_wake
        self._starter = JobStarter(
            context,
            self._finisher,
            self._monitor,
            table=self._table,
            workers=self._workers,
            suspender=self._suspender,
        )

    def start(self) -> None:
        """Start to watch the supervisors' sockets."""
        self._watch.start()

    def close(self) -> None:
        """Stop monitoring. Running jobs are not affected and no directory changes."""
        self._workers.close()
        self._watch.close()

    def join(self, seconds: float | None = None) -> None:
        """Block until the steps under way are done, and up to `seconds` for the watching thread."""
        self._workers.join()
        self._watch.join(seconds)

    def set_devices(self, nodes: Mapping[str, tuple[Device, ...]]) -> None:
        """Replace the devices of each node by what the last scan found."""
        self._context.nodes = dict(nodes)

    # Events --------------------------------------------------------------------------------------

    def _handle_readable(self, key: str) -> None:
        self._monitor.read_news(key)

    def _note_wake(self, key: str) -> None:
        """Handle a program that waits because its share is closed; called by the arbiter's thread."""
        allocation = self._table.get(key)
        if allocation is not None:
            self._workers.submit(self._suspender.shares.report_wake, allocation)

    def _handle_started(self, key: str) -> None:
        self._monitor.report_attached_start(key)

    def _handle_error(self, allocation: LocalAllocation, error: Exception) -> None:
        """Handle what a step of a job raised; called under the job's lock, inside the `except`.

        A supervisor that closed the connection during a request has most likely ended: look at
        once. Anything else is looked at again soon, and then with each heartbeat.
        """
        job = allocation.checkpoint.job
        if isinstance(error, SupervisorError):
            log.info("job %s: %s", job, error)
            allocation.close_connection(self._watch)
            self._workers.submit(self._monitor.connect_supervisor, allocation)
            return
        log.error("job %s: %s", job, error, exc_info=error)
        # Only once for each job: an error that comes twice is not worth a waiting thread.
        if not allocation.is_retried:
            allocation.is_retried = True
            self._workers.submit_later(self._monitor.connect_supervisor, allocation)
        try:
            allocation.close_connection(self._watch)
            self._monitor.finish_after_error(allocation, error)
        except Exception as second:
            log.exception("job %s could not be ended after an error: %s", job, second)

    @property
    def idle_clock(self) -> IdleClock:
        return self._context.idle_clock

    # Questions -----------------------------------------------------------------------------------

    def list_job_ids(self) -> frozenset[str]:
        """List the jobs that have an allocation here."""
        return frozenset(one.checkpoint.job for one in self._table.list_all())

    def list_supervisors(self) -> dict[str, int]:
        """List the supervisor's process id of every running job, by job."""
        running = self._table.list_in_phase(JobPhase.RUNNING)
        return {one.checkpoint.job: one.supervisor_pid for one in running}

    def read_fence_usage(self) -> dict[str, FenceUsage]:
        """Read the usage counters of every running job that has a fence, by job."""
        found = {}
        for one in self._table.list_in_phase(JobPhase.RUNNING):
            usage = read_fence_usage(one.key, self._context.state_dir)
            if usage is not None:
                found[one.checkpoint.job] = usage
        return found

    def list_fenced_jobs(self) -> list[FencedJob]:
        """List every running job that has a fence."""
        return [
            FencedJob(one.checkpoint.job, one.key, one.supervisor_pid, one.has_mounts)
            for one in self._table.list_in_phase(JobPhase.RUNNING)
            if one.supervisor_pid and one.checkpoint.mechanism == FenceMechanism.name
        ]

    def find_running(self, job: str) -> RunningJob | None:
        """Find a running job that streams may enter."""
        for one in self._table.list_in_phase(JobPhase.RUNNING):
            if one.checkpoint.job == job:
                spec = read_spec(one.directory)
                own = self._context.settings
                uid = own.uid if spec.uid is None else spec.uid
                gid = own.gid if spec.gid is None else spec.gid
                return RunningJob(
                    job, one.directory, spec, uid, gid, is_plain=self._context.is_plain(one)
                )
        return None

    # Findings of the audit -----------------------------------------------------------------------

    def report_finding(self, job: FencedJob, finding: AuditFinding, reaction: str) -> None:
        """Queue a finding of the audit as an event of the job."""
        allocation = self._table.get(job.allocation)
        if allocation is not None:
            reason = f"{finding.text} ({reaction})"
            report = allocation.make_report("noticed", notice=finding.kind, reason=reason)
            self._context.queue_report(report)

    def end_violator(self, job: FencedJob, reason: str) -> None:
        """End a job at once because it bypassed its fence. Idempotent; never blocks."""
        allocation = self._table.get(job.allocation)
        if allocation is not None and allocation.phase is not JobPhase.ENDED:
            if not allocation.violation:
                allocation.violation = f"ended by its fence: {reason}"
            self._monitor.request_stop(allocation, 0)

    # What the server wants -----------------------------------------------------------------------

    def recover_jobs(self) -> None:
        """Continue the jobs of an earlier agent, and undo preparations that no job needs.

        Blocks for one look at each job. Call it once, before the first `apply_work`.
        """
        for found in self._context.directories.list_unfinished():
            if found.checkpoint is None:
                self._finisher.end_unreadable(found.directory, found.damaged)
                continue
            allocation = LocalAllocation(found.checkpoint, found.directory, JobPhase.WAITING)
            self._table.add(allocation)
            status = inspect_job(found.directory)
            self._workers.run_step(self._monitor.continue_from, allocation, status)
        self._context.helpers.release_unknown(self._list_allocations())
        self._context.networks.detach_unknown(self._list_ports())
        self._unknown.undo_all()
        self.remove_unused_vms()

    def remove_unused_vms(self) -> None:
        """Remove the files of VMs that have ended and whose disks were deleted. Idempotent."""
        self._context.vms.remove_all_unused(self.list_job_ids())

    def _list_ports(self) -> frozenset[str]:
        return frozenset(one.checkpoint.network_port for one in self._table.list_all())

    def _list_allocations(self) -> list[str]:
        return [one.key for one in self._table.list_all()]

    def apply_work(self, work: WorkOut) -> None:
        """Begin what the server wants of one allocation. Idempotent; never blocks."""
        allocation = self._table.get(work.allocation)
        if work.want == "stop":
            self._stop(work, allocation)
        elif allocation is None or allocation.phase is JobPhase.WAITING:
            self._starter.begin_start(work, allocation)
        elif allocation.phase is not JobPhase.RUNNING:
            return
        elif work.want == "resize":
            self._workers.submit(self._starter.resize_job, allocation, work)
        elif is_suspension_wish(work):
            self._workers.submit(self._suspender.move_job, allocation, work)
        elif not work.started or allocation.checkpoint.generation != work.generation:
            step = self._monitor.repeat_start_report
            self._workers.submit(step, allocation, work.generation)

    def _stop(self, work: WorkOut, allocation: LocalAllocation | None) -> None:
        if allocation is not None:
            self._monitor.request_stop(allocation, work.grace_seconds)
            return
        directory = self._context.directories.path(work.job)
        # A run that comes after others and has not started owns no record in the directory.
        is_of_earlier_run = work.earlier_runs and not work.started
        record = None
        if directory.is_dir() and not is_of_earlier_run:
            record = inspect_job(directory).exit
        if record is not None:
            report = make_end_report(work.allocation, work.generation, record)
        else:
            state = "lost" if work.started else "not_started"
            reason = "nothing of it is on its node"
            report = make_report(work.allocation, work.generation, state, reason=reason)
        self._context.queue_report(report)

    def end_unlisted_jobs(self, live: Iterable[str]) -> None:
        """End every allocation that the server does not list as live. Never blocks."""
        wanted = frozenset(live)
        for allocation in self._table.list_all():
            if allocation.key in wanted or allocation.phase is JobPhase.ENDED:
                continue
            log.warning("allocation %s is not the server's any more: ending it", allocation.key)
            self._monitor.request_stop(allocation, STOP_GRACE_SECONDS)

    def retry_unfinished(self) -> None:
        """Look again at jobs without a connection, an end or a size in force.

        Does not block, except for what no job needs and could not be undone before.
        """
        if self._unknown.has_rest:
            self._unknown.undo_all()
        begun = self._table.list_in_phase(JobPhase.STARTING, JobPhase.RUNNING)
        for allocation in begun:
            if allocation.connection is None:
                self._workers.submit(self._monitor.connect_unless_pending, allocation)
        for allocation in self._table.list_in_phase(JobPhase.ENDED):
            if allocation.confirmed_end is not None:
                self._workers.submit(self._forget, allocation)
        for allocation in begun:
            work = allocation.pending_resize
            if work is not None:
                self._workers.submit(self._starter.resize_job, allocation, work)
            suspension = allocation.pending_suspension
            if suspension is not None:
                self._workers.submit(self._suspender.move_job, allocation, suspension)
            elif allocation.suspended_work is not None:
                self._workers.submit(self._suspender.keep_suspended, allocation)

    def confirm_report(self, report: ReportIn, is_stale: bool) -> None:
        """Take note that the server has accepted a report.

        Args:
            report: The report.
            is_stale: The server has a later generation or another owner for the allocation: the
                job is ended here.
        """
        allocation = self._table.get(report.allocation)
        if allocation is None:
            return
        if report.state in TERMINAL and allocation.phase is JobPhase.ENDED:
            self._context.reach_step("end-acknowledged")
            allocation.confirmed_end = report
            try:
                self._forget(allocation)
            except Exception:
                # The other reports of the answer are confirmed: this one is tried again later.
                log.exception("job %s: its files stay behind", allocation.checkpoint.job)
        elif is_stale and allocation.phase is not JobPhase.ENDED:
            log.warning("allocation %s is stale: ending it", allocation.key)
            self._monitor.request_stop(allocation, STOP_GRACE_SECONDS)

    def _forget(self, allocation: LocalAllocation) -> None:
        """Forget an allocation whose end was confirmed. Idempotent."""
        report = allocation.confirmed_end
        if report is not None:
            has_run = report.state != "not_started"
            self._finisher.forget_allocation(allocation, has_run=has_run)
