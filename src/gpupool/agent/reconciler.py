"""Looking, while fenced jobs run, whether their cards say the same as their ledgers; and answering when not.

The ledger is the job's own to write, so it is a claim. What the card says of a process (the probe), what the process
has mapped and which limits it sees (/proc) are not. A difference is told as an event and answered as the pool was
told: warn, freeze or kill. Asleep while no fenced job runs.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from gpupool.agent import process_look
from gpupool.agent.findings import CODE_ALLOWANCE_BYTES, CardProcess, Comparison, Finding, Shrunk, compare, held_on
from gpupool.agent.sight import FencedJob, SightCheck
from gpupool.agent.time_audit import TimeAudit
from gpupool.agent.usage import read_processes, trees
from gpupool.base.errors import GpupoolError
from gpupool.base.silence import busy
from gpupool.base.supervised import SupervisedThread
from gpupool.mechanisms.arbiter import ShareStatus
from gpupool.mechanisms.fence import FencedFiles, fenced_files
from gpupool.mechanisms.regions import (
    DeviceLimit,
    FenceUsage,
    RegionDamaged,
    check_grants,
    read_limits,
    read_usage,
    write_overhead,
)
from gpupool.model.device import DeviceUsage
from gpupool.probes.contract import HeldUp, Machine, Probe, TimesProcesses

BUSY_SECONDS: Final = 0.4
"""Between looks while a fenced job's process has a card; so anything is noticed within a second."""
QUIET_SECONDS: Final = 0.8
OVERHEAD_STEP_BYTES: Final = 1 << 20
LOOKS_AGAIN: Final = 7
IN_TURN: Final = 64
"""So many jobs are looked at each time, whether they use a card or not."""
SETTLE_SECONDS: Final = 5.0
"""A process that a stop has not reached by then waits for a device in the kernel, where it forks nothing."""
SETTLE_PAUSE_SECONDS: Final = 0.001
REACTIONS: Final = ("warn", "freeze", "kill")

log = logging.getLogger(__name__)


