"""A job between its start and its end: the connection to its supervisor, its reports, its stop.

`JobMonitor.continue_from` is the state machine: what follows for a job is decided by what its
directory says, so that an agent that was killed goes on where the last one was.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import Final

from gpupool.agent.jobs.finish import JobFinisher
from gpupool.agent.jobs.job_context import JobContext
from gpupool.agent.jobs.local_allocation import (
    REASON_LENGTH,
    AllocationTable,
    JobPhase,
    LocalAllocation,
)
from gpupool.agent.jobs.worker_pool import WorkerPool
from gpupool.agent.supervisor.client import (
    ConnectionLost,
    JobState,
    JobStatus,
    LiveStatus,
    NotRunning,
    SupervisorConnection,
    SupervisorError,
    inspect_job,
)
from gpupool.agent.supervisor.socket_watch import SocketWatch
from gpupool.agent.suspension.suspender import continue_suspended_job
from gpupool.mechanisms.contract import FenceLevel
from gpupool.mechanisms.fence import FenceMechanism
from gpupool.mechanisms.preparation import list_recorded_layers, read_enforcement_levels
from gpupool.wire.fleet import FENCE_WHY

#: Seconds for which a supervisor that is just starting or ending may refuse connections.
RECONNECT_SECONDS: Final = 5.0
#: Seconds between SIGTERM and SIGKILL for a QEMU: it writes its disk cache and ends.
VM_TERM_SECONDS: Final = 5
#: Seconds between two looks at the requests that a job finishes before it is stopped.
_DRAIN_LOOK_SECONDS: Final = 0.1
_RECONNECT_PAUSE_SECONDS: Final = 0.005
_RECONNECT_ATTEMPTS: Final = int(RECONNECT_SECONDS / _RECONNECT_PAUSE_SECONDS)

log = logging.getLogger(__name__)


class JobMonitor:
    """Follows jobs that have been started.

    Each step runs under the lock of its job. `read_news` and `report_attached_start` take no lock
    themselves: they are called in the thread that watches the sockets, which never blocks.
    """

    def __init__(
        self,
        context: JobContext,
        finisher: JobFinisher,
        *,
        table: AllocationTable,
        watch: SocketWatch,
        workers: WorkerPool,
    ) -> None:
        self._context = context
        self._finisher = finisher
        self._table = table
        self._watch = watch
        self._workers = workers

    # The state machine ---------------------------------------------------------------------------

    def continue_from(self, allocation: LocalAllocation, status: JobStatus) -> None:
        """Take the step that follows from what the job's directory says. Idempotent.

        | directory says | step |
        |---|---|
        | RUNNING | connect to the supervisor and report the start |
        | ENDED | release the cards and report the end |
        | DIED | end the processes that were left and report the job as lost |
        | NOT_STARTED | report why it did not start; in phase WAITING wait for the server |
        """
        if status.state is JobState.RUNNING:
            self.connect_supervisor(allocation)
        elif status.state is JobState.ENDED and status.exit is not None:
            self._finisher.finish_ended(allocation, status.exit)
        elif status.state is JobState.DIED:
            self._finisher.finish_orphaned(allocation)
        elif allocation.phase is not JobPhase.WAITING:
            self._finish_unstarted(allocation)

    def _finish_unstarted(self, allocation: LocalAllocation) -> None:
        if allocation.refusal:
            self._finisher.finish_refused(allocation, allocation.refusal)
        elif allocation.stop_grace_seconds is not None:
            self._finisher.finish_not_started(allocation, "stopped before it started")
        else:
            self._finisher.finish_not_started(allocation, "its node could not start it")

    def finish_after_error(self, allocation: LocalAllocation, error: BaseException) -> None:
        """Finish a job whose step raised an unexpected error, if its command has not begun."""
        if allocation.phase is not JobPhase.STARTING:
            return
        if inspect_job(allocation.directory).state is not JobState.NOT_STARTED:
            return
        if not allocation.refusal:
            text = f"its node could not start it: {error or type(error).__name__}"
            allocation.refusal = text[:REASON_LENGTH]
        self._finish_unstarted(allocation)

    # The connection ------------------------------------------------------------------------------

    def connect_supervisor(self, allocation: LocalAllocation) -> None:
        """Connect to the supervisor and report the start, or go on from the job's end. Idempotent.

        Blocks for up to `RECONNECT_SECONDS`: a supervisor that is just starting or ending has no
        socket for some milliseconds.
        """
        if allocation.connection is not None or allocation.phase is JobPhase.ENDED:
            return
        for _ in range(_RECONNECT_ATTEMPTS):
            status = inspect_job(allocation.directory)
            if status.state is not JobState.RUNNING:
                self.continue_from(allocation, status)
                return
            allocation.enter_phase(JobPhase.RUNNING)
            try:
                self._subscribe(allocation)
                return
            except (NotRunning, ConnectionLost):
                if self._workers.closing.wait(_RECONNECT_PAUSE_SECONDS):
                    return
            except SupervisorError as error:
                job = allocation.checkpoint.job
                log.warning("job %s cannot be spoken with yet: %s", job, error)
                return

    def connect_unless_pending(self, allocation: LocalAllocation) -> None:
        """Connect as `connect_supervisor` does, unless a start of the job is still to be tried.

        Asked under the lock of the job: a step that was under way may have put the start off.
        """
        if allocation.pending_start is None:
            self.connect_supervisor(allocation)

    def _subscribe(self, allocation: LocalAllocation) -> None:
        """Connect once. Raises SupervisorError; then nothing has changed."""
        connection = SupervisorConnection(allocation.directory)
        self._context.add_to_arbiter(allocation)
        try:
            if allocation.checkpoint.attached:
                self._watch.await_start(allocation.key, allocation.directory)
            connection.subscribe()
            allocation.connection = connection
            self._report_start(allocation, is_repeated=False)
        except BaseException:
            allocation.connection = None
            connection.close()
            raise
        self._context.announce_change()
        if allocation.stop_grace_seconds is not None:
            self._send_stop(allocation, connection, allocation.stop_grace_seconds)
        self._read_event(allocation)

    # Reports of the start ------------------------------------------------------------------------

    def repeat_start_report(self, allocation: LocalAllocation, generation: int) -> None:
        """Report the start again, under the generation that the server has for the allocation."""
        if allocation.checkpoint.generation != generation:
            allocation.checkpoint = replace(allocation.checkpoint, generation=generation)
            self._context.directories.write_checkpoint(allocation.checkpoint)
        self._report_start(allocation, is_repeated=True)

    def report_attached_start(self, key: str) -> None:
        """Queue the report that a client attached and the command began. Never blocks."""
        allocation = self._table.get(key)
        if allocation is not None:
            self._workers.submit(self._report_new_start, allocation)

    def _report_new_start(self, allocation: LocalAllocation) -> None:
        self._report_start(allocation, is_repeated=False)

    def _report_start(self, allocation: LocalAllocation, *, is_repeated: bool) -> None:
        """Report that the job is prepared for its client, or runs; each once, unless repeated."""
        if allocation.connection is None:
            return
        live = self._wait_for_start(allocation.connection)
        allocation.supervisor_pid = live.supervisor_pid
        allocation.started_ns = live.started_ns or None
        state = "prepared" if live.state == "waiting" else "running"
        if allocation.reported_state == state and not is_repeated:
            return
        allocation.reported_state = state
        level, why = self._find_fence_level(allocation, live)
        is_attached = allocation.checkpoint.attached
        report = allocation.make_report(
            state,
            attach_socket=str(allocation.directory / "sock") if is_attached else None,
            fence=level.value,
            fence_why=why[:FENCE_WHY],
            mechanism=allocation.checkpoint.mechanism,
            holds=self._read_levels(allocation),
            layers=list_recorded_layers(allocation.key, self._context.state_dir),
            refused=dict(allocation.refused),
            started_ns=allocation.started_ns,
            pid=live.pid or None,
        )
        self._context.queue_report(report)
        self._context.reach_step("start-reported")

    def _wait_for_start(self, connection: SupervisorConnection) -> LiveStatus:
        """Wait for the few milliseconds in which the command starts and its mounts are made."""
        for _ in range(_RECONNECT_ATTEMPTS):
            live = connection.read_status()
            if live.state != "starting" or self._workers.closing.wait(_RECONNECT_PAUSE_SECONDS):
                break
        return live

    def _find_fence_level(
        self, allocation: LocalAllocation, live: LiveStatus
    ) -> tuple[FenceLevel, str]:
        """Return what enforces the share: as prepared, or less where the mounts were refused."""
        mechanism = self._context.get_mechanism(allocation)
        state_dir = self._context.state_dir
        # "none": a container of a user's own pool, which has its share in its own root.
        allocation.has_mounts = not live.share_refused and live.share != "none"
        if live.share_refused and isinstance(mechanism, FenceMechanism):
            reason = f"its private mounts were refused ({live.share_refused})"
            mechanism.weaken_level(allocation.key, reason, state_dir)
        return mechanism.read_enforcement(allocation.key, state_dir)

    def _read_levels(self, allocation: LocalAllocation) -> dict[str, str]:
        mechanism = self._context.get_mechanism(allocation)
        levels = read_enforcement_levels(mechanism, allocation.key, self._context.state_dir)
        return levels.write()

    # News of the supervisor ----------------------------------------------------------------------

    def read_news(self, key: str) -> None:
        """Read what the supervisor of an allocation sent.

        Never waits for the job's lock: where a slow step has it, the news is read by a worker.
        """
        allocation = self._table.get(key)
        if allocation is None:
            return
        if allocation.lock.acquire(blocking=False):
            try:
                self._workers.run_locked(self._read_event, allocation)
            finally:
                allocation.lock.release()
        else:
            self._workers.submit(self._read_event, allocation)

    def _read_event(self, allocation: LocalAllocation) -> None:
        """Read one event and go on from it, or watch for the next event."""
        if allocation.connection is None:
            return
        try:
            event = allocation.connection.read_event()
        except SupervisorError:
            allocation.close_connection(self._watch)
            self._workers.submit(self.connect_supervisor, allocation)
            return
        if event is None:
            self._watch.listen(allocation.key, allocation.connection.fileno())
        else:
            self.continue_from(allocation, inspect_job(allocation.directory))

    # Stop ----------------------------------------------------------------------------------------

    def request_stop(self, allocation: LocalAllocation, grace_seconds: int) -> None:
        """Ask for the end of a job, after the step that is under way. Never blocks. Idempotent.

        Args:
            allocation: The job's allocation.
            grace_seconds: Seconds between SIGTERM and SIGKILL.
        """
        if allocation.phase is not JobPhase.ENDED:
            allocation.stop_grace_seconds = grace_seconds
            self._workers.submit(self._stop_job, allocation)

    def _stop_job(self, allocation: LocalAllocation) -> None:
        """Stop the job. A start that is under way comes first, since both hold the job's lock."""
        if allocation.phase is JobPhase.WAITING:
            self._finisher.finish_not_started(allocation, "stopped before it started")
        elif allocation.connection is not None and allocation.stop_grace_seconds is not None:
            if self._is_draining(allocation):
                self._workers.submit_after(_DRAIN_LOOK_SECONDS, self._stop_job, allocation)
                return
            try:
                self._send_stop(allocation, allocation.connection, allocation.stop_grace_seconds)
            except SupervisorError as error:
                job = allocation.checkpoint.job
                log.warning("job %s could not be told to stop: %s", job, error)
            self._read_event(allocation)
        elif allocation.phase in (JobPhase.STARTING, JobPhase.RUNNING):
            self.connect_supervisor(allocation)

    def _is_draining(self, allocation: LocalAllocation) -> bool:
        """Whether a job behind load balancers still answers requests that it may finish.

        A stop without grace waits for none.
        """
        port = allocation.checkpoint.network_port
        if not port or not allocation.stop_grace_seconds:
            return False
        drains = self._context.networks.find_drains(port)
        if allocation.drain_deadline is None:
            allocation.drain_deadline = time.monotonic() + drains.find_seconds(port)
        return drains.drain(port) > 0 and time.monotonic() < allocation.drain_deadline

    def _send_stop(
        self, allocation: LocalAllocation, connection: SupervisorConnection, grace_seconds: int
    ) -> None:
        """Send SIGTERM; to a VM only when its guest did not shut down within the grace.

        A later request with a shorter grace does not wait for the first one.
        """
        pending = allocation.power_down_seconds
        if pending is not None and grace_seconds >= pending:
            return
        job = allocation.checkpoint.job
        if pending is None and grace_seconds > 0 and self._context.vms.power_down(job):
            allocation.power_down_seconds = grace_seconds
            step = self._stop_after_power_down
            self._workers.submit_after(grace_seconds, step, allocation)
            return
        continue_suspended_job(self._context, allocation)
        connection.stop(grace_seconds if pending is None else min(grace_seconds, VM_TERM_SECONDS))

    def _stop_after_power_down(self, allocation: LocalAllocation) -> None:
        """End a QEMU whose guest did not shut down when its power button was pressed."""
        if allocation.connection is not None and allocation.phase is not JobPhase.ENDED:
            allocation.connection.stop(VM_TERM_SECONDS)
            self._read_event(allocation)
