"""What must hold of fenced jobs whatever is killed, read from the cards' own file, the shares'
files and the database.

The card's truth is the machine file, as `gpupool.probes.simgpu` reads it; whose a process is, /proc
says.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from gpupool.mechanisms import regions
from gpupool.mechanisms.regions import DamagedRegion, FenceUsage, ShareLimits
from gpupool.probes.simgpu import SimulatedMachine
from gpupool.probes.simgpu_file import ProcessUse
from tests.faults.pool import FaultPool, processes, until

LOOK_SECONDS = 0.02
CLEARED_SECONDS = 0.1
"""What is promised after a process' death; `SLACK_SECONDS` are this machine's, which runs other
tests meanwhile."""
SLACK_SECONDS = 2.0


def job_of(pid: int) -> str:
    """The pool's name for the job that a process belongs to; empty when it is gone or of none."""
    try:
        words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return next((word[12:].decode() for word in words if word.startswith(b"GPUPOOL_JOB=")), "")


class Card:
    """The one card of a pool, seen past the fence. `jobs` remembers whose each pid is, since the
    dead do not say."""

    def __init__(self, pool: FaultPool) -> None:
        self.pool = pool
        self.machine = SimulatedMachine(pool.paths.agent / "simgpu/sim-0/machine")
        self.uuid = self.machine.cards[0].uuid
        self._jobs: dict[int, str] = {}

    def close(self) -> None:
        self.machine.close()

    def processes(self, job: str | None = None) -> list[ProcessUse]:
        """Those alive, of one job or of all."""
        found = self.machine.list_processes(self.uuid)
        for use in found:
            self._jobs[use.pid] = job_of(use.pid) or self._jobs.get(use.pid, "")
        return [use for use in found if job is None or self._jobs[use.pid] == job]

    def bytes_by_job(self) -> Counter[str]:
        """At one instant: processes are read one after the other, and what one gave back the next
        may have taken, so only what two readings agree on counts.
        """
        before, found = None, self.processes()
        while before != (now := {use.pid: use.memory_bytes for use in found}):
            before, found = now, self.processes()
        held: Counter[str] = Counter()
        for pid, size in now.items():
            held[self._jobs[pid]] += size
        return held

    def gpu_ns(self, job: str) -> int:
        return sum(use.gpu_ns for use in self.processes(job))

    # The files of a share ------------------------------------------------------------------------------

    def folder(self, job: str) -> Path | None:
        """Of the allocation that the job holds now."""
        query = (
            "SELECT a.public_id FROM allocations a JOIN jobs j ON j.id = a.job_id"
            " WHERE j.public_id = ? AND a.state <> 'released'"
        )
        rows = self.pool.rows(query, job)
        return self.pool.paths.agent / "prepared" / rows[0][0] if rows else None

    def usage(self, job: str) -> FenceUsage | None:
        folder = self.folder(job)
        try:
            return (
                None
                if folder is None
                else regions.read_usage(folder / regions.USAGE_FILE, (self.uuid,))
            )
        except FileNotFoundError:
            return None

    def limits(self, job: str) -> ShareLimits | None:
        """None while the page is not there, or is being written."""
        folder = self.folder(job)
        try:
            return None if folder is None else regions.read_limits(folder / regions.LIMITS_FILE)
        except (FileNotFoundError, DamagedRegion):
            return None

    # The ledger ----------------------------------------------------------------------------------------

    def difference(self, job: str) -> str:
        """How the job's ledger differs from the card's word at one instant; empty: not at all."""
        before = self._ledger(job)
        card = {use.pid: use.memory_bytes for use in self.processes(job)}
        after = self._ledger(job)
        if before != after:
            return "the ledger is moving"
        charged = {pid: size for pid, size in after.items() if size}
        held = {pid: size for pid, size in card.items() if size}
        return "" if charged == held else f"job {job} is charged {charged}, its card says {held}"

    def _ledger(self, job: str) -> dict[int, int]:
        """By pid, what counts against the limit. A pid may have had two slots for a moment."""
        found: Counter[int] = Counter()
        for process in (self.usage(job) or FenceUsage()).processes:
            found[process.pid] += process.devices[self.uuid].reserved_bytes
        return dict(found)

    def await_exact(self, job: str) -> None:
        """There are instants between any two calls, so an exact ledger is soon found so."""
        with told_last(lambda: self.difference(job)):
            until(
                lambda: self._ended(job) or not self.difference(job),
                f"an exact ledger of job {job}",
            )

    def await_cleared(self, job: str, pid: int) -> float:
        """Seconds in which the ledger forgot a process that has just died."""
        began = time.monotonic()
        until(
            lambda: pid not in self._ledger(job),
            f"the ledger of {job} without its dead process {pid}",
            20,
        )
        return time.monotonic() - began

    def _ended(self, job: str) -> bool:
        return self.folder(job) is None