class Reconciler:
    """`fenced` lists the jobs to look after; `tell` takes a finding and what was done; `kill` ends a job; `granted` is
    what the arbiter says of each share, with the arbiter's pid.
    """

    def __init__(
        self,
        probes: Mapping[str, Probe],
        state_dir: Path,
        base: str,
        reaction: str,
        fenced: Callable[[], Sequence[FencedJob]],
        tell: Callable[[FencedJob, Finding, str], None],
        kill: Callable[[FencedJob, str], None],
        granted: Callable[[], tuple[int, tuple[ShareStatus, ...]] | None] = lambda: None,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._probes, self._state_dir, self._reaction = dict(probes), state_dir, reaction
        self._fenced, self._tell, self._kill = fenced, tell, kill
        self._granted, self._now_ns = granted, now_ns
        self._audit = TimeAudit()
        self._node_of: dict[str, str] = {}
        self._files: dict[str, FencedFiles] = {}
        self._turn = 0
        self._sight = SightCheck(state_dir, base)
        self._told: dict[str, set[tuple[str, int]]] = {}
        self._unasked: dict[str, str] = {}
        """Nodes whose cards could not be asked at the last look, and why not."""
        self._unseen: set[str] = set()
        self._shrunk = Shrunk()
        self._unaccounted: dict[str, Mapping[str, Mapping[int, int]]] = {}
        self._wake = threading.Condition()
        self._closing = self._busy = False
        self._entered: dict[str, set[int]] = {}
        """Processes that took a slot and were not looked at since, by allocation."""
        self._waited_for: set[str] = set()
        """Allocations of such processes at the last look, whose jobs were not known to run."""
        self._looked_at = 0.0
        self._thread = SupervisedThread("agent-reconciler", self._run)

    def know(self, machines: Mapping[str, Machine]) -> None:
        """What the last scan found, by node."""
        self._node_of = {device.uuid: name for name, machine in machines.items() for device in machine.devices}

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
        with self._wake:
            self._entered.setdefault(allocation, set()).add(pid)
            self._wake.notify()

    def unaccounted(self, allocation: str) -> Mapping[str, Mapping[int, int]] | None:
        """Bytes beyond the ledger by the last look, by uuid and pid; None before the first."""
        return self._unaccounted.get(allocation)

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
            due_at = self._looked_at + (BUSY_SECONDS if self._busy else QUIET_SECONDS)
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
                self._answer(jobs[allocation], self._sight.findings(jobs[allocation], known, pids), whole=False)

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
        before = {one.allocation: _usage(known) for one, known in looked}
        seen = self._card_processes(looked)
        self._busy = False
        late = self._used_more_than_granted(looked, seen)
        for one, known in looked:
            found = late.get(one.allocation, [])
            self._look_at(one, known, before[one.allocation], seen.get(one.supervisor_pid, {}), found)
        self._tell_unseen(looked)
        live = {one.allocation for one in jobs}
        self._shrunk.forget(live)
        self._audit.forget(live)
        self._sight.forget(live)
        self._forget_entered()
        for kept in (self._told, self._unaccounted, self._files):
            for gone in kept.keys() - live:
                del kept[gone]

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
        on_cards = self._card_processes(known_jobs)
        self._turn = (self._turn + IN_TURN) % len(jobs)
        in_turn = {one.allocation for one in (*jobs, *jobs)[self._turn : self._turn + IN_TURN]}
        told = {allocation for allocation, findings in self._told.items() if findings}
        return [one for one in jobs if one.supervisor_pid in on_cards or one.allocation in in_turn | told]

    def _card_processes(
        self, looked: Iterable[tuple[FencedJob, FencedFiles]]
    ) -> dict[int, dict[str, list[CardProcess]]]:
        """Every process of these jobs on their cards: by supervisor, then by card."""
        by_node: dict[str, set[str]] = {}
        pairs = list(looked)
        for _, known in pairs:
            for uuid in known.uuids:
                by_node.setdefault(self._node_of.get(uuid, ""), set()).add(uuid)
        by_node.pop("", None)  # cards that are gone
        roots = frozenset(one.supervisor_pid for one, _ in pairs)
        found: dict[int, dict[str, list[CardProcess]]] = {}
        for node, uuids in by_node.items():
            usages, times = self._asked(node, sorted(uuids))
            for uuid, usage in usages.items():
                for process in usage.processes or ():
                    root = next((pid for pid in process_look.parents(process.pid) if pid in roots), None)
                    if root is not None and process_look.is_alive(process.pid):
                        had = times.get(uuid, {}).get(process.pid)
                        here = CardProcess(process_look.names(process.pid), process.memory_bytes or 0, had)
                        found.setdefault(root, {}).setdefault(uuid, []).append(here)
        return found

    def _asked(
        self, node: str, uuids: Sequence[str]
    ) -> tuple[Mapping[str, DeviceUsage], Mapping[str, Mapping[int, int]]]:
        """What the cards of one node say; nothing when they cannot be asked, which must not hide the other nodes'."""
        probe = self._probes[node]
        try:
            times = probe.process_times(uuids) if isinstance(probe, TimesProcesses) else {}
            usages = probe.observe(uuids)
        except (GpupoolError, OSError) as error:
            self._unasked[node] = str(error)
            return {}, {}
        self._unasked.pop(node, None)
        return usages, times

    def _used_more_than_granted(
        self, looked: Sequence[tuple[FencedJob, FencedFiles]], seen: Mapping[int, Mapping[str, Sequence[CardProcess]]]
    ) -> dict[str, list[Finding]]:
        """By allocation, what the card says that its processes had and the arbiter has neither granted nor seen."""
        said = self._granted() if seen else None
        if said is None:
            return {}
        arbiter, statuses = said
        accounts = {(each.allocation, each.device): each for each in statuses}
        found: dict[str, list[Finding]] = {}
        for one, known in looked:
            for place, limit in enumerate(known.wanted.devices):
                here = seen.get(one.supervisor_pid, {}).get(limit.uuid, ())
                used = {process.pid: process.gpu_ns for process in here if process.gpu_ns is not None}
                account = accounts.get((one.allocation, place))
                if account is None or len(used) < len(here) or _has_the_whole_card(limit):
                    continue
                mark, sampled = (arbiter, known.wanted.generation), not known.simulated
                now = self._now_ns()
                text = self._audit.look(limit, used, account, now, mark=mark, sampled=sampled)
                if text:
                    found.setdefault(one.allocation, []).append(Finding("time", text, only_tell=sampled))
        return found

    def _tell_unseen(self, looked: Iterable[tuple[FencedJob, FencedFiles]]) -> None:
        """Nobody is ended for it: whose doing it is that cards cannot be asked is not known."""
        unseen = set()
        for one, known in looked:
            nodes = {self._node_of.get(uuid, "") for uuid in known.uuids}
            for node in nodes & self._unasked.keys():
                unseen.add(one.allocation)
                if one.allocation not in self._unseen:
                    log.warning("job %s: its cards cannot be asked: %s", one.job, self._unasked[node])
                    self._tell(one, Finding("unseen", f"its cards cannot be asked: {self._unasked[node]}"), "warn")
        self._unseen = unseen

    def _look_at(
        self,
        one: FencedJob,
        known: FencedFiles,
        before: FenceUsage | str,
        cards: Mapping[str, list[CardProcess]],
        late: Sequence[Finding],
    ) -> None:
        after = _usage(known)
        result = Comparison()
        findings = [*_limits_changed(known), *_grants_damaged(known)]
        if isinstance(before, str) or isinstance(after, str):
            findings.append(Finding("region", after if isinstance(after, str) else str(before)))
        else:
            allowed = self._shrunk.allowed(one.allocation, known.wanted, held_on(cards))
            result = compare(known.wanted, before, after, cards, self._allowance(known), allowed)
            result = self._sure(one, known, result, allowed)
            if not findings:
                self._charge(known, result.unaccounted)
            findings += result.findings
            self._busy = self._busy or bool(cards) or bool(after.processes)
        pids = {process.pid for processes in cards.values() for process in processes}
        findings += [*self._sight.findings(one, known, pids), *late]
        if findings and fenced_files(one.allocation, self._state_dir) != known:
            return  # it is being resized, or has ended: the next look will see it whole
        self._unaccounted[one.allocation] = result.unaccounted
        self._answer(one, findings)

    def _sure(self, one: FencedJob, known: FencedFiles, result: Comparison, allowed: Mapping[str, int]) -> Comparison:
        """What is new is looked at again at once, since a job can be ended for it. One instant of a program that takes
        and gives back as fast as it can is misread with a chance of one in seven at most: so often, never.
        """
        old, told = self._unaccounted.get(one.allocation, {}), self._told.get(one.allocation, set())
        for _ in range(LOOKS_AGAIN):
            new = any((finding.kind, finding.pid) not in told for finding in result.findings)
            if not new and result.beyond(old) < OVERHEAD_STEP_BYTES:
                break
            before = _usage(known)
            cards = self._card_processes([(one, known)]).get(one.supervisor_pid, {})
            after = _usage(known)
            if isinstance(before, str) or isinstance(after, str):
                break
            again = compare(known.wanted, before, after, cards, self._allowance(known), allowed)
            result = result.confirmed(again)
        return result

    def _allowance(self, known: FencedFiles) -> int:
        """A simulated card knows of nothing but what was asked for."""
        return 0 if known.simulated else CODE_ALLOWANCE_BYTES

    def _charge(self, known: FencedFiles, unaccounted: Mapping[str, Mapping[int, int]]) -> None:
        """What the card says beyond the ledger is in the share too. In whole steps, for figures that flicker."""
        for place, uuid in enumerate(known.uuids):
            beyond = sum(unaccounted.get(uuid, {}).values())
            write_overhead(known.limits, place, beyond // OVERHEAD_STEP_BYTES * OVERHEAD_STEP_BYTES)

    def _answer(self, one: FencedJob, findings: Sequence[Finding], *, whole: bool = True) -> None:
        """Each finding is told once while it lasts; the reaction is repeated, since it can be undone.

        `whole`: these are all findings of the job, so others have ended.
        """
        told = self._told.setdefault(one.allocation, set())
        for finding in findings:
            reaction = "warn" if finding.only_tell else self._reaction
            if (finding.kind, finding.pid) not in told:
                log.warning("job %s: %s: %s (%s)", one.job, finding.kind, finding.text, reaction)
                self._tell(one, finding, reaction)
        found = {(finding.kind, finding.pid) for finding in findings}
        self._told[one.allocation] = found if whole else told | found
        answered = [finding for finding in findings if not finding.only_tell]
        if answered and self._reaction == "kill":
            self._kill(one, answered[0].text)
        elif answered and self._reaction == "freeze":
            stopped = freeze(one.supervisor_pid)
            for probe in self._probes.values():
                if isinstance(probe, HeldUp):
                    probe.let_out(stopped)


def _has_the_whole_card(limit: DeviceLimit) -> bool:
    """Such a share asks no arbiter, so no account of its time exists to compare with."""
    return limit.sharing == "fixed" and limit.gpu_milli >= 1000


def _limits_changed(known: FencedFiles) -> list[Finding]:
    try:
        if read_limits(known.limits) == known.wanted:
            return []
    except (OSError, RegionDamaged) as error:
        return [Finding("limits", f"its limits page was changed: {error}")]
    return [Finding("limits", "its limits page says other than what was granted")]


def _grants_damaged(known: FencedFiles) -> list[Finding]:
    """Who has the page mapped keeps it; who starts now gets no card."""
    try:
        check_grants(known.grants)
    except (OSError, RegionDamaged) as error:
        return [Finding("grants", f"its grants page was changed: {error}")]
    return []


def freeze(supervisor_pid: int) -> frozenset[int]:
    """Stop every process below a supervisor, also those that are forked meanwhile; which were stopped."""
    stopped: set[int] = set()
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        # A process that was in the middle of a fork when the signal came stops behind it: its child shows only then.
        settled = all(map(_stands_still, stopped)) or time.monotonic() >= deadline
        tree = trees(read_processes(), [supervisor_pid]).get(supervisor_pid)
        fresh = (tree.pids if tree else frozenset()) - stopped
        if not fresh and settled:
            return frozenset(stopped)
        if not fresh:
            time.sleep(SETTLE_PAUSE_SECONDS)
        for pid in fresh:
            try:
                os.kill(pid, signal.SIGSTOP)
            except (ProcessLookupError, PermissionError) as error:
                log.info("process %d could not be stopped: %s", pid, error)
        stopped |= fresh


def _stands_still(pid: int) -> bool:
    """Stopped, or no process any more."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    return text.rpartition(")")[2].split()[0] in "TtZX"


def _usage(known: FencedFiles) -> FenceUsage | str:
    """What the ledger says, or how it is damaged."""
    try:
        return read_usage(known.usage, known.uuids)
    except FileNotFoundError:
        return "its usage file is gone"
    except RegionDamaged as error:
        return f"its usage file is damaged: {error}"
