"""Jobs that wait, in classes that differ in nothing which matters to where they may go.

In memory, for `mirror`, which says who goes first in a class and holds the lock. Which class has its turn is the
cycle's to say. The rest of an array is one entry, which yields its members when they have their turn. A class that
nothing has happened to is the same object in the next snapshot: nobody looks at ten thousand of them for one event.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection, Iterator
from itertools import chain, islice

from gpupool.allocations.arrays.references import is_array_id, reference_of
from gpupool.allocations.arrays.rest import Rest
from gpupool.allocations.waiting import Queued
from gpupool.model.gang import Gang
from gpupool.scheduling.snapshot import ClassKey, Waiting

HEADS = 64
"""Jobs of one class that a snapshot names: as many as one plan places."""


class JobQueue:
    """In the order in which classes, and jobs within them, were submitted."""

    def __init__(self) -> None:
        self._classes: OrderedDict[ClassKey, OrderedDict[str, int]] = OrderedDict()
        self._key_of: dict[str, ClassKey] = {}
        self._gangs: dict[str, Gang] = {}
        self._rests: dict[str, Rest] = {}
        self._owner: dict[str, tuple[str, int]] = {}
        self._entries_of: Counter[tuple[str, int] | str] = Counter()
        self._made: dict[ClassKey, Waiting | None] = {}
        """Classes as the last snapshot had them; None for those that have changed since."""
        self._changed: set[ClassKey] = set()

    def __len__(self) -> int:
        return len(self._key_of) + sum(rest.count - 1 for rest in self._rests.values())

    def clear(self) -> None:
        for table in (self._classes, self._key_of, self._gangs, self._rests, self._owner, self._entries_of):
            table.clear()
        self._made.clear()
        self._changed.clear()

    def put(self, item: Queued, *, again: bool = False) -> None:
        """The job waits from now on; `again`: it had its turn once and goes before those of its class."""
        queue = self._classes.setdefault(item.key, OrderedDict())
        self._note_change(item.key)
        queue[item.job] = item.submitted_ns
        queue.move_to_end(item.job, last=not again)
        if item.job not in self._key_of:
            self._owner[item.job] = owner = item.key.tenant, item.user_id
            self._entries_of.update((owner, owner[0]))
        self._key_of[item.job] = item.key
        if item.gang is not None:
            self._gangs[item.gang.id] = item.gang
        if item.rest is not None:
            self._rests[item.job] = item.rest

    def remove(self, job: str) -> ClassKey | None:
        """The job waits no more; the class in which it did, None where it did not. Also of a member, or of a rest."""
        reference = reference_of(job)
        if reference is not None:
            rest = self._rests.get(reference.array)
            if rest is None or not rest.take(reference.index):
                return None
            self._note_change(self._key_of[reference.array])
            return self._key_of[reference.array] if rest.count else self.remove(reference.array)
        key = self._key_of.pop(job, None)
        if key is not None:
            owner = self._owner.pop(job)
            self._entries_of.subtract((owner, owner[0]))
            self._rests.pop(job, None)
            self._classes[key].pop(job, None)
            self._note_change(key)
            if not self._classes[key]:
                del self._classes[key], self._made[key]
                self._changed.discard(key)
                self._gangs.pop(key.gang, None)
        return key

    def entries_of(self, tenant: str, user_id: int | None = None) -> int:
        """Entries of the queue of a tenant, or of one of its users: an array's rest is one."""
        return self._entries_of[tenant if user_id is None else (tenant, user_id)]

    def key_of(self, job: str) -> ClassKey | None:
        reference = reference_of(job)
        if reference is None:
            return self._key_of.get(job)
        rest = self._rests.get(reference.array)
        return self._key_of[reference.array] if rest is not None and rest.has(reference.index) else None

    def key_of_claim(self, claim: str) -> ClassKey | None:
        """Of a job, or of a gang."""
        gang = self._gangs.get(claim)
        members = gang.members if gang is not None else (claim,)
        return next((key for one in members if (key := self.key_of(one)) is not None), None)

    def position(self, job: str) -> int:
        """How many jobs of its own class wait before it."""
        key, reference = self.key_of(job), reference_of(job)
        if key is None:
            return 0
        entry = job if reference is None else reference.array
        before = 0
        for name in self._classes[key]:
            if name == entry:
                break
            before += self._jobs_in(name)
        return before + (0 if reference is None else self._rests[entry].before(reference.index))

    def next_of(self, array: str) -> str | None:
        """The member of an array's rest whose turn comes first; None where nothing is left of it."""
        rest = self._rests.get(array)
        return None if rest is None else next(rest.members(), None)

    def claims(self) -> dict[str, tuple[str, ...]]:
        """By job or gang that waits, the jobs that it is. Nobody was told to leave for a rest: it has no jobs yet."""
        single = {job: (job,) for job, key in self._key_of.items() if not key.gang and job not in self._rests}
        return single | {name: tuple(gang.members) for name, gang in self._gangs.items()}

    def classes(self, first: Collection[str]) -> list[Waiting]:
        """All that waits, as a snapshot has it; `first` are jobs that go before the others of their classes."""
        for changed in self._changed:
            self._made[changed] = self._waiting(changed, ())
        self._changed.clear()
        apart = dict[ClassKey, Waiting | None]()
        for job in first:
            if (key := self._key_of.get(job)) is not None:
                apart[key] = self._waiting(key, first)
        made = {**self._made, **apart} if apart else self._made
        return [one for one in made.values() if one is not None]

    def class_of(self, job: str, first: Collection[str]) -> Waiting | None:
        """The class of one job; None where it does not wait."""
        key = self.key_of(job)
        return None if key is None else self._waiting(key, first)

    def _note_change(self, key: ClassKey) -> None:
        self._made[key] = None
        self._changed.add(key)

    def _jobs_in(self, entry: str) -> int:
        return self._rests[entry].count if entry in self._rests else 1

    def _waiting(self, key: ClassKey, first: Collection[str]) -> Waiting:
        queue, gang = self._classes[key], self._gangs.get(key.gang)
        before = dict.fromkeys(job for job in first if job in queue)
        turns = chain(((job, queue[job]) for job in before), self._turns(queue, before))
        heads = list(islice(turns, None if gang else HEADS))
        count = len(queue) + sum(self._rests[entry].count - 1 for entry in self._arrays_in(queue))
        return Waiting.of(key, [job for job, _ in heads], count, [age for _, age in heads], gang)

    def _turns(self, queue: OrderedDict[str, int], without: Collection[str]) -> Iterator[tuple[str, int]]:
        for entry, submitted_ns in queue.items():
            if entry in self._rests:
                yield from ((member, submitted_ns) for member in self._rests[entry].members())
            elif entry not in without:
                yield entry, submitted_ns

    def _arrays_in(self, queue: OrderedDict[str, int]) -> Iterator[str]:
        """Found by the shorter of the two: most classes have no array, and most pools few arrays."""
        if len(self._rests) < len(queue):
            return (entry for entry in self._rests if entry in queue)
        return (entry for entry in queue if is_array_id(entry) and entry in self._rests)
