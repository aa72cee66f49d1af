"""What every running job gives back, and when, as columns in the order of the ends; changed by what comes and goes.

A job is one line per seat, and one for the processors and main memory of its node. Changes are taken in together when
somebody looks: a pool with room for everybody never does, and who looks pays for moving columns, not for their jobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from itertools import chain

import numpy as np

from gpupool.model.partition import Placement as Place
from gpupool.scheduling.snapshot import Cards, Ints, Running
from gpupool.scheduling.steps import AT, COLUMNS, PLACE

UNTOLD = 1 << 61
"""From here on jobs of unknown end are put, the one that runs longest first: after all that is known."""

SECOND = 10**9
GRACE_NS = 60 * SECOND
"""A job whose end has passed is expected to end within this, or in as long as it is late, whichever is longer."""

_JOB = COLUMNS
"""The column behind those of a step: the number of the line's job."""


class Kind(IntEnum):
    """What a step comes from."""

    END = 0
    """A job ends."""
    HOLD = 1
    USED = 2
    """A job of the owner has a part of a hold already, which is so not kept a second time."""


KINDS = len(Kind)


def owner_of(tenant: str, reservation: str | None) -> str:
    """Names of reservations are a tenant's own."""
    return f"{tenant}/{reservation}" if reservation is not None else ""


def whom(owner: str, tenant: str) -> str:
    """For whom something is held, as that tenant may know it."""
    theirs, _, name = owner.rpartition("/")
    if not owner:
        return "a claim of higher rank"
    return f"reservation {name}" if theirs == tenant else "a reservation of another tenant"


def slid(ends: Ints, now_ns: int) -> Ints:
    """Ends as they are expected now: one that has passed is put off by about as long as it is late."""
    late = now_ns - ends
    return np.where(late < 0, ends, now_ns + np.maximum(GRACE_NS, late))


def expected_end(job: Running, now_ns: int) -> int:
    return int(slid(np.array([_end(job)]), now_ns)[0])


def expected_ends(jobs: Iterable[Running], now_ns: int) -> Ints:
    return slid(np.array([_end(job) for job in jobs], dtype=np.int64), now_ns)


