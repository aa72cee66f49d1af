"""The end of a job on its node: its cards are released, its last sample and its end are reported.

Every step can be the last one before a crash and can be repeated. After a failure `Jobs` comes here
again with the next heartbeat.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpupool.agent.jobs.container_end import clear_container, explain_container_end
from gpupool.agent.jobs.job_context import JobContext
from gpupool.agent.jobs.launch import make_end_report
from gpupool.agent.jobs.local_allocation import (
    REASON_LENGTH,
    AllocationTable,
    JobPhase,
    LocalAllocation,
)
from gpupool.agent.monitoring.fence_counters import make_job_sample, read_fence_usage
from gpupool.agent.supervisor.cgroups import remove_groups
from gpupool.agent.supervisor.client import (
    BadSpec,
    ExitRecord,
    JobState,
    NotRunning,
    SupervisorError,
    inspect_job,
    stop_job,
)
from gpupool.agent.supervisor.job_log import log_end
from gpupool.agent.supervisor.orphan_processes import reap_orphans, remove_cgroups
from gpupool.agent.supervisor.run_directory import remove_run_directory
from gpupool.agent.supervisor.socket_watch import SocketWatch
from gpupool.base.errors import DamagedRecord
from gpupool.mechanisms.preparation import (
    list_recorded_layers,
    read_enforcement_levels,
    unprepare_allocation,
)
from gpupool.wire.fleet import FENCE_WHY, ReportIn

#: Seconds between SIGTERM and SIGKILL where the server named no other grace.
STOP_GRACE_SECONDS = 10
#: The exit code of a job that could not be run, as shells count.
NOT_EXECUTABLE = 126

log = logging.getLogger(__name__)


class JobFinisher:
    """The steps at the end of a job. Each runs under the lock of its job and may block."""

    def __init__(self, context: JobContext, table: AllocationTable, watch: SocketWatch) -> None:
        self._context = context
        self._table = table
        self._watch = watch

    def finish_ended(self, allocation: LocalAllocation, record: ExitRecord) -> None:
        """Finish a job whose supervisor wrote how it ended."""
        self._context.reach_step("exit-seen")
        if allocation.reported_state == "prepared" and record.state == "ended":
            self._report_missed_start(allocation, record)
        generation = allocation.checkpoint.generation
        record = explain_container_end(record, allocation.directory)
        report = make_end_report(allocation.key, generation, record)
        if allocation.violation:
            reason = allocation.violation[:REASON_LENGTH]
            report = report.model_copy(update={"reason": reason})
        self.close_allocation(allocation, report)

    def _report_missed_start(self, allocation: LocalAllocation, record: ExitRecord) -> None:
        """Report the start of a job that ended before its start was seen.

        A client that waits for the job expects both reports.
        """
        allocation.reported_state = "running"
        mechanism = self._context.get_mechanism(allocation)
        state_dir = self._context.state_dir
        level, why = mechanism.read_enforcement(allocation.key, state_dir)
        levels = read_enforcement_levels(mechanism, allocation.key, state_dir)
        report = allocation.make_report(
            "running",
            fence=level.value,
            fence_why=why[:FENCE_WHY],
            mechanism=mechanism.name,
            holds=levels.write(),
            layers=list_recorded_layers(allocation.key, state_dir),
            refused=dict(allocation.refused),
            started_ns=record.started_ns,
        )
        self._context.queue_report(report)

    def finish_orphaned(self, allocation: LocalAllocation) -> None:
        """Finish a job whose supervisor was killed: end its processes and report it as lost."""
        reaped = reap_orphans(allocation.directory)
        log.warning(
            "the supervisor of job %s died; %d processes it left were ended, %d could not be",
            allocation.checkpoint.job,
            reaped.killed,
            len(reaped.remaining),
        )
        reason = "its supervisor died; how the command ended is unknown"
        self.close_allocation(allocation, allocation.make_report("lost", reason=reason))

    def finish_not_started(self, allocation: LocalAllocation, reason: str) -> None:
        """Finish a job of which nothing ran; the server may place it again."""
        self.close_allocation(allocation, allocation.make_report("not_started", reason=reason))

    def finish_refused(self, allocation: LocalAllocation, reason: str) -> None:
        """Finish a job that can run neither here nor elsewhere: it fails before it began."""
        log.warning("job %s cannot run: %s", allocation.checkpoint.job, reason)
        allocation.refusal = reason
        report = allocation.make_report("ended", reason=reason, exit_code=NOT_EXECUTABLE)
        self.close_allocation(allocation, report)

    def close_allocation(self, allocation: LocalAllocation, report: ReportIn) -> None:
        """Release the cards and queue the report of the end. Idempotent.

        Raises:
            Exception: What the mechanism raises. The allocation stays open then: a card that is
                still set up for this job is not given to another one.
        """
        if allocation.phase is JobPhase.ENDED:
            return
        context = self._context
        allocation.close_connection(self._watch)
        # An empty cgroup that stays behind and a sample that is missing are both cheaper than a
        # card that stays allocated.
        self._try_step(allocation, "its cgroups stay behind", remove_cgroups, allocation.directory)
        # A job whose description was never written has its groups by their names alone.
        cgroups = context.find_cgroups(allocation.checkpoint.job)
        self._try_step(allocation, "its cgroups stay behind", remove_groups, cgroups)
        job = allocation.checkpoint.job
        directory = allocation.directory
        self._try_step(allocation, "its container stays behind", clear_container, directory, job)
        # Here already: its user may have made many files in it, and the report of the end is
        # confirmed under the lock of all jobs.
        self._try_step(allocation, "its sockets stay behind", remove_run_directory, directory)
        self._try_step(allocation, "its last sample is lost", self._queue_last_sample, allocation)
        context.arbiter.remove_share(allocation.key)
        # A mechanism restores the card after the processes that use it.
        context.helpers.release(allocation.key)
        if allocation.checkpoint.network_port:
            context.networks.detach(allocation.checkpoint.network_port)
        if allocation.checkpoint.mechanism:
            mechanism = context.get_mechanism(allocation)
            generation = allocation.checkpoint.generation
            unprepare_allocation(mechanism, allocation.key, generation, context.state_dir)
        context.reach_step("unprepared")
        # Nothing may fail from the change of the phase to the report.
        length = log_end(directory)
        allocation.enter_phase(JobPhase.ENDED)
        context.queue_report(report.model_copy(update={"log_bytes": length}))
        context.announce_change()

    def _queue_last_sample(self, allocation: LocalAllocation) -> None:
        usage = read_fence_usage(allocation.key, self._context.state_dir)
        if usage is not None:
            sample = make_job_sample(allocation.checkpoint.job, None, {}, usage)
            self._context.queue_last_sample(sample)

    @staticmethod
    def _try_step(
        allocation: LocalAllocation, loss: str, step: Callable[..., object], *arguments: Any
    ) -> None:
        """Call a step whose failure is logged and costs only `loss`."""
        try:
            step(*arguments)
        except Exception as error:
            log.exception("job %s: %s: %s", allocation.checkpoint.job, loss, error)

    def forget_allocation(self, allocation: LocalAllocation, *, has_run: bool) -> None:
        """Forget an allocation whose end the server has confirmed. Idempotent.

        Args:
            allocation: The allocation, in phase ENDED.
            has_run: Whether the job's directory stays, for its log. It also stays where another
                allocation of the job uses it.
        """
        directories = self._context.directories
        job = allocation.checkpoint.job

        def finish_directory() -> None:
            if not allocation.directory.is_dir():
                return
            if has_run:
                directories.finish_job(job)
            else:
                directories.remove_job(job)
            self._context.vms.remove_unused(job)

        if self._table.remove(allocation, finish_directory):
            self._context.reach_step("directory-finished")

    def end_unreadable(self, directory: Path, damaged: DamagedRecord | None) -> None:
        """End the job in a directory whose checkpoint cannot be read: it has no allocation.

        Blocks for its grace at most, and longer only where the kernel holds its processes.
        """
        log.error("%s", damaged)
        status = inspect_job(directory)
        try:
            if status.state is JobState.RUNNING:
                # Waited for: the server hears that it is lost, and gives its cards to others.
                with suppress(NotRunning):  # it ended between the two looks
                    stop_job(directory, STOP_GRACE_SECONDS)
            elif status.state is JobState.DIED:
                reap_orphans(directory)
            self._context.directories.finish_job(directory.name)
        except (SupervisorError, BadSpec, OSError) as error:
            log.error("%s: %s", directory, error)
