"""The jobs of one agent, from work received to the end told: every step can be the last and be taken again.

What happens for an allocation, in this order: its checkpoint is written, a mechanism prepares its cards, the
supervisor's description is written, the supervisor starts the command once (`starting`), it is followed while it
runs (`following`), and when it has ended the cards are unprepared and the end is told until the server has taken it
in (`ending`). Whoever comes after a kill reads the checkpoints and the supervisors' own records and goes on. Speaks
with no server: reports are handed on.

Slow steps run in a bounded set of worker threads (`crew`), each under the lock of its job.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from gpupool.agent.crew import Crew
from gpupool.agent.ending import STOP_GRACE_SECONDS, Ending
from gpupool.agent.fenced import ledger_of
from gpupool.agent.following import Following
from gpupool.agent.held import Held, HeldTable, Phase, report_of
from gpupool.agent.launch import ended_report
from gpupool.agent.means import Means
from gpupool.agent.starting import Starting
from gpupool.agent.supervisor import inspect
from gpupool.agent.watch import Watch
from gpupool.audit.findings import Finding
from gpupool.audit.sight import FencedJob
from gpupool.mechanisms.fence import Fence
from gpupool.mechanisms.notes import NoteBook
from gpupool.mechanisms.regions import FenceUsage
from gpupool.mechanisms.registry import MECHANISMS
from gpupool.model.device import Device
from gpupool.wire.fleet import ReportIn, WorkOut

TERMINAL = frozenset({"ended", "lost", "not_started"})

log = logging.getLogger(__name__)


class Jobs:
    """Thread-safe."""

    def __init__(self, means: Means) -> None:
        self._means, self._table = means, HeldTable()
        self._watch = Watch(lambda key: self._following.heard(key), lambda key: self._following.began(key))
        self._crew = Crew(
            self._watch,
            lambda held: self._following.reconnect(held),
            lambda held, error: self._following.failed(held, error),
        )
        self._ending = Ending(means, self._table, self._watch)
        self._following = Following(means, self._table, self._watch, self._crew, self._ending)
        self._starting = Starting(means, self._table, self._crew, self._following, self._ending)

    def start(self) -> None:
        self._watch.start()

    def close(self) -> None:
        """Look away. No job is stopped, no directory is touched."""
        self._crew.close()
        self._watch.close()

    def join(self, seconds: float | None = None) -> None:
        self._crew.join()
        self._watch.join(seconds)

    def know_cards(self, nodes: Mapping[str, tuple[Device, ...]]) -> None:
        """What the last scan found, by node."""
        self._means.nodes = dict(nodes)

    # What is asked of it -------------------------------------------------------------------------------

    def names(self) -> frozenset[str]:
        """Every job of which something is held here."""
        return frozenset(one.checkpoint.job for one in self._table.all())

    def running(self) -> dict[str, int]:
        """Supervisor's process by job, for every job that runs."""
        return {one.checkpoint.job: one.supervisor_pid for one in self._table.in_phase(Phase.RUNNING)}

    def ledgers(self) -> dict[str, FenceUsage]:
        """By job: what the fences say of every job that runs in one."""
        held = self._table.in_phase(Phase.RUNNING)
        found = {one.checkpoint.job: ledger_of(one.key, self._means.state_dir) for one in held}
        return {job: ledger for job, ledger in found.items() if ledger is not None}

    def fenced(self) -> list[FencedJob]:
        """Every job that runs in a fence."""
        return [
            FencedJob(one.checkpoint.job, one.key, one.supervisor_pid, one.mounted)
            for one in self._table.in_phase(Phase.RUNNING)
            if one.supervisor_pid and one.checkpoint.mechanism == Fence.name
        ]

    def counts(self) -> dict[str, int]:
        phases = [one.phase for one in self._table.all()]
        return {phase.value: phases.count(phase) for phase in Phase}

    # What a fence found --------------------------------------------------------------------------------

    def tell_finding(self, one: FencedJob, finding: Finding, reaction: str) -> None:
        """What a fence found is an event of the job."""
        held = self._table.get(one.allocation)
        if held is not None:
            self._means.report(held.report("noticed", notice=finding.kind, reason=f"{finding.text} ({reaction})"))

    def condemn(self, one: FencedJob, reason: str) -> None:
        """End a job at once for having left its fence."""
        held = self._table.get(one.allocation)
        if held is not None and held.phase is not Phase.ENDED:
            held.verdict = held.verdict or f"ended by its fence: {reason}"
            self._following.stop(held, 0)

    # What the server wants -----------------------------------------------------------------------------

    def recover(self) -> None:
        """Take up what an agent before us left: its jobs, and preparations of which nothing else is known."""
        for found in self._means.directories.unfinished():
            if found.checkpoint is None:
                self._ending.end_unknown(found.directory, found.damaged)
                continue
            held = Held(found.checkpoint, found.directory, Phase.WAITING)
            self._table.remember(held)
            self._crew.guarded(self._following.found, held, inspect(found.directory))
        for mechanism in MECHANISMS.values():
            for allocation, seen in mechanism.observe(self._means.state_dir).items():
                if self._table.get(allocation) is None:
                    mechanism.unprepare(allocation, seen.generation, self._means.state_dir)
        book = NoteBook(self._means.state_dir)
        for damaged in book.damaged():
            log.error("%s", damaged.error)
            if self._table.get(damaged.allocation) is None:
                book.forget(damaged.allocation)

    def take(self, work: WorkOut) -> None:
        """Make true what the server wants of one allocation. Idempotent; blocks for nothing slow."""
        held = self._table.get(work.allocation)
        if work.want == "stop":
            self._stop(work, held)
        elif held is None or held.phase is Phase.WAITING:
            self._starting.begin(work, held)
        elif held.phase is not Phase.RUNNING:
            return
        elif work.want == "resize":
            self._crew.submit(self._starting.resize, held, work)
        elif not work.started or held.checkpoint.generation != work.generation:
            self._crew.submit(self._following.tell_anew, held, work.generation)

    def _stop(self, work: WorkOut, held: Held | None) -> None:
        if held is not None:
            self._following.stop(held, work.grace_seconds)
            return
        directory = self._means.directories.path(work.job)
        earlier = work.earlier_runs and not work.started  # then what lies there is not of this allocation
        record = inspect(directory).exit if directory.is_dir() and not earlier else None
        if record is not None:
            self._means.report(ended_report(work.allocation, work.generation, record))
            return
        state, reason = "lost" if work.started else "not_started", "nothing of it is on its node"
        self._means.report(report_of(work.allocation, work.generation, state, reason=reason))

    def reconcile(self, live: Iterable[str]) -> None:
        """End everything that the server no longer counts as held."""
        wanted = frozenset(live)
        for held in (one for one in self._table.all() if one.key not in wanted):
            if held.phase is not Phase.ENDED:
                log.warning("allocation %s is not the server's any more: ending it", held.key)
                self._following.stop(held, STOP_GRACE_SECONDS)

    def tend(self) -> None:
        """Look again after jobs whose supervisor could not be spoken with, or whose end could not be finished."""
        begun = self._table.in_phase(Phase.STARTING, Phase.RUNNING)
        for held in (one for one in begun if one.connection is None):
            self._crew.submit(self._following.reconnect, held)
        for held in begun:
            if (work := held.unsized) is not None:
                self._crew.submit(self._starting.resize, held, work)

    def answered(self, report: ReportIn, stale: bool) -> None:
        """The server has taken a report in; a stale one means that the allocation is not ours any more."""
        held = self._table.get(report.allocation)
        if held is None:
            return
        if report.state in TERMINAL and held.phase is Phase.ENDED:
            self._means.fault("end-acknowledged")
            self._ending.forget(held, ran=report.state != "not_started")
        elif stale and held.phase is not Phase.ENDED:
            log.warning("allocation %s is stale: ending it", held.key)
            self._following.stop(held, STOP_GRACE_SECONDS)