@contextlib.contextmanager
def told_last(look: object) -> Iterator[None]:
    """An AssertionError from within says what `look` says now."""
    try:
        yield
    except AssertionError as error:
        raise AssertionError(f"{error}: {look()}") from error  # type: ignore[operator]


class Guard(threading.Thread):
    """Looks all the time whether a job holds more of the card than it ever was given. `given` only
    grows."""

    def __init__(self, card: Card) -> None:
        super().__init__(name="fence-guard", daemon=True)
        self._card, self._stopping = card, threading.Event()
        self.given: dict[str, int] = {}
        self.wrong: list[str] = []
        self.looks = 0
        self.most = Counter[str]()

    def give(self, job: str, memory_bytes: int) -> None:
        """To be called before it is asked for."""
        self.given[job] = max(self.given.get(job, 0), memory_bytes)

    def run(self) -> None:
        while not self._stopping.wait(LOOK_SECONDS):
            for job, held in self._card.bytes_by_job().items():
                self.most[job] = max(self.most[job], held)
                if job in self.given and held > self.given[job]:
                    self.wrong.append(
                        f"job {job} holds {held} bytes of its card and was given {self.given[job]}"
                    )
            self.looks += 1

    def stop(self) -> None:
        self._stopping.set()
        self.join(20)


# The whole machine --------------------------------------------------------------------------------------------


def arbiters(pool: FaultPool) -> list[int]:
    """Every arbiter that an agent of this pool started: its child, or one that has files of the
    pool mapped."""
    parent = pool.agent_pid()
    root = os.fsencode(pool.paths.root)
    named = [pid for pid in processes() if _name(pid) == b"gpupool-arbiter"]
    return [pid for pid in named if _parent(pid) == parent or _maps(pid, root)]


def _name(pid: int) -> bytes:
    return _bytes(pid, "comm").strip()


def _parent(pid: int) -> int:
    fields = _bytes(pid, "stat").rpartition(b")")[2].split()
    return int(fields[1]) if fields else -1


def _maps(pid: int, root: bytes) -> bool:
    return root in _bytes(pid, "maps")


def _bytes(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def limits_as_granted(card: Card) -> list[str]:
    """Every running job's limits page says what the database grants it, and the database knows that
    it does."""
    rows = card.pool.rows(
        "SELECT j.public_id job, s.gpu_milli, s.memory_bytes, a.generation, a.applied_generation FROM seats s"
        " JOIN allocations a ON a.id = s.allocation_id JOIN jobs j ON j.id = a.job_id"
        " WHERE j.state = 'running' AND a.state <> 'released'"
    )
    wrong = []
    for row in rows:
        page = card.limits(row["job"])
        says = None if page is None else (page.devices[0].gpu_milli, page.devices[0].memory_bytes)
        granted = (row["gpu_milli"], row["memory_bytes"])
        if says != granted or row["applied_generation"] != row["generation"]:
            known = (row["generation"], row["applied_generation"])
            wrong.append(
                f"job {row['job']} is granted {granted}, its limits page says {says} (generations {known})"
            )
    return wrong


def fence_leftovers(card: Card) -> list[str]:
    """What a machine without a fenced job must not have."""
    found = [f"arbiter {pid} runs" for pid in arbiters(card.pool)]
    return found + [f"{use} is on the card" for use in card.processes()]
