"""The start of a job on its node, and another size while it runs: its checkpoint is written, a mechanism prepares its
cards, the supervisor's description is written, the supervisor starts the command once.

Every step can be the last and be taken again.
"""

from __future__ import annotations

import errno
import logging
from dataclasses import replace
from pathlib import Path

from gpupool.agent.cgroups import limit_host, memory_bytes, usual_bounds
from gpupool.agent.crew import Crew
from gpupool.agent.ending import STOP_GRACE_SECONDS, Ending
from gpupool.agent.following import Following
from gpupool.agent.held import Held, HeldTable, Phase, checkpoint_of, report_of
from gpupool.agent.launch import Near, check_account, job_spec, near_cards
from gpupool.agent.log_quota import note_owner
from gpupool.agent.means import Means
from gpupool.agent.supervisor import (
    AlreadyStarted,
    AlreadySupervised,
    BadSpec,
    FailedToStart,
    JobState,
    JobStatus,
    SupervisorError,
    inspect,
    start,
    write_spec,
)
from gpupool.base.errors import GpupoolError, NotFound
from gpupool.mechanisms.registry import choose
from gpupool.probes.numa import usable_cpus
from gpupool.wire.fleet import WorkOut

DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})
#: Seconds between tries to start a job while its node is short of something.
SHORTAGE_PAUSES = (0.1, 0.5, 2.0, 5.0)

log = logging.getLogger(__name__)


class Starting:
    """`begin` blocks for nothing slow; each further step runs under the lock of its job."""

    def __init__(self, means: Means, table: HeldTable, crew: Crew, following: Following, ending: Ending) -> None:
        self._means, self._table, self._crew, self._following, self._ending = means, table, crew, following, ending

    def begin(self, work: WorkOut, held: Held | None) -> None:
        directory = self._means.directories.path(work.job)
        other = self._table.other_of(work)
        if work.started and _is_gone(directory, held):
            self._tell_lost(work, held, "nothing of it is left on its node")
        elif other is not None:
            self._following.stop(other, STOP_GRACE_SECONDS)
            self._tell_lost(work, held, "another run of this job was found on its node and ended")
        else:
            held = held or Held(checkpoint_of(work, ""), directory, Phase.STARTING)
            held.phase = Phase.STARTING
            self._table.remember(held)
            self._crew.submit(self._start, held, work)

    def _tell_lost(self, work: WorkOut, held: Held | None, reason: str) -> None:
        report = report_of(work.allocation, work.generation, "lost", reason=reason)
        if held is None:
            self._means.report(report)
        else:
            self._crew.submit(self._ending.close_books, held, report)

    def _start(self, held: Held, work: WorkOut) -> None:
        """Again after a pause where the node was short of descriptors or memory for a moment."""
        for pause in SHORTAGE_PAUSES:
            try:
                self._try(held, work)
                return
            except OSError as error:
                if error.errno not in SHORTAGES or held.phase is not Phase.STARTING:
                    raise
                log.warning("job %s waits for its node's resources: %s", work.job, error)
            if self._crew.closing.wait(pause):
                return
        self._try(held, work)

    def _try(self, held: Held, work: WorkOut) -> None:
        if held.phase is not Phase.STARTING:
            return
        try:
            self._means.fault("work-received")
            if held.stop_grace is not None:
                self._ending.never(held, "stopped before it started")
                return
            self._steps(held, work)
        except NotFound as error:
            self._ending.never(held, error.message)
        except GpupoolError as error:
            self._refuse(held, error.message)
        except (BadSpec, SupervisorError) as error:
            self._refuse(held, str(error))
        except OSError as error:
            if error.errno not in DISK_FULL:
                raise
            self._refuse(held, "the disk of its node is full")

    def _refuse(self, held: Held, reason: str) -> None:
        """Only where the command has not begun: else its cards would be given away while it runs."""
        if inspect(held.directory).state is JobState.NOT_STARTED:
            self._ending.refuse(held, reason)
        else:
            self._following.reconnect(held)

    def _steps(self, held: Held, work: WorkOut) -> None:
        """Write ahead, prepare, describe, start."""
        means = self._means
        check_account(work, means.settings)
        view = means.view_of(work)
        mechanism = choose(view)
        held.checkpoint = checkpoint_of(work, mechanism.name)
        if work.earlier_runs and not work.started:
            means.directories.begin_anew(held.checkpoint)
        means.fault("begun-anew")
        directory = means.directories.write(held.checkpoint)
        note_owner(directory, work.run_as.uid if work.run_as else means.settings.uid)
        means.fault("checkpoint-written")
        status = inspect(held.directory)
        if status.state is JobState.NOT_STARTED:
            prepared = mechanism.prepare(view, means.state_dir)
            means.divide_for(held)
            means.fault("prepared")
            groups = means.cgroups_for(work.job)
            near = near_cards(work.numa, usable_cpus())
            spec = job_spec(work, prepared, means.settings, groups, near)
            self._limit_host(held, work, groups, near)
            write_spec(held.directory, spec)
            means.fault("spec-written")
            status = start_once(held.directory)
            means.fault("shim-started")
        if status.state is JobState.NOT_STARTED:
            raise SupervisorError("its supervisor ended without starting it")
        self._following.found(held, status)
        if work.want == "resize" and held.phase is Phase.RUNNING:
            self.resize(held, work)

    def _limit_host(self, held: Held, work: WorkOut, groups: tuple[str, ...], near: Near) -> None:
        """Where the job cannot be held to its processors and memory here, that is told."""
        bounds = self._means.settings.job_limits
        usual = usual_bounds(bounds.processes, bounds.host_memory_bytes(memory_bytes()))
        unheld = limit_host(groups, work.cpu_milli, work.host_bytes, near.cpus or "", usual)
        if said := "; ".join(filter(None, (unheld, near.unheld))):
            self._means.report(held.report("noticed", work.generation, notice="host", reason=said[:400]))

    def resize(self, held: Held, work: WorkOut) -> None:
        """Put another size in force. The server asks again until it is told, also after a kill at any line.

        The checkpoint comes first, so that whatever ends the job meanwhile names the later generation.
        """
        means = self._means
        if held.phase is not Phase.RUNNING or work.generation < held.checkpoint.generation:
            return
        held.unsized = work
        held.checkpoint = replace(held.checkpoint, generation=work.generation)
        means.directories.write(held.checkpoint)
        means.fault("resize-noted")
        means.mechanism_of(held).resize(means.view_of(work), means.state_dir)
        means.arbiter.changed(held.key)
        means.fault("resized")
        held.unsized = None
        means.report(held.report("resized", work.generation, gpu_memory_bytes=means.memory_used(held)))


def start_once(directory: Path) -> JobStatus:
    """Start, or find that it was started before; either way where it stands now."""
    try:
        return start(directory)
    except (AlreadyStarted, AlreadySupervised, FailedToStart):
        return inspect(directory)
    except SupervisorError:
        # The process that was called may have been killed after the supervisor began: the directory knows.
        status = inspect(directory)
        if status.state is JobState.NOT_STARTED:
            raise
        return status


def _is_gone(directory: Path, held: Held | None) -> bool:
    """Whether nothing here can say what became of a job that began.

    A job whose checkpoint is here may wait only because an agent that was short of something could not look at it.
    """
    if held is None:
        return not (directory / "exit").exists()
    return inspect(directory).state is JobState.NOT_STARTED
