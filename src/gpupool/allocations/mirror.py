"""The ledger as the scheduler sees it, kept in memory and corrected after every commit.

The truth is in the database. The mirror only saves reading ten thousand cards and a
hundred thousand waiting jobs for each decision: whoever commits a change puts a note here,
and a plan made from a mirror that missed one is refused by the generations it names.
Notes carry absolute values with their generation, so their order does not matter.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import chain, islice
from types import MappingProxyType
from typing import Any

import numpy as np
import sqlalchemy as sa

from gpupool.allocations.columns import cards_of, read_rows
from gpupool.allocations.held import Held, read_held
from gpupool.allocations.learnt import Learnt
from gpupool.allocations.moving import read_moving
from gpupool.allocations.notes import CardNote, Granted, HostNote
from gpupool.allocations.owing import read_owed
from gpupool.allocations.past_use import PastUse
from gpupool.allocations.reserving import read_reservations
from gpupool.allocations.waiting import Queued, read_waiting
from gpupool.base.errors import NotFound
from gpupool.base.units import WHOLE
from gpupool.model.allocation import Seat
from gpupool.model.claim import Shape
from gpupool.model.gang import Gang
from gpupool.model.quota import Amount, Branch, Quota
from gpupool.model.reservation import Reservation
from gpupool.scheduling.owed import Owed
from gpupool.scheduling.policies import DEFAULT
from gpupool.scheduling.runs import Register
from gpupool.scheduling.snapshot import (
    CARD_STATUS,
    Cards,
    CardStatus,
    ClassKey,
    Cut,
    Kept,
    Snapshot,
    TenantView,
    Waiting,
)
from gpupool.tenancy.quotas import read_tree
from gpupool.tenancy.tables import tenants

_UNHEALTHY = CARD_STATUS.index(CardStatus.UNHEALTHY)

HEADS = 64
"""Jobs of one class that a snapshot names: as many as one plan places."""


class Mirror:
    """Thread-safe; every method takes microseconds to a few milliseconds and does no I/O but `load`."""

    def __init__(self, policy: str = DEFAULT, clock: Callable[[], int] = lambda: 0) -> None:
        self.lock = threading.RLock()
        self.policy = policy
        self._queue: OrderedDict[ClassKey, OrderedDict[str, int]] = OrderedDict()
        self._key_of: dict[str, ClassKey] = {}
        self._tenants: dict[str, TenantView] = {}
        self._tenant_generation: dict[str, int] = {}
        self._cards: Cards | None = None
        self._cuts: dict[int, Cut] = {}
        self._index: dict[str, int] = {}
        self._node_at: dict[str, int] = {}
        self._node_generation: dict[str, int] = {}
        self._gangs: dict[str, Gang] = {}
        self._held: dict[str, Held] = {}
        self._running = Register()
        self._moving: dict[str, tuple[Seat, ...]] = {}
        self._owed = Owed()
        self._reservations: tuple[Reservation, ...] = ()
        self._learnt = Learnt()
        self._cohorts: Mapping[str, Branch] = {}
        self._branches: Mapping[str, Branch] = {}
        self._clock, self.used = clock, PastUse(clock)
        self.generation = 0

    # --- reading the truth -------------------------------------------------------------

    def load(self, connection: sa.Connection, now_ns: int) -> None:
        """Read everything: at start, and whenever a plan was found stale."""
        with self.lock:
            self.load_cards(connection)
            self.used.load(connection)
            self.load_tenants(connection)
            self.load_reservations(connection)
            if not self._learnt.expected.shapes:
                self._learnt.load(connection, now_ns)
            self._queue.clear()
            self._key_of.clear()
            self._gangs.clear()
            self.enqueue(read_waiting(connection, None, self.seconds))
            self._held.clear()
            self._running.clear()
            self.note_held(read_held(connection))
            still = {(held.job, held.leaving_for) for held in self._held.values()}
            self._owed.remember(read_owed(connection, self._claims()), still, now_ns)
            self._moving = read_moving(connection)

    def load_cards(self, connection: sa.Connection) -> None:
        with self.lock:
            rows = read_rows(connection)
            self._cards = cards_of(rows)
            self._cuts = dict(self._cards.cuts)
            for name, view in self._tenants.items():
                self.used.note(name, view.held, self._cards)
            self._index = {uuid: n for n, uuid in enumerate(self._cards.uuids)}
            self._node_at = {name: n for n, name in enumerate(self._cards.nodes)}
            self._node_generation = {row.node: row.node_generation for row in rows}
            self.note_held(list(self._held.values()))

    def load_reservations(self, connection: sa.Connection) -> None:
        with self.lock:
            self._reservations = read_reservations(connection)
            self.generation += 1

    def load_tenants(self, connection: sa.Connection) -> None:
        with self.lock:
            self._tenants.clear()
            self._tenant_generation.clear()
            tree = read_tree(connection)
            self._cohorts, self._branches = tree.cohorts, tree.tenants
            for row in connection.execute(sa.select(tenants)):
                self.note_tenant(row)

    # --- notes after a commit ------------------------------------------------------------

    def enqueue(self, waiting: Iterable[Queued], *, again: bool = False) -> None:
        """Jobs that wait from now on; `again`: they had their turn once and go before those of their class."""
        with self.lock:
            for item in waiting:
                queue = self._queue.setdefault(item.key, OrderedDict())
                queue[item.job] = item.submitted_ns
                queue.move_to_end(item.job, last=not again)
                self._key_of[item.job] = item.key
                if item.gang is not None:
                    self._gangs[item.gang.id] = item.gang
            self.generation += 1

    def dequeue(self, gone: Iterable[str]) -> None:
        with self.lock:
            for job in gone:
                self._moving.pop(job, None)
                key = self._key_of.pop(job, None)
                if key is not None:
                    self._owed.settle(key.gang or job)
                    self._queue[key].pop(job, None)
                    if not self._queue[key]:
                        del self._queue[key]
                        self._gangs.pop(key.gang, None)
            self.generation += 1

    def note_granted(self, granted: Granted) -> None:
        """Everything that one transaction changed of cards, hosts, tenants and holders."""
        with self.lock:
            self.note_cards(granted.cards)
            self.note_hosts(granted.hosts)
            for row in granted.tenants:
                self.note_tenant(row)
            self.note_returned(granted.returned)
            self.note_held(granted.held)

    def note_cards(self, notes: Iterable[CardNote]) -> None:
        with self.lock:
            for note in notes:
                at = self._index.get(note.uuid)
                if self._cards is not None and at is not None and self._cards.generation[at] < note.generation:
                    _note_card(self._cards, at, note)
                    if at in self._cuts:
                        self._cuts[at] = replace(self._cuts[at], taken=note.pieces)
            self.generation += 1

    def note_hosts(self, notes: Iterable[HostNote]) -> None:
        with self.lock:
            for note in notes:
                at = self._node_at.get(note.node)
                hosts = self._cards.hosts if self._cards is not None else None
                if hosts is not None and at is not None and self._node_generation[note.node] < note.generation:
                    hosts.free_cpu_milli[at] = hosts.cpu_milli[at] - note.used_cpu_milli
                    hosts.free_memory_bytes[at] = hosts.memory_bytes[at] - note.used_bytes
                    if hosts.numa is not None:
                        hosts.numa.note(at, note.numa)
                    self._node_generation[note.node] = note.generation
            self.generation += 1

    def note_held(self, held: Iterable[Held]) -> None:
        """Jobs that hold seats from now on, or hold others than before."""
        with self.lock:
            for one in held:
                self._held[one.job] = one
                running = one.running(self._index, self.seconds(one.tenant, one.name, one.shape, one.max_seconds))
                if running is None:
                    self._running.drop(one.job)
                else:
                    self._running.put(running)
            self.generation += 1

    def note_leaving(self, gone: Iterable[str], leaving_for: Mapping[str, str] = MappingProxyType({})) -> list[str]:
        """Jobs that were asked to end, some for another job or gang: nobody need preempt them. Their tenants."""
        with self.lock:
            held = [self._held[job] for job in gone if job in self._held]
            whom = {one.job: leaving_for.get(one.job, one.leaving_for) for one in held}
            self.note_held([replace(one, leaving=True, leaving_for=whom[one.job]) for one in held])
            for job, claim in leaving_for.items():
                if job != claim:  # a job that moves leaves for itself
                    self._owed.told(job, claim)
            return [one.tenant for one in held]

    def note_done(self, job: str, seconds: int) -> None:
        """A job that held seats came to its own end after that long."""
        with self.lock:
            if (held := self._held.get(job)) is not None:
                self._learnt.ran(held.tenant, held.name, held.shape, seconds)

    def note_moving(self, moving: Mapping[str, tuple[Seat, ...]]) -> None:
        """Jobs that leave their seats for these."""
        with self.lock:
            self._moving |= moving
            self.note_leaving(moving, {job: job for job in moving})

    def note_ended(self, gone: Iterable[str]) -> None:
        """Jobs that will hold nothing any more: nothing is kept for them."""
        with self.lock:
            for job in gone:
                self._moving.pop(job, None)

    def note_claim(self, shape: Shape, count: int) -> None:
        with self.lock:
            self._learnt.claimed(shape, count)

    def note_saved(self, job: str, saved_ns: int) -> None:
        """A job said that its work is saved: so much less would be lost by its leaving."""
        with self.lock:
            self.note_held([replace(held, saved_ns=saved_ns) for held in [self._held.get(job)] if held is not None])

    def note_returned(self, gone: Iterable[str]) -> None:
        """Jobs that hold nothing any more."""
        with self.lock:
            for job in gone:
                self._held.pop(job, None)
                self._running.drop(job)
                self._owed.left(job, self._clock())
            self.generation += 1

    def note_tenant(self, row: Any) -> None:
        """A row of `tenants` as it was just written."""
        with self.lock:
            if self._tenant_generation.get(row.name, 0) > row.generation:
                return
            self._tenant_generation[row.name] = row.generation
            branch = self._branches.get(row.name) or Branch(None, quota_of(row))
            held = Amount(row.held_milli, row.held_memory_bytes)
            self._tenants[row.name] = TenantView(branch.quota, held, branch.parent, branch.weight_milli)
            self.used.note(row.name, held, self._cards)
            self.generation += 1

    # --- answers -------------------------------------------------------------------------

    def snapshot(self, extra: Waiting | None = None) -> Snapshot:
        """A frozen copy; `extra` is a claim that is not in the queue (yet)."""
        with self.lock:
            if self._cards is None:
                raise RuntimeError("the mirror was never loaded")
            cards = replace(
                self._cards,
                free_milli=self._cards.free_milli.copy(),
                free_bytes=self._cards.free_bytes.copy(),
                generation=self._cards.generation.copy(),
                cuts=dict(self._cuts),
            )
            if cards.hosts is not None:
                hosts = replace(
                    cards.hosts,
                    free_cpu_milli=cards.hosts.free_cpu_milli.copy(),
                    free_memory_bytes=cards.hosts.free_memory_bytes.copy(),
                    numa=cards.hosts.numa and cards.hosts.numa.copy(),
                )
                cards = replace(cards, hosts=hosts)
            waiting = [self._as_waiting(key, queue) for key, queue in self._queue.items()]
            return Snapshot(
                self.generation,
                cards,
                self.used.remembered(self._tenants),
                (*waiting, *([extra] if extra else [])),
                self.policy,
                self._running.view(),
                self._reservations,
                self._learnt.expected,
                cohorts=self._cohorts,
                kept=tuple(kept for job in self._moving if (kept := self._kept(job)) is not None),
                owed=self._owed.names(self._clock()),
            )

    def _kept(self, job: str) -> Kept | None:
        """The seats that are kept for a job that moves; None while one of their cards is not there."""
        seats, held, key = self._moving[job], self._held.get(job), self._key_of.get(job)
        rows = [index for seat in seats if (index := self._index.get(seat.device)) is not None]
        shape = held.shape if held else key.shape if key else None
        if shape is None or len(rows) < len(seats):
            return None
        return Kept(job, shape, tuple(rows), tuple(seat.memory_bytes for seat in seats))

    def _as_waiting(self, key: ClassKey, queue: Mapping[str, int]) -> Waiting:
        gang = self._gangs.get(key.gang)
        # Whose seats are kept goes first: who waits for room must not keep those idle.
        first = dict.fromkeys(job for job in (*self._moving, *self._owed.names(self._clock())) if job in queue)
        others = (job for job in queue if job not in first)
        heads = tuple(islice(chain(first, others), None if gang else HEADS))
        ages = tuple(queue[job] for job in heads)
        return waiting_of(key, heads, len(queue), ages, gang)

    def _claims(self) -> dict[str, tuple[str, ...]]:
        """By job or gang that waits, the jobs that it is."""
        single = {job: (job,) for job, key in self._key_of.items() if not key.gang}
        return single | {name: tuple(gang.members) for name, gang in self._gangs.items()}

    def check_reservation(self, name: str, tenant: str) -> None:
        """Raises NotFound where the tenant has no reservation of that name that is not over."""
        with self.lock:
            if not any(one.name == name and one.tenant == tenant for one in self._reservations):
                raise NotFound(f"there is no reservation {name!r} of {tenant}", hint="gpupool reservation list")

    def seconds(self, tenant: str, name: str, shape: Shape, limit: int | None) -> int | None:
        """How long such a job will run at most: its limit, else what the past says, else None."""
        with self.lock:
            return self._learnt.seconds(tenant, name, shape, limit)

    def reservations(self) -> tuple[Reservation, ...]:
        with self.lock:
            return self._reservations

    def to_recover(self) -> list[str]:
        """Jobs on cards that are not well, which asked to start again elsewhere and were not told to leave yet."""
        with self.lock:
            cards = self._cards
            bad = set() if cards is None else set(np.flatnonzero(cards.status == _UNHEALTHY).tolist())
            return [
                job
                for job, held in self._held.items()
                if (held.preemptible or held.requeue)
                and not held.leaving
                and any(self._index.get(seat.device, -1) in bad for seat in held.seats)
            ]

    def waiting(self, job: str) -> Waiting | None:
        """The job's class as a snapshot has it; None where it does not wait."""
        with self.lock:
            key = self._key_of.get(job)
            return None if key is None else self._as_waiting(key, self._queue[key])

    def key_of(self, job: str) -> ClassKey | None:
        with self.lock:
            return self._key_of.get(job)

    def waiting_count(self) -> int:
        with self.lock:
            return len(self._key_of)

    def position(self, job: str) -> int:
        """How many jobs of its own class wait before it."""
        with self.lock:
            key = self._key_of.get(job)
            return 0 if key is None else next(n for n, other in enumerate(self._queue[key]) if other == job)


def _note_card(cards: Cards, at: int, note: CardNote) -> None:
    cards.free_milli[at] = WHOLE - note.used_milli
    cards.free_bytes[at] = cards.memory_bytes[at] - note.used_bytes
    cards.generation[at] = note.generation


def quota_of(row: Any) -> Quota:
    return Quota(row.nominal_milli, row.borrowing_milli, row.nominal_memory_bytes, row.borrowing_memory_bytes)


def waiting_of(
    key: ClassKey, heads: tuple[str, ...], count: int, ages: tuple[int, ...], gang: Gang | None = None
) -> Waiting:
    """A class of the queue as a snapshot has it; `ages` are when its heads were submitted, oldest first."""
    return Waiting(
        key.tenant,
        key.priority,
        key.shape,
        heads,
        count,
        ages[0],
        ages,
        seconds=key.seconds,
        gang=gang,
        reservation=key.reservation,
        preemptible=key.preemptible,
    )
