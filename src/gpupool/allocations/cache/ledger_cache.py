"""A copy of the ledger in memory, from which every snapshot is built.

The truth is in the database. The copy saves reading ten thousand cards and a hundred thousand
waiting jobs for each plan. A commit is followed by an update here; a plan made before the update is
refused by the generations that it names. Updates carry absolute values with their generation, so
their order does not matter.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.cache.card_columns import read_card_rows
from gpupool.allocations.cache.claim_turns import ClaimTurns
from gpupool.allocations.cache.demand_statistics import DemandStatistics
from gpupool.allocations.cache.held_seats import HeldSeats
from gpupool.allocations.cache.job_queue import JobQueue
from gpupool.allocations.cache.live_cards import LiveCards
from gpupool.allocations.cache.migrations import read_migrations
from gpupool.allocations.cache.pending_jobs import QueueEntry, read_queue
from gpupool.allocations.cache.plane_labels import PlaneLabels
from gpupool.allocations.cache.reservations import read_reservations
from gpupool.allocations.cache.tenant_views import TenantViews
from gpupool.allocations.ledger.cache_updates import CardUpdate, HostUpdate, LedgerChange
from gpupool.allocations.ledger.running_jobs import SeatHolder, read_holders
from gpupool.base.units import WHOLE
from gpupool.model.allocation import Seat
from gpupool.model.claim import Shape
from gpupool.model.reservation import Reservation
from gpupool.model.suspension import USUAL_IDLE_RULES
from gpupool.scheduling import (
    DEFAULT_POLICY,
    ClassKey,
    PolicyFault,
    Snapshot,
    WaitingClass,
    replace_suspended,
)


class LedgerCache:
    """Cards, tenants, reservations, and jobs that wait or hold seats. Thread-safe.

    It owns the one lock of the parts, so that a snapshot never sees half of a commit.
    A method takes microseconds to a few milliseconds; only the `load` methods read the database.
    """

    def __init__(self, policy: str = DEFAULT_POLICY, clock: Callable[[], int] = lambda: 0) -> None:
        # Reentrant: a reading is done under the lock by `placement.cache_refresh`, too.
        self.lock = threading.RLock()
        self.policy = policy
        self.idle_rules = USUAL_IDLE_RULES
        self._queue = JobQueue()
        self.budgets = self._queue.budgets
        self.waits = self._queue.waits
        self._cards = LiveCards()
        self._tenants = TenantViews(clock)
        self.planes = PlaneLabels()
        self._held = HeldSeats(self._cards, self._estimate_holder, self.planes.restrict_running)
        self._turns = ClaimTurns(self._queue, clock)
        self._reservations: tuple[Reservation, ...] = ()
        self._statistics = DemandStatistics()
        #: Grows with every change, so that a snapshot says what it knew.
        self.generation = 0

    # --- reading the truth -------------------------------------------------------------

    def load(self, connection: sa.Connection, now_ns: int) -> None:
        """Read everything: at start, and when a plan was stale twice."""
        with self.lock:
            self.load_cards(connection)
            # Before the tenants, whose holdings continue it.
            self._tenants.usage.load(connection)
            self.load_tenants(connection)
            self.load_reservations(connection)
            before = dict(self._held.holders) if self._statistics.is_loaded else None
            if before is None:
                # Before the queue, whose entries have estimated runtimes.
                self._statistics.load(connection, now_ns)
            self.load_queue(connection)
            self._held.load_holders(read_holders(connection))
            self.generation += 1
            if before is not None:
                # The statistics are not read again: they learn only what no update reported.
                self._statistics.record_differences(before, self._held.holders)
            self._turns.load(connection, self._held.holders.values(), now_ns)
            self._held.load_migrations(read_migrations(connection))

    def load_cards(self, connection: sa.Connection) -> None:
        """Read the cards and hosts, and which tenants' planes are in force on them."""
        with self.lock:
            self.planes.load(connection)
            self._cards.load_rows(read_card_rows(connection), self.planes.node_labels)
            self._statistics.set_capacity(WHOLE * len(self._cards.index))
            self._tenants.record_pool_size(self._cards.columns)
            self._held.rebuild_running_jobs()
            self.generation += 1

    def load_queue(self, connection: sa.Connection) -> None:
        """Read the jobs that wait."""
        with self.lock:
            self._queue.clear()
            self.enqueue_jobs(read_queue(connection, self.estimate_seconds))

    def load_reservations(self, connection: sa.Connection) -> None:
        """Read the reservations anew."""
        with self.lock:
            self._reservations = read_reservations(connection)
            self.generation += 1

    def load_tenants(self, connection: sa.Connection) -> None:
        """Read the tenants and the quota tree anew."""
        with self.lock:
            self._tenants.load(connection, self._cards.columns)
            self.generation += 1

    # --- notes after a commit ------------------------------------------------------------

    def enqueue_jobs(self, waiting: Iterable[QueueEntry], *, again: bool = False) -> None:
        """Add jobs that wait; with `again`, ahead of their classes because they had their turn."""
        with self.lock:
            self.generation += 1
            for item in waiting:
                entry = self.planes.restrict_entry(item)
                self._queue.add_entry(entry, self.generation, again=again)

    def dequeue_jobs(self, jobs: Iterable[str]) -> None:
        """Remove jobs that no longer wait."""
        with self.lock:
            for job in jobs:
                self._held.drop_migration(job)
                if (key := self._queue.remove_job(job)) is not None:
                    self._turns.remove_claim(key.gang or job)
            self.generation += 1

    def record_created_members(self, made: Iterable[str]) -> None:
        """Remove members of arrays, by reference, that have become jobs, from their rests."""
        with self.lock:
            for reference in made:
                self._queue.remove_job(reference)
            self.generation += 1

    def apply_change(self, granted: LedgerChange) -> None:
        """Apply all that one transaction changed of cards, hosts, tenants and jobs."""
        with self.lock:
            self.record_created_members(granted.made)
            self.record_cards(granted.cards)
            self.record_hosts(granted.hosts)
            for row in granted.tenants:
                self.record_tenant(row)
            self.record_released_jobs(granted.returned)
            for holder in granted.held:
                # A resize names a holder that is known: it is no start.
                if holder.job not in self._held.holders:
                    self._statistics.record_start(holder.shape)
            self.record_holders(granted.held)

    def record_cards(self, notes: Iterable[CardUpdate]) -> None:
        """Note what is allocated of cards."""
        with self.lock:
            self._cards.record_cards(notes)
            self.generation += 1

    def record_hosts(self, notes: Iterable[HostUpdate]) -> None:
        """Note what is allocated of nodes' processors and main memory."""
        with self.lock:
            self._cards.record_hosts(notes)
            self.generation += 1

    def record_holders(self, held: Iterable[SeatHolder]) -> None:
        """Note jobs that hold seats from now on, or hold others than before."""
        with self.lock:
            holders = list(held)
            self._held.record_holders(holders)
            self._turns.record_holders(holders)
            self.generation += 1

    def record_leaving_jobs(
        self, jobs: Iterable[str], leaving_for: Mapping[str, str] = MappingProxyType({})
    ) -> list[str]:
        """Note jobs whose end was requested: they need not be preempted any more.

        Args:
            jobs: The jobs.
            leaving_for: The beneficiary of those that were evicted for one.

        Returns:
            Their tenants.
        """
        with self.lock:
            leaving = self._held.mark_leaving(jobs, leaving_for)
            self.generation += 1
            self._turns.record_evictions(leaving_for)
            return [holder.tenant for holder in leaving]

    def record_runtime(self, job: str, seconds: int) -> None:
        """Note that a job that held seats came to its own end after that many seconds."""
        with self.lock:
            if (held := self._held.holders.get(job)) is not None:
                self._statistics.record_runtime(held.tenant, held.name, held.shape, seconds)

    def record_migrations(self, moving: Mapping[str, tuple[Seat, ...]]) -> None:
        """Note jobs that leave their seats for the given ones."""
        with self.lock:
            self._held.record_migrations(moving)
            self.record_leaving_jobs(moving, {job: job for job in moving})

    def drop_migrations(self, jobs: Iterable[str]) -> None:
        """Drop the holds of jobs that have ended."""
        with self.lock:
            for job in jobs:
                self._held.drop_migration(job)

    def record_claim(self, shape: Shape, count: int) -> None:
        """Count an accepted claim in the demand statistics."""
        with self.lock:
            self._statistics.record_claim(shape, count)

    def record_checkpoint(self, job: str, saved_ns: int) -> None:
        """Note when a job saved its work: its eviction would lose only what came after."""
        with self.lock:
            self._held.record_checkpoint(job, saved_ns)
            self.generation += 1

    def record_released_jobs(self, jobs: Iterable[str]) -> None:
        """Note jobs that hold nothing any more."""
        with self.lock:
            for job in jobs:
                holder = self._held.remove_holder(job)
                if holder is not None:
                    self._statistics.record_release(holder.shape)
                # Its seats are kept for its beneficiary for a while from now on.
                self._turns.record_departure(job)
            self.generation += 1

    def record_tenant(self, row: Any) -> None:
        """Note a row of `tenants` as it was written. An older generation is ignored."""
        with self.lock:
            self._tenants.record_row(row, self._cards.columns)
            self.generation += 1

    # --- answers -------------------------------------------------------------------------

    def build_snapshot(self, extra: WaitingClass | None = None) -> Snapshot:
        """Return a frozen snapshot.

        Args:
            extra: A claim that is not in the queue, or not yet.
        """
        with self.lock:
            waiting = self._queue.build_classes(self._list_jobs_with_holds())
            if extra is not None:
                waiting.append(extra)
            snapshot = Snapshot(
                self.generation,
                self._cards.copy_columns(self._held.list_card_owners()),
                self._tenants.build_views(),
                tuple(waiting),
                self.policy,
                self._held.get_running_jobs(),
                self._reservations,
                self._statistics.expected_demand,
                cohorts=self._tenants.cohorts,
                migration_holds=tuple(self._held.build_migration_holds(self._find_waiting_shape)),
                beneficiaries=self._turns.list_claims(),
                idle_rules=self.idle_rules,
            )
            suspended = self._held.list_suspended_jobs()
            return replace_suspended(snapshot, suspended) if suspended else snapshot

    def _find_waiting_shape(self, job: str) -> Shape | None:
        key = self._queue.find_class_key(job)
        return None if key is None else key.shape

    def _list_jobs_with_holds(self) -> tuple[str, ...]:
        # They lead their classes: a job that waits for room must not leave held seats idle.
        return (*self._held.migrating_jobs, *self._turns.list_claims())

    def estimate_seconds(
        self, tenant: str, name: str, shape: Shape, limit: int | None
    ) -> int | None:
        """Estimate the runtime of a job in seconds: its limit, else the past; None if unknown."""
        with self.lock:
            return self._statistics.estimate_seconds(tenant, name, shape, limit)

    def _estimate_holder(self, holder: SeatHolder) -> int | None:
        return self._statistics.estimate_seconds(
            holder.tenant, holder.name, holder.shape, holder.max_seconds
        )

    @property
    def statistics_fault(self) -> PolicyFault | None:
        """What could not be read of the demand statistics; None if all could."""
        with self.lock:
            return self._statistics.fault

    def list_reservations(self) -> tuple[Reservation, ...]:
        """Return the reservations that have not ended."""
        with self.lock:
            return self._reservations

    def list_card_owners(self) -> dict[str, str]:
        """List the owner of each card that serves MPS clients, by uuid."""
        with self.lock:
            return self._held.list_owners_by_card()

    def list_jobs_to_recover(self) -> list[str]:
        """List jobs on cards that are not well, which may start elsewhere and do not leave yet."""
        with self.lock:
            return self._held.list_jobs_to_recover()

    def find_waiting_class(self, job: str) -> WaitingClass | None:
        """Return the class of a job as a snapshot has it; None if it does not wait."""
        with self.lock:
            return self._queue.build_class(job, self._list_jobs_with_holds())

    def find_class_key(self, job: str, planned: int | None = None) -> ClassKey | None:
        """Return the key of a job's class as `JobQueue.find_class_key` does."""
        with self.lock:
            return self._queue.find_class_key(job, planned)

    def find_claim_key(self, claim: str) -> ClassKey | None:
        """Return the key of the class in which a job or a gang waits; None if it does not wait."""
        with self.lock:
            return self._queue.find_claim_key(claim)

    def find_next_member(self, array: str) -> str | None:
        """Find the next member of an array's rest; None if the rest is empty."""
        with self.lock:
            return self._queue.find_next_member(array)

    def count_entries(self, tenant: str, user_id: int | None = None) -> int:
        """Count the queue entries of a tenant, or of one of its users."""
        with self.lock:
            return self._queue.count_entries(tenant, user_id)

    def count_waiting(self) -> int:
        """Count the jobs that wait."""
        with self.lock:
            return len(self._queue)

    def count_jobs_ahead(self, job: str) -> int:
        """Count the jobs of its own class that wait ahead of a job."""
        with self.lock:
            return self._queue.count_jobs_ahead(job)
