"""Jobs that wait, in classes that differ in nothing which matters to where they may go.

In memory, for `mirror`, which says who goes first in a class and holds the lock. Which class has its turn is the
cycle's to say.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from itertools import chain, islice

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

    def __len__(self) -> int:
        return len(self._key_of)

    def clear(self) -> None:
        self._classes.clear()
        self._key_of.clear()
        self._gangs.clear()

    def put(self, item: Queued, *, again: bool = False) -> None:
        """The job waits from now on; `again`: it had its turn once and goes before those of its class."""
        queue = self._classes.setdefault(item.key, OrderedDict())
        queue[item.job] = item.submitted_ns
        queue.move_to_end(item.job, last=not again)
        self._key_of[item.job] = item.key
        if item.gang is not None:
            self._gangs[item.gang.id] = item.gang

    def remove(self, job: str) -> ClassKey | None:
        """The job waits no more; the class in which it did, None where it did not."""
        key = self._key_of.pop(job, None)
        if key is not None:
            self._classes[key].pop(job, None)
            if not self._classes[key]:
                del self._classes[key]
                self._gangs.pop(key.gang, None)
        return key

    def key_of(self, job: str) -> ClassKey | None:
        return self._key_of.get(job)

    def position(self, job: str) -> int:
        """How many jobs of its own class wait before it."""
        key = self._key_of.get(job)
        return 0 if key is None else next(n for n, other in enumerate(self._classes[key]) if other == job)

    def claims(self) -> dict[str, tuple[str, ...]]:
        """By job or gang that waits, the jobs that it is."""
        single = {job: (job,) for job, key in self._key_of.items() if not key.gang}
        return single | {name: tuple(gang.members) for name, gang in self._gangs.items()}

    def classes(self, first: Collection[str]) -> list[Waiting]:
        """All that waits, as a snapshot has it; `first` are jobs that go before the others of their classes."""
        return [self._waiting(key, first) for key in self._classes]

    def class_of(self, job: str, first: Collection[str]) -> Waiting | None:
        """The class of one job; None where it does not wait."""
        key = self._key_of.get(job)
        return None if key is None else self._waiting(key, first)

    def _waiting(self, key: ClassKey, first: Collection[str]) -> Waiting:
        queue, gang = self._classes[key], self._gangs.get(key.gang)
        before = dict.fromkeys(job for job in first if job in queue)
        others = (job for job in queue if job not in before)
        heads = tuple(islice(chain(before, others), None if gang else HEADS))
        ages = tuple(queue[job] for job in heads)
        return Waiting.of(key, heads, len(queue), ages, gang)
