"""End times of running jobs as columns: what each job returns, and when.

A job has one line per seat, and one for the processors and main memory of its node. Changes are
merged when a reader asks: a pool with room for every claim never asks, and a reader pays for moving
columns, not for the number of jobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from itertools import chain

import numpy as np

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.model.partition import PartitionSlot
from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.scheduling.snapshot.claims import RunningJob
from gpupool.scheduling.snapshot.columns import Ints
from gpupool.scheduling.timeline.step_function import AT, COLUMNS, PLACE

#: Jobs of unknown end are put from here on, the longest-running first: after all known ends.
UNKNOWN_END = 1 << 61

#: A late job is expected to end within this, or within as long as it is late, whichever is longer.
GRACE_NS = 60 * NANOS_PER_SECOND

#: The column behind those of a step: the number of the line's job.
_JOB = COLUMNS


class StepKind(IntEnum):
    """What a step comes from."""

    #: A job ends.
    END = 0
    HOLD = 1
    #: A job of the owner already has a part of the hold, which is then not kept a second time.
    USED = 2


KINDS = len(StepKind)


def name_owner(tenant: str, reservation: str | None) -> str:
    """Name the owner of a reservation's holds; reservation names are a tenant's own."""
    return f"{tenant}/{reservation}" if reservation is not None else ""


def describe_owner(owner: str, tenant: str) -> str:
    """Describe the owner of a hold, as that tenant may know it."""
    theirs, _, name = owner.rpartition("/")
    if not owner:
        return "a claim of higher rank"
    return f"reservation {name}" if theirs == tenant else "a reservation of another tenant"


def postpone_ends(ends: Ints, now_ns: int) -> Ints:
    """Return the ends as expected now: a passed end is put off by about as long as it is late."""
    late = now_ns - ends
    return np.where(late < 0, ends, now_ns + np.maximum(GRACE_NS, late))


def compute_expected_end(job: RunningJob, now_ns: int) -> int:
    """Compute when the job is expected to end."""
    return int(postpone_ends(np.array([_get_end(job)]), now_ns)[0])


def compute_expected_ends(jobs: Iterable[RunningJob], now_ns: int) -> Ints:
    """Compute when each job is expected to end."""
    return postpone_ends(np.array([_get_end(job) for job in jobs], dtype=np.int64), now_ns)


class HoldOwners:
    """Numbers for the owners of holds, as marks on steps; a claim that owns nothing has number 0."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def get_mark(self, owner: str, kind: StepKind) -> int:
        """Return the mark of steps of that owner and kind."""
        return (
            KINDS * (self._numbers.setdefault(owner, len(self._numbers) + 1) if owner else 0) + kind
        )

    def find_number(self, owner: str) -> int:
        """Return the owner's number; -1 where nothing is marked for it."""
        return self._numbers.get(owner, -1)


