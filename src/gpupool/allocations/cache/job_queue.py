"""The waiting jobs in classes, whose jobs are alike in all that matters to placement.

In memory, for `ledger_cache`, which holds the lock and names the jobs that lead their classes. The
cycle decides which class has its turn. The rest of an array is one entry, which yields its members
when they have their turn. A class without a change is the same object in the next snapshot, so an
event costs one class and not ten thousand.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection, Iterator
from itertools import chain, islice

from gpupool.allocations.arrays.references import is_array_id, parse_reference
from gpupool.allocations.arrays.rest import ArrayRest
from gpupool.allocations.budgeting.holds import BudgetHolds
from gpupool.allocations.cache.pending_jobs import QueueEntry
from gpupool.allocations.cache.start_waits import StartWaits
from gpupool.model.gang import Gang
from gpupool.scheduling import ClassKey, WaitingClass

#: Jobs of one class that a snapshot names: as many as one plan places.
HEADS = 64


class JobQueue:
    """Waiting jobs by class, in the order of their submission. Not thread-safe."""

    def __init__(self) -> None:
        self._classes: OrderedDict[ClassKey, OrderedDict[str, int]] = OrderedDict()
        self._key_of: dict[str, ClassKey] = {}
        #: By gang id.
        self._gangs: dict[str, Gang] = {}
        #: By array id, which is also the name of the entry.
        self._rests: dict[str, ArrayRest] = {}
        #: Tenant and user of each entry.
        self._owner: dict[str, tuple[str, int]] = {}
        #: Entries by owner, and by tenant alone, for the limits of the queue.
        self._entries_of: Counter[tuple[str, int] | str] = Counter()
        #: By entry, the generation that a plan must have to be about it; `_former` is what a reading
        #: of the whole queue replaced, until the next snapshot.
        self._generations: dict[str, int] = {}
        self._former: dict[str, int] = {}
        #: Classes as the last snapshot had them; None for those that have changed since.
        self._made: dict[ClassKey, WaitingClass | None] = {}
        #: What waits for a budget is in no class.
        self.budgets = BudgetHolds()
        #: What may not start yet is in no class either.
        self.waits = StartWaits()
        self._changed: set[ClassKey] = set()

    def __len__(self) -> int:
        return len(self._key_of) + sum(rest.count - 1 for rest in self._rests.values())

    def clear(self) -> None:
        for table in (
            self._classes,
            self._key_of,
            self._gangs,
            self._rests,
            self._owner,
            self._entries_of,
        ):
            table.clear()
        self.budgets.clear_entries()
        self.waits.clear_entries()
        # What waited before a new reading has been looked at before.
        self._former |= self._generations
        self._generations = {}
        self._made.clear()
        self._changed.clear()

    def add_entry(self, item: QueueEntry, generation: int = 0, *, again: bool = False) -> None:
        """Add a job or a rest; with `again`, ahead of its class because it had its turn once."""
        if self.waits.keep_entry(item) or self.budgets.keep_entry(item):
            return
        planned = generation if item.planned is None else item.planned
        self._generations[item.job] = self._former.get(item.job, planned)
        queue = self._classes.setdefault(item.key, OrderedDict())
        self._note_change(item.key)
        queue[item.job] = item.submitted_ns
        queue.move_to_end(item.job, last=not again)
        # A job that is added again, as by a repeated note, counts once.
        if item.job not in self._key_of:
            self._owner[item.job] = owner = item.key.tenant, item.user_id
            self._entries_of.update((owner, owner[0]))
        self._key_of[item.job] = item.key
        if item.gang is not None:
            self._gangs[item.gang.id] = item.gang
        if item.rest is not None:
            self._rests[item.job] = item.rest

    def remove_job(self, job: str) -> ClassKey | None:
        """Remove a job, a member or a rest.

        Returns:
            The class in which it waited; None if it did not wait.
        """
        if self.waits.remove_entry(job):
            return None
        reference = parse_reference(job)
        if reference is not None:
            self.budgets.remove_entry(job)
            rest = self._rests.get(reference.array)
            if rest is None or not rest.take_index(reference.index):
                return None
            key_of_rest = self._key_of[reference.array]
            self._note_change(key_of_rest)
            # The entry of an array goes with its last member.
            return key_of_rest if rest.count else self.remove_job(reference.array)
        self.budgets.remove_entry(job)
        key = self._key_of.pop(job, None)
        if key is not None:
            owner = self._owner.pop(job)
            self._entries_of.subtract((owner, owner[0]))
            self._rests.pop(job, None)
            del self._generations[job]
            self._classes[key].pop(job, None)
            self._note_change(key)
            if not self._classes[key]:
                del self._classes[key], self._made[key]
                self._changed.discard(key)
                self._gangs.pop(key.gang, None)
        return key

    def count_entries(self, tenant: str, user_id: int | None = None) -> int:
        """Count the entries of a tenant, or of one of its users. A rest is one entry."""
        owner = tenant if user_id is None else (tenant, user_id)
        kept = self.budgets.count_entries(owner) + self.waits.count_entries(owner)
        return self._entries_of[owner] + kept

    def find_class_key(self, job: str, planned: int | None = None) -> ClassKey | None:
        """Return the class in which a job waits; None if it does not wait.

        Args:
            planned: generation of a plan; None also if it is not about the job.
        """
        reference = parse_reference(job)
        entry = job if reference is None else reference.array
        if planned is not None and self._generations.get(entry, planned) > planned:
            return None
        if reference is None:
            return self._key_of.get(job)
        rest = self._rests.get(reference.array)
        return (
            self._key_of[reference.array]
            if rest is not None and rest.has_index(reference.index)
            else None
        )

    def find_claim_key(self, claim: str) -> ClassKey | None:
        """Return the class in which a job or a gang waits; None if it does not wait."""
        gang = self._gangs.get(claim)
        members = gang.members if gang is not None else (claim,)
        for job in members:
            key = self.find_class_key(job)
            if key is not None:
                return key
        return None

    def count_jobs_ahead(self, job: str) -> int:
        """Count the jobs of its own class that wait ahead of a job."""
        key = self.find_class_key(job)
        reference = parse_reference(job)
        if key is None:
            return 0
        entry = job if reference is None else reference.array
        before = 0
        for name in self._classes[key]:
            if name == entry:
                break
            before += self._count_jobs(name)
        return before + (
            0 if reference is None else self._rests[entry].count_before(reference.index)
        )

    def find_next_member(self, array: str) -> str | None:
        """Return the member of an array's rest that is next; None if the rest is empty."""
        rest = self._rests.get(array)
        rest = rest or self.waits.find_rest(array) or self.budgets.find_rest(array)
        return None if rest is None else next(rest.list_members(), None)

    def list_claims(self) -> dict[str, tuple[str, ...]]:
        """Return the jobs of each waiting job or gang, without rests: they have no jobs yet."""
        claims = dict[str, tuple[str, ...]]()
        for job, key in self._key_of.items():
            if not key.gang and job not in self._rests:
                claims[job] = (job,)
        for name, gang in self._gangs.items():
            claims[name] = tuple(gang.members)
        return claims

    def build_classes(self, first: Collection[str]) -> list[WaitingClass]:
        """Build the waiting classes of a snapshot; jobs in `first` lead their classes."""
        self._former.clear()
        for changed in self._changed:
            self._made[changed] = self._build_waiting(changed, ())
        self._changed.clear()
        # Classes with leading jobs are built for this snapshot alone: who leads changes with time.
        leading = dict[ClassKey, WaitingClass | None]()
        for job in first:
            if (key := self._key_of.get(job)) is not None:
                leading[key] = self._build_waiting(key, first)
        made = {**self._made, **leading} if leading else self._made
        return [waiting for waiting in made.values() if waiting is not None]

    def build_class(self, job: str, first: Collection[str]) -> WaitingClass | None:
        """Build the class of one job; None if it does not wait."""
        key = self.find_class_key(job)
        return None if key is None else self._build_waiting(key, first)

    def _note_change(self, key: ClassKey) -> None:
        self._made[key] = None
        self._changed.add(key)

    def _count_jobs(self, entry: str) -> int:
        return self._rests[entry].count if entry in self._rests else 1

    def _build_waiting(self, key: ClassKey, first: Collection[str]) -> WaitingClass:
        queue = self._classes[key]
        gang = self._gangs.get(key.gang)
        leading = dict.fromkeys(job for job in first if job in queue)
        turns = chain(((job, queue[job]) for job in leading), self._list_turns(queue, leading))
        # A gang is named whole, because it is placed whole.
        heads = list(islice(turns, None if gang else HEADS))
        count = len(queue)
        for array in self._list_arrays(queue):
            count += self._rests[array].count - 1
        jobs = [job for job, _ in heads]
        ages = [submitted_ns for _, submitted_ns in heads]
        return WaitingClass.build(key, jobs, count, ages, gang)

    def _list_turns(
        self, queue: OrderedDict[str, int], without: Collection[str]
    ) -> Iterator[tuple[str, int]]:
        for entry, submitted_ns in queue.items():
            if entry in self._rests:
                for member in self._rests[entry].list_members():
                    yield member, submitted_ns
            elif entry not in without:
                yield entry, submitted_ns

    def _list_arrays(self, queue: OrderedDict[str, int]) -> Iterator[str]:
        # Found by the shorter of the two: most classes have no array, and most pools few arrays.
        if len(self._rests) < len(queue):
            return (entry for entry in self._rests if entry in queue)
        return (entry for entry in queue if is_array_id(entry) and entry in self._rests)
