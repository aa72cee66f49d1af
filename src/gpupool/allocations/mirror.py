"""The ledger as the scheduler sees it, kept in memory and corrected after every commit.

The truth is in the database. The mirror only saves reading ten thousand cards and a
hundred thousand waiting jobs for each decision: whoever commits a change puts a note here,
and a plan made from a mirror that missed one is refused by the generations it names.
Notes carry absolute values with their generation, so their order does not matter.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.columns import read_rows
from gpupool.allocations.held import Held, read_held
from gpupool.allocations.learnt import Learnt
from gpupool.allocations.live_cards import LiveCards
from gpupool.allocations.moving import read_moving
from gpupool.allocations.notes import CardNote, Granted, HostNote
from gpupool.allocations.owing import read_owed
from gpupool.allocations.past_use import PastUse
from gpupool.allocations.queue import JobQueue
from gpupool.allocations.reserving import read_reservations
from gpupool.allocations.waiting import Queued, read_queue
from gpupool.base.errors import NotFound
from gpupool.base.units import WHOLE
from gpupool.model.allocation import Seat
from gpupool.model.claim import Shape
from gpupool.model.quota import Amount, Branch, Quota
from gpupool.model.reservation import Reservation
from gpupool.scheduling.guarded import PolicyFault
from gpupool.scheduling.owed import Owed
from gpupool.scheduling.policies import DEFAULT
from gpupool.scheduling.runs import Register
from gpupool.scheduling.snapshot import ClassKey, Kept, Snapshot, TenantView, Waiting
from gpupool.tenancy.quotas import read_tree
from gpupool.tenancy.tables import tenants


class Mirror:
    """Thread-safe; every method takes microseconds to a few milliseconds and does no I/O but `load`."""

    def __init__(self, policy: str = DEFAULT, clock: Callable[[], int] = lambda: 0) -> None:
        self.lock = threading.RLock()
        self.policy = policy
        self._queue, self._cards = JobQueue(), LiveCards()
        self._tenants: dict[str, TenantView] = {}
        self._tenant_generation: dict[str, int] = {}
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
            before = dict(self._held) if self._learnt.is_loaded else None
            if before is None:
                self._learnt.load(connection, now_ns)
            self._queue.clear()
            self.enqueue(read_queue(connection, self.seconds))
            self._held.clear()
            self._running.clear()
            self.note_held(read_held(connection))
            if before is not None:
                self._learnt.compare(before, self._held)
            still = {(held.job, held.leaving_for) for held in self._held.values()}
            self._owed.remember(read_owed(connection, self._queue.claims()), still, now_ns)
            self._moving = read_moving(connection)

    def load_cards(self, connection: sa.Connection) -> None:
        with self.lock:
            self._cards.load(read_rows(connection))
            self._learnt.set_capacity(WHOLE * len(self._cards.index))
            for name, view in self._tenants.items():
                self.used.note(name, view.held, self._cards.columns)
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
                self._queue.put(item, again=again)
            self.generation += 1

    def dequeue(self, gone: Iterable[str]) -> None:
        with self.lock:
            for job in gone:
                self._moving.pop(job, None)
                if (key := self._queue.remove(job)) is not None:
                    self._owed.settle(key.gang or job)
            self.generation += 1

    def note_made(self, made: Iterable[str]) -> None:
        """Members of arrays, by reference, that have become jobs: their arrays have so much less to yield."""
        with self.lock:
            for reference in made:
                self._queue.remove(reference)
            self.generation += 1

    def note_granted(self, granted: Granted) -> None:
        """Everything that one transaction changed of cards, hosts, tenants and holders."""
        with self.lock:
            self.note_made(granted.made)
            self.note_cards(granted.cards)
            self.note_hosts(granted.hosts)
            for row in granted.tenants:
                self.note_tenant(row)
            self.note_returned(granted.returned)
            for one in granted.held:
                if one.job not in self._held:
                    self._learnt.started(one.shape)
            self.note_held(granted.held)

    def note_cards(self, notes: Iterable[CardNote]) -> None:
        with self.lock:
            self._cards.note_cards(notes)
            self.generation += 1

    def note_hosts(self, notes: Iterable[HostNote]) -> None:
        with self.lock:
            self._cards.note_hosts(notes)
            self.generation += 1

    def note_held(self, held: Iterable[Held]) -> None:
        """Jobs that hold seats from now on, or hold others than before."""
        with self.lock:
            for one in held:
                self._held[one.job] = one
                running = one.running(self._cards.index, self.seconds(one.tenant, one.name, one.shape, one.max_seconds))
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
                held = self._held.pop(job, None)
                if held is not None:
                    self._learnt.gave_back(held.shape)
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
            self.used.note(row.name, held, self._cards.columns)
            self.generation += 1

    # --- answers -------------------------------------------------------------------------

    def snapshot(self, extra: Waiting | None = None) -> Snapshot:
        """A frozen copy; `extra` is a claim that is not in the queue (yet)."""
        with self.lock:
            waiting = self._queue.classes(self._first())
            return Snapshot(
                self.generation,
                self._cards.frozen(),
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
        seats, held, key = self._moving[job], self._held.get(job), self._queue.key_of(job)
        rows = [index for seat in seats if (index := self._cards.index.get(seat.device)) is not None]
        shape = held.shape if held else key.shape if key else None
        if shape is None or len(rows) < len(seats):
            return None
        return Kept(job, shape, tuple(rows), tuple(seat.memory_bytes for seat in seats))

    def _first(self) -> tuple[str, ...]:
        """Whose seats are kept go first in their classes: who waits for room must not keep those idle."""
        return (*self._moving, *self._owed.names(self._clock()))

    def check_reservation(self, name: str, tenant: str) -> None:
        """Raises NotFound where the tenant has no reservation of that name that is not over."""
        with self.lock:
            if not any(one.name == name and one.tenant == tenant for one in self._reservations):
                raise NotFound(f"there is no reservation {name!r} of {tenant}", hint="gpupool reservation list")

    def seconds(self, tenant: str, name: str, shape: Shape, limit: int | None) -> int | None:
        """How long such a job will run at most: its limit, else what the past says, else None."""
        with self.lock:
            return self._learnt.seconds(tenant, name, shape, limit)

    @property
    def learnt_fault(self) -> PolicyFault | None:
        """What of the pool's past could not be read."""
        with self.lock:
            return self._learnt.fault

    def reservations(self) -> tuple[Reservation, ...]:
        with self.lock:
            return self._reservations

    def to_recover(self) -> list[str]:
        """Jobs on cards that are not well, which asked to start again elsewhere and were not told to leave yet."""
        with self.lock:
            bad = self._cards.unhealthy()
            return [
                job
                for job, held in self._held.items()
                if (held.preemptible or held.requeue)
                and not held.leaving
                and any(self._cards.index.get(seat.device, -1) in bad for seat in held.seats)
            ]

    def waiting(self, job: str) -> Waiting | None:
        """The job's class as a snapshot has it; None where it does not wait."""
        with self.lock:
            return self._queue.class_of(job, self._first())

    def key_of(self, job: str) -> ClassKey | None:
        with self.lock:
            return self._queue.key_of(job)

    def key_of_claim(self, claim: str) -> ClassKey | None:
        """Of a job or a gang that waits; None where it does not."""
        with self.lock:
            return self._queue.key_of_claim(claim)

    def next_of(self, array: str) -> str | None:
        """The member of an array's rest whose turn comes first; None where nothing is left of it."""
        with self.lock:
            return self._queue.next_of(array)

    def entries_of(self, tenant: str, user_id: int | None = None) -> int:
        """How many entries of the queue a tenant, or one of its users, has."""
        with self.lock:
            return self._queue.entries_of(tenant, user_id)

    def waiting_count(self) -> int:
        with self.lock:
            return len(self._queue)

    def position(self, job: str) -> int:
        """How many jobs of its own class wait before it."""
        with self.lock:
            return self._queue.position(job)


def quota_of(row: Any) -> Quota:
    return Quota(row.nominal_milli, row.borrowing_milli, row.nominal_memory_bytes, row.borrowing_memory_bytes)
