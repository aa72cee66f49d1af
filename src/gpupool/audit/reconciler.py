"""Looking, while fenced jobs run, whether their cards say the same as their ledgers; and answering when not.

The ledger is the job's own to write, so it is a claim. What the card says of a process (the probe), what the process
has mapped and which limits it sees (/proc) are not. A difference is told as an event and answered as the pool was
told: warn, freeze or kill. Asleep while no fenced job runs.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from gpupool.audit.answering import Answering
from gpupool.audit.card_processes import CardProcesses
from gpupool.audit.ended_work import EndedWork
from gpupool.audit.findings import CardProcess, Finding
from gpupool.audit.granted_time import GrantedTime
from gpupool.audit.ledger_look import Bytes, LedgerLook, usage_now
from gpupool.audit.sight import FencedJob, SightCheck
from gpupool.base.errors import GpupoolError
from gpupool.base.silence import busy
from gpupool.base.supervised import SupervisedThread
from gpupool.mechanisms.fence import FencedFiles, fenced_files
from gpupool.mechanisms.regions import FenceUsage
from gpupool.probes.contract import Machine

BUSY_SECONDS: Final = 0.4
"""Between looks while a fenced job's process has a card; so anything is noticed within a second."""
QUIET_SECONDS: Final = 0.8
IN_TURN: Final = 64
"""So many jobs are looked at each time, whether they use a card or not."""

log = logging.getLogger(__name__)


