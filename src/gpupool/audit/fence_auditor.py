"""Compares cards and usage counters of fenced jobs while they run, and reacts to differences.

The counters are the job's own to write, so they are a claim. What the card reports of a process,
what the process has mapped and which limits it sees (/proc) are not. A difference is reported as an
event, and the pool's reaction follows: warn, freeze or kill. Sleeps while no fenced job runs.
docs/decisions/0020-audit-of-gpu-time.md.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from gpupool.audit.card_processes import CardProcesses
from gpupool.audit.ended_processes import EndedProcessTimes
from gpupool.audit.findings import AuditFinding, CardProcess
from gpupool.audit.granted_time import GrantedTimeCheck
from gpupool.audit.ledger_check import LedgerCheck, ProcessBytes, read_usage_now
from gpupool.audit.mapping_check import FencedJob, MappingCheck
from gpupool.audit.reactions import FindingReactions
from gpupool.base.errors import GpupoolError
from gpupool.base.silence import mark_busy
from gpupool.base.supervision import SupervisedThread
from gpupool.mechanisms.fenced_files import FencedFiles, find_fenced_files
from gpupool.mechanisms.regions import FenceUsage
from gpupool.probes.contract import Machine

#: Seconds between looks while a fenced process uses a card; so a program that bypasses the fence is
#: detected within one second.
BUSY_SECONDS: Final = 0.4
#: The same while no fenced process uses a card.
QUIET_SECONDS: Final = 0.8
#: Jobs that are checked at each look in turn, whether they use a card or not.
IN_TURN: Final = 64

log = logging.getLogger(__name__)


class FenceAuditor:
    """Audits the fenced jobs of one agent in a thread of its own.

    Args:
        fenced: lists the jobs to audit.
        state_dir: directory of their files.
        base: directory in which jobs find their share.
        driver_root: where this process sees the root of the driver's files.
    """

    def __init__(
        self,
        cards: CardProcesses,
        reactions: FindingReactions,
        granted_time: GrantedTimeCheck,
        *,
        fenced: Callable[[], Sequence[FencedJob]],
        state_dir: Path,
        base: str,
        driver_root: Path = Path("/"),
    ) -> None:
        self._cards = cards
        self._reactions = reactions
        self._granted_time = granted_time
        self._fenced = fenced
        self._state_dir = state_dir
        self._ledgers = LedgerCheck(cards)
        self._ended = EndedProcessTimes(cards.list_ended)
        self._sight = MappingCheck(state_dir, base, driver_root)
        self._files: dict[str, FencedFiles] = {}
        self._turn = 0
        self._wake = threading.Condition()
        self._closing = False
        #: Processes that took a slot and were not looked at since, by allocation.
        self._entered: dict[str, set[int]] = {}
        #: Allocations of such processes at the last look, whose jobs were not known to run.
        self._waited_for: set[str] = set()
        self._looked_at = 0.0
        self._thread = SupervisedThread("agent-reconciler", self._run_looks)

    def update_machines(self, machines: Mapping[str, Machine]) -> None:
        """Take the machines that the last scan found, by node."""
        self._cards.update_machines(machines)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Ask the thread to end; does not wait for it."""
        with self._wake:
            self._closing = True
            self._wake.notify()

    def join(self, seconds: float | None = None) -> None:
        """Wait until the thread has ended, at most `seconds`."""
        self._thread.join(seconds)

    def wake_up(self) -> None:
        """Look again whether fenced jobs run, after one began or ended."""
        with self._wake:
            self._wake.notify()

    def note_slot(self, allocation: str, pid: int) -> None:
        """Check at once what a process has mapped that took a slot. Any thread; does not block."""
        self._ended.note_slot(allocation, pid)
        with self._wake:
            self._entered.setdefault(allocation, set()).add(pid)
            self._wake.notify()

    def find_unaccounted(self, allocation: str) -> ProcessBytes | None:
        """Return the bytes beyond the counters at the last look, by uuid and pid, or None."""
        return self._ledgers.find_unaccounted(allocation)

    def _run_looks(self) -> None:
        # The first look waits: what a previous agent left half written is mended by then.
        self._looked_at = time.monotonic()
        while (due := self._await_look()) is not None:
            try:
                with mark_busy():
                    if due:
                        self.compare_jobs()
                    else:
                        self.check_entered()
            except (GpupoolError, OSError) as error:
                log.warning("could not compare cards and ledgers: %s", error)

    def _await_look(self) -> bool | None:
        """Sleep until the next look, and while no fenced job runs.

        Returns:
            True for a look, False if a process took a slot before it is due, None when closing.
        """
        with self._wake:
            while not (self._closing or self._fenced()):
                self._wake.wait()
                self._looked_at = time.monotonic()
            due_at = self._looked_at + (
                BUSY_SECONDS if self._ledgers.any_uses_a_card else QUIET_SECONDS
            )
            self._wake.wait_for(
                lambda: self._closing or self._has_entered(), max(0.0, due_at - time.monotonic())
            )
            if self._closing:
                return None
            due = time.monotonic() >= due_at
            if due:
                self._looked_at = time.monotonic()
            return due

    def _has_entered(self) -> bool:
        """Whether a process of a job that is known to run took a slot."""
        # Mostly no process did, and listing the jobs of a large node costs more than this test.
        if not self._entered:
            return False
        return any(one.allocation in self._entered for one in self._fenced())

    def check_entered(self) -> None:
        """Check the mappings of processes that took a slot since the last look.

        Limits that were mounted over for the moment of their start are found before they have used
        much GPU time.
        """
        jobs = {one.allocation: one for one in self._fenced()}
        entered: dict[str, set[int]] = {}
        with self._wake:
            for allocation in self._entered.keys() & jobs.keys():
                entered[allocation] = self._entered.pop(allocation)
        for allocation, pids in entered.items():
            known = find_fenced_files(allocation, self._state_dir)
            if known is not None:
                found = self._sight.check_job(jobs[allocation], known, pids)
                self._reactions.react_to(jobs[allocation], found, whole=False)

    def _forget_entered(self) -> None:
        # A process may take its slot before its job is known to run, but at most one look before.
        with self._wake:
            for allocation in self._waited_for & self._entered.keys():
                del self._entered[allocation]
            self._waited_for = set(self._entered)

    def compare_jobs(self) -> None:
        """Compare every fenced job once. Blocks as long as the driver does."""
        jobs = list(self._fenced())
        looked: list[tuple[FencedJob, FencedFiles]] = []
        for one in self._choose_jobs(jobs):
            known = find_fenced_files(one.allocation, self._state_dir)
            if known is not None:
                looked.append((one, known))
        # Counters, ended processes, cards, counters: this order is what makes a process that
        # allocates, frees or ends meanwhile agree in one of the readings (`findings`).
        before = {one.allocation: read_usage_now(known) for one, known in looked}
        ended = self._ended.query_ended(looked)
        seen = self._cards.list_processes(looked)
        ended = self._ended.settle_ended(ended, seen)
        self._ledgers.any_uses_a_card = False
        late = self._granted_time.find_overuse(looked, seen, ended)
        for one, known in looked:
            cards = seen.get(one.allocation, {})
            self._check_job(one, known, before[one.allocation], cards, late.get(one.allocation, ()))
        for one, known in looked:
            self._reactions.report_unseen(one, self._cards.explain_unseen(known))
        self._forget_ended({one.allocation for one in jobs})

    def _forget_ended(self, live: set[str]) -> None:
        for each in (self._ledgers, self._granted_time, self._ended, self._sight, self._reactions):
            each.keep_only(live)
        self._forget_entered()
        for gone in self._files.keys() - live:
            del self._files[gone]

    def _choose_jobs(self, jobs: Sequence[FencedJob]) -> list[FencedJob]:
        """Return the jobs whose processes use or used a card, and a few of the others in turn.

        Most jobs of a large node do nothing on a card now. Nothing about them can matter before
        they do, so reading all their files at each look would be wasted.
        """
        for one in jobs:
            if one.allocation not in self._files:
                known = find_fenced_files(one.allocation, self._state_dir)
                if known is not None:
                    self._files[one.allocation] = known
        if len(jobs) <= IN_TURN:
            return list(jobs)
        known_jobs: list[tuple[FencedJob, FencedFiles]] = []
        for one in jobs:
            if one.allocation in self._files:
                known_jobs.append((one, self._files[one.allocation]))
        on_cards = self._cards.list_processes(known_jobs)
        self._turn = (self._turn + IN_TURN) % len(jobs)
        in_turn = {one.allocation for one in (*jobs, *jobs)[self._turn : self._turn + IN_TURN]}
        chosen = on_cards.keys() | in_turn | self._ended.list_awaited()
        # A job with a finding is checked until the finding has ended.
        return [
            one
            for one in jobs
            if one.allocation in chosen or self._reactions.list_reported(one.allocation)
        ]

    def _check_job(
        self,
        one: FencedJob,
        known: FencedFiles,
        before: FenceUsage | str,
        cards: Mapping[str, Sequence[CardProcess]],
        late: Sequence[AuditFinding],
    ) -> None:
        told = self._reactions.list_reported(one.allocation)
        found, unaccounted = self._ledgers.check_job(one, known, before, cards, told)
        pids: set[int] = set()
        for processes in cards.values():
            pids.update(process.pid for process in processes)
        found += [*self._sight.check_job(one, known, pids), *late]
        if found and find_fenced_files(one.allocation, self._state_dir) != known:
            return  # it is being resized, or has ended: the next look will see it whole
        self._ledgers.keep_figures(one.allocation, unaccounted)
        self._reactions.react_to(one, found)
