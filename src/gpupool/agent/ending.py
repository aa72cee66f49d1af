"""The end of a job on its node: its cards are given back, its books closed, and the end is told once.

Every step can be the last and be taken again; after a failure jobs are tended and come here once more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpupool.agent.cgroups import remove
from gpupool.agent.fenced import job_sample, ledger_of
from gpupool.agent.held import Held, HeldTable, Phase
from gpupool.agent.launch import ended_report
from gpupool.agent.means import Means
from gpupool.agent.orphans import reap_orphans, remove_cgroups
from gpupool.agent.supervisor import BadSpec, Connection, ExitRecord, JobState, SupervisorError, inspect
from gpupool.agent.watch import Watch
from gpupool.base.errors import RecordDamaged
from gpupool.wire.fleet import FENCE_WHY, ReportIn

STOP_GRACE_SECONDS = 10

log = logging.getLogger(__name__)


class Ending:
    """Each step runs under the lock of its job."""

    def __init__(self, means: Means, table: HeldTable, watch: Watch) -> None:
        self._means, self._table, self._watch = means, table, watch

    def ended(self, held: Held, record: ExitRecord) -> None:
        self._means.fault("exit-seen")
        if held.told == "prepared" and record.state == "ended":
            self._tell_ran(held, record)
        report = ended_report(held.key, held.checkpoint.generation, record)
        if held.verdict:
            report = report.model_copy(update={"reason": held.verdict[:400]})
        self.close_books(held, report)

    def _tell_ran(self, held: Held, record: ExitRecord) -> None:
        """It was over before its start was told: whoever watches hears of both."""
        held.told = "running"
        level, why = self._means.mechanism_of(held).held(held.key, self._means.state_dir)
        why = why[:FENCE_WHY]
        self._means.report(held.report("running", fence=level.value, fence_why=why, started_ns=record.started_ns))

    def died(self, held: Held) -> None:
        """The supervisor was killed: end what it left, and say that nobody knows how the command ended."""
        reaped = reap_orphans(held.directory)
        log.warning(
            "the supervisor of job %s died; %d processes it left were ended, %d could not be",
            held.checkpoint.job,
            reaped.killed,
            len(reaped.remaining),
        )
        self.close_books(held, held.report("lost", reason="its supervisor died; how the command ended is unknown"))

    def never(self, held: Held, reason: str) -> None:
        """Nothing of it began."""
        self.close_books(held, held.report("not_started", reason=reason))

    def refuse(self, held: Held, reason: str) -> None:
        """It cannot run here, nor anywhere else: it has failed before it began."""
        log.warning("job %s cannot run: %s", held.checkpoint.job, reason)
        held.refusal = reason
        self.close_books(held, held.report("ended", reason=reason, exit_code=126))

    def close_books(self, held: Held, report: ReportIn) -> None:
        """Give the cards back and tell the end, once.

        Raises what the mechanism raises: a card that is still set up for this job is not given to another one.
        """
        if held.phase is Phase.ENDED:
            return
        means = self._means
        held.hang_up(self._watch)
        # Neither an empty group left behind nor a sample that is missing is worth a card that stays allocated.
        self._best_effort(held, "its cgroups stay behind", remove_cgroups, held.directory)
        # A job whose description was never written has its groups by their names alone.
        self._best_effort(held, "its cgroups stay behind", remove, means.cgroups_for(held.checkpoint.job))
        self._best_effort(held, "its last sample is lost", self._tell_last_sample, held)
        means.arbiter.remove(held.key)
        if held.checkpoint.mechanism:
            means.mechanism_of(held).unprepare(held.key, held.checkpoint.generation, means.state_dir)
        means.fault("unprepared")
        held.phase = Phase.ENDED
        means.report(report)
        means.changed()

    def _tell_last_sample(self, held: Held) -> None:
        if (ledger := ledger_of(held.key, self._means.state_dir)) is not None:
            self._means.sampled(job_sample(held.checkpoint.job, None, {}, ledger))

    @staticmethod
    def _best_effort(held: Held, lost: str, step: Callable[..., object], *arguments: Any) -> None:
        try:
            step(*arguments)
        except Exception as error:
            log.exception("job %s: %s: %s", held.checkpoint.job, lost, error)

    def forget(self, held: Held, *, ran: bool) -> None:
        """The end is told. The directory stays for its log, unless nothing ran or another allocation has it."""
        directories, job = self._means.directories, held.checkpoint.job

        def finish() -> None:
            if held.directory.is_dir():
                directories.finish(job) if ran else directories.remove(job)

        if self._table.forget(held, finish):
            self._means.fault("directory-finished")

    def end_unknown(self, directory: Path, damaged: RecordDamaged | None) -> None:
        """A directory whose checkpoint cannot be read: whatever runs in it belongs to nobody."""
        log.error("%s", damaged)
        status = inspect(directory)
        try:
            if status.state is JobState.RUNNING:
                with Connection(directory) as connection:
                    connection.stop(STOP_GRACE_SECONDS)
                return  # its end is found by the next agent
            if status.state is JobState.DIED:
                reap_orphans(directory)
            self._means.directories.finish(directory.name)
        except (SupervisorError, BadSpec, OSError) as error:
            log.error("%s: %s", directory, error)