class Reconciler:
    """`fenced` lists the jobs to look after, whose files lie in `state_dir`; `base` is where jobs find their share,
    `driver_root` where the root of the driver's files is seen from here.
    """

    def __init__(
        self,
        cards: CardProcesses,
        answering: Answering,
        granted_time: GrantedTime,
        *,
        fenced: Callable[[], Sequence[FencedJob]],
        state_dir: Path,
        base: str,
        driver_root: Path = Path("/"),
    ) -> None:
        self._cards, self._answering, self._granted_time = cards, answering, granted_time
        self._fenced, self._state_dir = fenced, state_dir
        self._ledgers = LedgerLook(cards)
        self._ended = EndedWork(cards.ended)
        self._sight = SightCheck(state_dir, base, driver_root)
        self._files: dict[str, FencedFiles] = {}
        self._turn = 0
        self._wake = threading.Condition()
        self._closing = False
        self._entered: dict[str, set[int]] = {}
        """Processes that took a slot and were not looked at since, by allocation."""
        self._waited_for: set[str] = set()
        """Allocations of such processes at the last look, whose jobs were not known to run."""
        self._looked_at = 0.0
        self._thread = SupervisedThread("agent-reconciler", self._run)

    def know(self, machines: Mapping[str, Machine]) -> None:
        """What the last scan found, by node."""
        self._cards.know(machines)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        with self._wake:
            self._closing = True
            self._wake.notify()

    def join(self, seconds: float | None = None) -> None:
        self._thread.join(seconds)

    def changed(self) -> None:
        """Jobs begin or end to run."""
        with self._wake:
            self._wake.notify()

    def entered(self, allocation: str, pid: int) -> None:
        """A process took a slot: what it has mapped is looked at at once. Any thread; does not block."""
        self._ended.entered(allocation, pid)
        with self._wake:
            self._entered.setdefault(allocation, set()).add(pid)
            self._wake.notify()

    def unaccounted(self, allocation: str) -> Bytes | None:
        """Bytes beyond the ledger by the last look, by uuid and pid; None before the first."""
        return self._ledgers.unaccounted(allocation)

    def _run(self) -> None:
        self._looked_at = time.monotonic()  # what the agent before left half written is mended before the first look
        while (due := self._next()) is not None:
            try:
                with busy():
                    if due:
                        self.look()
                    else:
                        self.look_at_entered()
            except (GpupoolError, OSError) as error:
                log.warning("could not compare cards and ledgers: %s", error)

    def _next(self) -> bool | None:
        """Sleep until the next look, or for good while no fenced job runs. False when a process took a slot before,
        None when closing.
        """
        with self._wake:
            while not (self._closing or self._fenced()):
                self._wake.wait()
                self._looked_at = time.monotonic()
            due_at = self._looked_at + (BUSY_SECONDS if self._ledgers.any_uses_a_card else QUIET_SECONDS)
            self._wake.wait_for(lambda: self._closing or self._has_entered(), max(0.0, due_at - time.monotonic()))
            if self._closing:
                return None
            due = time.monotonic() >= due_at
            if due:
                self._looked_at = time.monotonic()
            return due

    def _has_entered(self) -> bool:
        """Whether a process of a job that is known to run took a slot."""
        return any(one.allocation in self._entered for one in self._fenced()) if self._entered else False

    def look_at_entered(self) -> None:
        """Look at the processes that took a slot since: limits that were mounted over for the moment of their start are
        found before they have done much.
        """
        jobs = {one.allocation: one for one in self._fenced()}
        with self._wake:
            entered = {allocation: self._entered.pop(allocation) for allocation in self._entered.keys() & jobs.keys()}
        for allocation, pids in entered.items():
            known = fenced_files(allocation, self._state_dir)
            if known is not None:
                found = self._sight.findings(jobs[allocation], known, pids)
                self._answering.answer(jobs[allocation], found, whole=False)

    def _forget_entered(self) -> None:
        """A process may take its slot before its job is known to run, but not long before."""
        with self._wake:
            for allocation in self._waited_for & self._entered.keys():
                del self._entered[allocation]
            self._waited_for = set(self._entered)

    def look(self) -> None:
        """One comparison of every fenced job."""
        jobs = list(self._fenced())
        chosen = self._chosen(jobs)
        files = {one.allocation: fenced_files(one.allocation, self._state_dir) for one in chosen}
        looked = [(one, known) for one in chosen if (known := files[one.allocation]) is not None]
        before = {one.allocation: usage_now(known) for one, known in looked}
        ended = self._ended.ask(looked)
        seen = self._cards.of(looked)
        ended = self._ended.settle(ended, seen)
        self._ledgers.any_uses_a_card = False
        late = self._granted_time.findings(looked, seen, ended)
        for one, known in looked:
            cards = seen.get(one.allocation, {})
            self._look_at(one, known, before[one.allocation], cards, late.get(one.allocation, ()))
        for one, known in looked:
            self._answering.tell_unseen(one, self._cards.why_unseen(known))
        self._forget({one.allocation for one in jobs})

    def _forget(self, live: set[str]) -> None:
        for each in (self._ledgers, self._granted_time, self._ended, self._sight, self._answering):
            each.forget(live)
        self._forget_entered()
        for gone in self._files.keys() - live:
            del self._files[gone]

    def _chosen(self, jobs: Sequence[FencedJob]) -> list[FencedJob]:
        """Whose processes are on a card, whose were, and a few of the others in turn: most jobs of a large node do
        nothing on a card now, and nothing can be wrong with them that matters before they do.
        """
        for one in jobs:
            if one.allocation not in self._files:
                known = fenced_files(one.allocation, self._state_dir)
                if known is not None:
                    self._files[one.allocation] = known
        if len(jobs) <= IN_TURN:
            return list(jobs)
        known_jobs = [(one, self._files[one.allocation]) for one in jobs if one.allocation in self._files]
        on_cards = self._cards.of(known_jobs)
        self._turn = (self._turn + IN_TURN) % len(jobs)
        in_turn = {one.allocation for one in (*jobs, *jobs)[self._turn : self._turn + IN_TURN]}
        told = {one.allocation for one in jobs if self._answering.told(one.allocation)}
        ended = self._ended.awaited()
        return [one for one in jobs if one.allocation in on_cards.keys() | in_turn | told | ended]

    def _look_at(
        self,
        one: FencedJob,
        known: FencedFiles,
        before: FenceUsage | str,
        cards: Mapping[str, Sequence[CardProcess]],
        late: Sequence[Finding],
    ) -> None:
        told = self._answering.told(one.allocation)
        found, unaccounted = self._ledgers.findings(one, known, before, cards, told)
        pids = {process.pid for processes in cards.values() for process in processes}
        found += [*self._sight.findings(one, known, pids), *late]
        if found and fenced_files(one.allocation, self._state_dir) != known:
            return  # it is being resized, or has ended: the next look will see it whole
        self._ledgers.keep(one.allocation, unaccounted)
        self._answering.answer(one, found)