class JobEndTimes:
    """The lines of all running jobs by card, by node and by tenant."""

    def __init__(self, cards: CardTable, running: Iterable[RunningJob] = ()) -> None:
        self.owners = HoldOwners()
        self._node = None if cards.hosts is None else cards.node
        self._cards = _make_empty_lines()
        self._nodes = _make_empty_lines()
        self._tenants = _make_empty_lines()
        #: Numbers of tenants that have held something.
        self.tenants: dict[str, int] = {}
        self._arrivals: dict[str, RunningJob] = {}
        #: Those with partitions.
        self._partitioned: dict[str, RunningJob] = {}
        self._departures: list[int] = []
        self._numbers: dict[str, int] = {}
        self._last = 0
        for job in running:
            self.add_job(job)

    def add_job(self, job: RunningJob) -> None:
        """Add a job that holds its seats from now on."""
        if job.rows or (job.node is not None and self._node is not None):
            self._arrivals[job.job] = job
        if job.slots:
            self._partitioned[job.job] = job

    def remove_job(self, job: str) -> None:
        """Remove a job that holds nothing any more."""
        self._partitioned.pop(job, None)
        if (
            self._arrivals.pop(job, None) is None
            and (number := self._numbers.pop(job, None)) is not None
        ):
            self._departures.append(number)

    def list_steps(self, now_ns: int) -> tuple[Ints, Ints]:
        """Return the steps on cards and on nodes in the order of the expected ends; read only."""
        self._merge_changes()
        return _postpone_lines(self._cards, now_ns), _postpone_lines(self._nodes, now_ns)

    def list_tenant_steps(self, now_ns: int) -> Ints:
        """Return one line per job: its place is the tenant's number, its mark whether it is
        non-preemptible.
        """
        self._merge_changes()
        return _postpone_lines(self._tenants, now_ns)

    def _merge_changes(self) -> None:
        if self._departures:
            self._cards = _drop_jobs(self._cards, self._departures)
            self._nodes = _drop_jobs(self._nodes, self._departures)
            self._tenants = _drop_jobs(self._tenants, self._departures)
            self._departures.clear()
        if self._arrivals:
            cards, nodes, tenants = self._make_columns(list(self._arrivals.values()))
            self._cards = _merge_lines(self._cards, cards)
            self._nodes = _merge_lines(self._nodes, nodes)
            self._tenants = _merge_lines(self._tenants, tenants)
            self._arrivals.clear()

    def list_overdue_rows(self, now_ns: int) -> Ints:
        """Return the card rows of jobs that should have ended by now."""
        self.list_steps(now_ns)
        late = int(self._cards[AT].searchsorted(now_ns, "right"))
        rows: Ints = self._cards[PLACE, :late]
        return rows

    def list_pieces(self, now_ns: int) -> list[tuple[int, int, PartitionSlot]]:
        """Return for each partition piece its expected end, the row of its card, and the piece."""
        found = list[tuple[int, int, PartitionSlot]]()
        for job in self._partitioned.values():
            end = compute_expected_end(job, now_ns)
            for row, piece in zip(job.rows, job.slots, strict=True):
                found.append((end, row, piece))
        return found

    def _get_job_mark(self, job: RunningJob) -> int:
        return self.owners.get_mark(name_owner(job.tenant, job.reservation), StepKind.END)

    def _make_columns(self, jobs: Sequence[RunningJob]) -> tuple[Ints, Ints, Ints]:
        numbers = np.arange(self._last + 1, self._last + 1 + len(jobs))
        self._last += len(jobs)
        lines = list[tuple[int, ...]]()
        for job, number in zip(jobs, numbers.tolist(), strict=True):
            self._numbers[job.job] = number
            end = _get_end(job)
            mark = self._get_job_mark(job) if job.reservation is not None else StepKind.END
            tenant = self.tenants.setdefault(job.tenant, len(self.tenants))
            use = (tenant, sum(job.milli), sum(job.sizes), not job.preemptible)
            where = (job.rows[0], -1) if job.rows else (0, job.node or 0)
            host = (*where, job.shape.cpu_milli, job.shape.host_bytes)
            lines.append((end, mark, number, *use, *host, len(job.rows)))
        table = np.array(lines, dtype=np.int64).T
        ends, marks, _, tenant_of, milli, sizes, firm, first_row, own, cpu, host_bytes, seats = (
            table
        )
        end_of_seat, mark_of_seat, number_of_seat = np.repeat(table[:3], seats, axis=1)
        rows = _flatten(job.rows for job in jobs)
        milli_of_seat = _flatten(job.milli for job in jobs)
        size_of_seat = _flatten(job.sizes for job in jobs)
        cards = np.array(
            [end_of_seat, rows, milli_of_seat, size_of_seat, mark_of_seat, number_of_seat]
        )
        tenants = np.array([ends, tenant_of, milli, sizes, firm, numbers])
        if self._node is None:
            return cards, _make_empty_lines(), tenants
        # All seats of a job are on one node: that of its first card, where it has one.
        of = np.where(own >= 0, own, self._node[first_row]) if len(self._node) else own
        nodes = np.array([ends, of, cpu, host_bytes, marks, numbers])
        return cards, nodes, tenants


def _get_end(job: RunningJob) -> int:
    # Oldest first: the job that runs longest is the likeliest to end, and the order never changes.
    return UNKNOWN_END + job.started_ns if job.ends_ns is None else job.ends_ns


def _flatten(values: Iterable[tuple[int, ...]]) -> Ints:
    return np.fromiter(chain.from_iterable(values), dtype=np.int64)


def _drop_jobs(lines: Ints, numbers: Sequence[int]) -> Ints:
    return lines[:, ~np.isin(lines[_JOB], numbers)]


def _make_empty_lines() -> Ints:
    return np.empty((COLUMNS + 1, 0), dtype=np.int64)


def _postpone_lines(lines: Ints, now_ns: int) -> Ints:
    late = int(lines[AT].searchsorted(now_ns, "right"))
    if late:
        put_off = lines[:, :late].copy()
        put_off[AT] = postpone_ends(put_off[AT], now_ns)
        lines = _merge_lines(lines[:, late:], put_off)
    return lines[:COLUMNS]


def _merge_lines(lines: Ints, more: Ints) -> Ints:
    # Stable, and behind equal lines: the order of arrival decides, as if all had been sorted at
    # once.
    more = more[:, np.argsort(more[AT], kind="stable")]
    if not lines.shape[1]:
        return more
    return np.insert(lines, np.searchsorted(lines[AT], more[AT], side="right"), more, axis=1)
