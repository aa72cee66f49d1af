"""Seats that jobs hold, and seats that are held for jobs that migrate."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from gpupool.allocations.cache.live_cards import LiveCards
from gpupool.allocations.ledger.running_jobs import SeatHolder
from gpupool.model.allocation import Seat
from gpupool.model.claim import Shape
from gpupool.scheduling import MigrationHold, RunningJob, RunningJobsRegister, SuspendedJob

#: Estimates the seconds that a holder runs in all; None if unknown.
HolderEstimate = Callable[[SeatHolder], int | None]
#: Adds to a running job the labels of the nodes that it may move to.
JobRestriction = Callable[[RunningJob], RunningJob]


class HeldSeats:
    """Jobs with their seats. Not thread-safe: the cache calls it under its lock."""

    def __init__(
        self, cards: LiveCards, estimate: HolderEstimate, restrict: JobRestriction
    ) -> None:
        self._cards = cards
        self._estimate = estimate
        self._restrict = restrict
        self._holders: dict[str, SeatHolder] = {}
        #: The holders as a snapshot has them. A holder with an absent card is not among them.
        self._running = RunningJobsRegister()
        #: The jobs whose seats are empty because they were idle.
        self._suspended: dict[str, SeatHolder] = {}
        #: The new seats of each job that migrates.
        self._migrations: dict[str, tuple[Seat, ...]] = {}

    @property
    def holders(self) -> Mapping[str, SeatHolder]:
        """The jobs that hold seats, by public id."""
        return self._holders

    @property
    def migrating_jobs(self) -> Collection[str]:
        """The jobs for which new seats are held."""
        return self._migrations.keys()

    def load_holders(self, holders: Iterable[SeatHolder]) -> None:
        """Replace all holders."""
        self._holders.clear()
        self._suspended.clear()
        self._running.remove_all()
        self.record_holders(holders)

    def load_migrations(self, migrations: Mapping[str, tuple[Seat, ...]]) -> None:
        """Replace all seats that are held for migrations."""
        self._migrations = dict(migrations)

    def rebuild_running_jobs(self) -> None:
        """Build the running jobs anew, after the rows of cards have changed."""
        self.record_holders(list(self._holders.values()))

    def record_holders(self, holders: Iterable[SeatHolder]) -> None:
        """Note jobs that hold seats from now on, or hold others than before."""
        for holder in holders:
            self._holders[holder.job] = holder
            if holder.is_idle_suspended:
                self._suspended[holder.job] = holder
            else:
                self._suspended.pop(holder.job, None)
            running = holder.build_running_job(
                self._cards.index, self._cards.node_index, self._estimate(holder)
            )
            if running is None:
                # One of its cards is not in the columns; it comes back when the card does.
                self._running.remove_job(holder.job)
            else:
                self._running.put_job(self._restrict(running))

    def remove_holder(self, job: str) -> SeatHolder | None:
        """Remove a job that holds nothing any more; None if it was unknown."""
        self._running.remove_job(job)
        self._suspended.pop(job, None)
        return self._holders.pop(job, None)

    def record_migrations(self, migrations: Mapping[str, tuple[Seat, ...]]) -> None:
        """Hold new seats for these jobs."""
        self._migrations |= migrations

    def drop_migration(self, job: str) -> None:
        """Release what is held for a job; nothing if it does not migrate."""
        self._migrations.pop(job, None)

    def mark_leaving(self, jobs: Iterable[str], leaving_for: Mapping[str, str]) -> list[SeatHolder]:
        """Mark the end of these jobs as requested.

        Args:
            jobs: Public ids; those that hold nothing are left out.
            leaving_for: The beneficiary of those that were evicted for one.

        Returns:
            The holders as they are now.
        """
        leaving = list[SeatHolder]()
        for job in jobs:
            holder = self._holders.get(job)
            if holder is not None:
                beneficiary = leaving_for.get(job, holder.leaving_for)
                leaving.append(replace(holder, leaving=True, leaving_for=beneficiary))
        self.record_holders(leaving)
        return leaving

    def record_checkpoint(self, job: str, saved_ns: int) -> None:
        """Note when a job saved its work."""
        holder = self._holders.get(job)
        if holder is not None:
            self.record_holders([replace(holder, saved_ns=saved_ns)])

    def get_running_jobs(self) -> tuple[RunningJob, ...]:
        """Return the running jobs of a snapshot."""
        return self._running.get_view()

    def list_suspended_jobs(self) -> tuple[SuspendedJob, ...]:
        """List the jobs whose seats are empty because they were idle, as a snapshot has them."""
        found = list[SuspendedJob]()
        for holder in self._suspended.values():
            suspended = holder.build_suspended_job(self._cards.index)
            if suspended is not None:
                found.append(suspended)
        return tuple(found)

    def list_card_owners(self) -> Mapping[int, str]:
        """Return the owner of each card that serves MPS shares, by row."""
        return self._running.list_card_owners()

    def list_owners_by_card(self) -> dict[str, str]:
        """Return the owner of each card that serves MPS shares, by uuid."""
        columns = self._cards.columns
        if columns is None:
            return {}
        return {columns.uuids[row]: owner for row, owner in self.list_card_owners().items()}

    def build_migration_holds(self, shape_of: Callable[[str], Shape | None]) -> list[MigrationHold]:
        """Build the holds of a snapshot.

        Args:
            shape_of: The shape of a job that holds no seats and waits for its new ones.
        """
        holds = list[MigrationHold]()
        for job, seats in self._migrations.items():
            holder = self._holders.get(job)
            shape = shape_of(job) if holder is None else holder.shape
            rows = [self._cards.index.get(seat.device) for seat in seats]
            known = tuple(row for row in rows if row is not None)
            # A card that is absent now may come back: the hold is kept, but no snapshot has it.
            if shape is not None and len(known) == len(seats):
                sizes = tuple(seat.memory_bytes for seat in seats)
                holds.append(MigrationHold(job, shape, known, sizes))
        return holds

    def list_jobs_to_recover(self) -> list[str]:
        """List jobs on cards that are not well, which may start elsewhere and do not leave yet."""
        unhealthy = self._cards.find_unhealthy()
        jobs = list[str]()
        for job, holder in self._holders.items():
            if holder.leaving or not (holder.preemptible or holder.requeue):
                continue
            if any(self._cards.index.get(seat.device, -1) in unhealthy for seat in holder.seats):
                jobs.append(job)
        return jobs