class Owners:
    """Numbers for the owners of holds, as marks on steps; whoever is not an owner has number 0."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def mark(self, owner: str, kind: Kind) -> int:
        return KINDS * (self._numbers.setdefault(owner, len(self._numbers) + 1) if owner else 0) + kind

    def known(self, owner: str) -> int:
        """Its number; -1 for one of whom nothing is marked, and for nobody."""
        return self._numbers.get(owner, -1)


class Ends:
    """The lines of all running jobs, by card, by node and by tenant; jobs are named once each."""

    def __init__(self, cards: Cards, running: Iterable[Running] = ()) -> None:
        self.owners = Owners()
        self._node = None if cards.hosts is None else cards.node
        self._cards, self._nodes, self._tenants = _no_lines(), _no_lines(), _no_lines()
        self.tenants: dict[str, int] = {}
        """Numbers of those who have held something."""
        self._came: dict[str, Running] = {}
        self._cut: dict[str, Running] = {}
        """Those with partitions."""
        self._gone: list[int] = []
        self._numbers: dict[str, int] = {}
        self._last = 0
        for job in running:
            self.come(job)

    def come(self, job: Running) -> None:
        """The job holds its seats from now on."""
        if job.rows:
            self._came[job.job] = job
        if job.places:
            self._cut[job.job] = job

    def go(self, job: str) -> None:
        """The job of that name holds nothing any more."""
        self._cut.pop(job, None)
        if self._came.pop(job, None) is None and (number := self._numbers.pop(job, None)) is not None:
            self._gone.append(number)

    def at(self, now_ns: int) -> tuple[Ints, Ints]:
        """Steps (see `steps`) on cards and on nodes in the order of the ends that are expected now, to be read only."""
        self._take_in()
        return _expected(self._cards, now_ns), _expected(self._nodes, now_ns)

    def by_tenant(self, now_ns: int) -> Ints:
        """The same as one line per job: its place is its tenant's number, its mark whether it may not be preempted."""
        self._take_in()
        return _expected(self._tenants, now_ns)

    def _take_in(self) -> None:
        if self._gone:
            kept = (lines[:, ~np.isin(lines[_JOB], self._gone)] for lines in self._lines)
            self._cards, self._nodes, self._tenants = kept
            self._gone.clear()
        if self._came:
            more = self._columns(list(self._came.values()))
            self._cards, self._nodes, self._tenants = (_merged(*each) for each in zip(self._lines, more, strict=True))
            self._came.clear()

    def overdue(self, now_ns: int) -> Ints:
        """Rows of the cards of jobs that should have ended by now."""
        self.at(now_ns)
        late = int(self._cards[AT].searchsorted(now_ns, "right"))
        rows: Ints = self._cards[PLACE, :late]
        return rows

    def pieces(self, now_ns: int) -> list[tuple[int, int, Place]]:
        """Of partitions, when each is expected to come back, the row of its card, and which piece it is."""
        ends = {name: expected_end(job, now_ns) for name, job in self._cut.items()}
        each = ((ends[name], zip(job.rows, job.places, strict=True)) for name, job in self._cut.items())
        return [(end, row, piece) for end, pieces in each for row, piece in pieces]

    def _mark(self, job: Running) -> int:
        return self.owners.mark(owner_of(job.tenant, job.reservation), Kind.END)

    @property
    def _lines(self) -> tuple[Ints, Ints, Ints]:
        return self._cards, self._nodes, self._tenants

    def _columns(self, jobs: Sequence[Running]) -> tuple[Ints, Ints, Ints]:
        numbers = np.arange(self._last + 1, self._last + 1 + len(jobs))
        self._last += len(jobs)
        self._numbers.update(zip((job.job for job in jobs), numbers.tolist(), strict=True))
        marks = [self._mark(job) if job.reservation is not None else Kind.END for job in jobs]
        each = np.array([[_end(job) for job in jobs], marks, numbers], dtype=np.int64)
        ends, mark, number = np.repeat(each, [len(job.rows) for job in jobs], axis=1)
        seats = (_flat(getattr(job, name) for job in jobs) for name in ("rows", "milli", "sizes"))
        cards = np.array([ends, *seats, mark, number])
        held = [self.tenants.setdefault(job.tenant, len(self.tenants)) for job in jobs]
        firm = [not job.preemptible for job in jobs]
        sums = ([sum(job.milli) for job in jobs], [sum(job.sizes) for job in jobs])
        tenants = np.array([each[0], held, *sums, firm, numbers], dtype=np.int64)
        if self._node is None:
            return cards, _no_lines(), tenants
        nodes = self._node[[job.rows[0] for job in jobs]]
        host = ([job.shape.cpu_milli for job in jobs], [job.shape.host_bytes for job in jobs])
        return cards, np.array([each[0], nodes, *host, each[1], each[2]], dtype=np.int64), tenants


def _end(job: Running) -> int:
    return UNTOLD + job.started_ns if job.ends_ns is None else job.ends_ns


def _flat(values: Iterable[tuple[int, ...]]) -> Ints:
    return np.fromiter(chain.from_iterable(values), dtype=np.int64)


def _no_lines() -> Ints:
    return np.empty((COLUMNS + 1, 0), dtype=np.int64)


def _expected(lines: Ints, now_ns: int) -> Ints:
    late = int(lines[AT].searchsorted(now_ns, "right"))
    if late:
        put_off = lines[:, :late].copy()
        put_off[AT] = slid(put_off[AT], now_ns)
        lines = _merged(lines[:, late:], put_off)
    return lines[:COLUMNS]


def _merged(lines: Ints, more: Ints) -> Ints:
    more = more[:, np.argsort(more[AT], kind="stable")]
    if not lines.shape[1]:
        return more
    return np.insert(lines, np.searchsorted(lines[AT], more[AT], side="right"), more, axis=1)
