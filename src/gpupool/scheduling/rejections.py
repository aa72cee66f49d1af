"""Why classes wait, of most of them only once somebody asks.

A sentence for each of ten thousand classes takes a second to find, and one event changes most of them: they name what
is free. So of a class that slept the plan keeps what is needed to find it: the pool as the plan leaves it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from gpupool.model.claim import Rejection
from gpupool.scheduling.board import Board
from gpupool.scheduling.gang import Gangs
from gpupool.scheduling.score_binpack import NAME as BINPACK
from gpupool.scheduling.snapshot import ClassKey, Expected, Snapshot, Waiting
from gpupool.scheduling.verdicts import Verdicts
from gpupool.scheduling.work import Work


class Rejections(Mapping[ClassKey, Rejection]):
    """By class, in the order of the snapshot; equal to a dictionary of the same, and as constant as a plan is."""

    def __init__(self, left: Callable[[], Sequence[Waiting]], told: Mapping[ClassKey, Rejection], after: After) -> None:
        """Of the classes of which something is `left`, those that are not `told` are judged when they are asked for."""
        self._left = left
        self._told = dict(told)
        self._after = after
        self.judged: Mapping[ClassKey, Rejection] = dict(told)
        """Those of the classes that the plan itself judged."""

    def __getitem__(self, key: ClassKey) -> Rejection:
        found = self._told.get(key)
        if found is None:
            found = self._told[key] = self._after.judge(self._of_key[key])
        return found

    def __iter__(self) -> Iterator[ClassKey]:
        return iter(self._of_key)

    def __len__(self) -> int:
        return len(self._of_key)

    def __contains__(self, key: object) -> bool:
        return key in self._of_key

    @cached_property
    def _of_key(self) -> Mapping[ClassKey, Waiting]:
        return {one.key: one for one in self._left()}


def judged(rejections: Mapping[ClassKey, Rejection]) -> Mapping[ClassKey, Rejection]:
    """Those of the classes that the plan itself judged: any other would have to be judged now."""
    return rejections.judged if isinstance(rejections, Rejections) else rejections


class After:
    """The pool as a plan leaves it; `placed` is how many claims the plan places. `work` is the plan's, and done."""

    def __init__(self, work: Work, placed: int) -> None:
        self._snapshot = _as_it_is(work)
        self._quotas = work.quotas
        self._placed = placed

    def judge(self, waiting: Waiting) -> Rejection:
        """Why the class waits; of a gang no member runs."""
        return self._verdicts.of(waiting, self._placed)

    @cached_property
    def _verdicts(self) -> Verdicts:
        gangs = Gangs(self._snapshot.waiting, self._snapshot.cards.node)
        work = Work(self._snapshot, Board(self._snapshot))
        work.quotas = self._quotas
        return Verdicts(work, gangs)


def _as_it_is(work: Work) -> Snapshot:
    """With what is free now, and the simplest policy: nothing is placed on it."""
    snapshot, free = work.snapshot, work.free
    hosts = snapshot.cards.hosts and replace(
        snapshot.cards.hosts, free_cpu_milli=free.cpu_milli.copy(), free_memory_bytes=free.host_bytes.copy()
    )
    cards = replace(
        snapshot.cards, free_milli=free.milli.copy(), free_bytes=free.size.copy(), cuts=dict(free.cuts), hosts=hosts
    )
    return replace(snapshot, cards=cards, policy=BINPACK, expected=Expected(), running=())
