"""Learns what is likely to be requested next from pods that arrive, get cards and give them back.

The cluster keeps no record of past pods, so a new leader begins with those that exist, oldest
first. An entry that a ledger already holds says nothing about when it was placed: it counts when it
is given back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from gpupool.base.units import WHOLE
from gpupool.kubernetes.resources.gang import is_future_member
from gpupool.kubernetes.resources.gpu_node import Entry
from gpupool.kubernetes.resources.pod import Pod
from gpupool.model.claim import Shape
from gpupool.scheduling import DemandKnowledge, ExpectedDemand


class _PodArrival(NamedTuple):
    created_ns: int
    namespace: str
    name: str
    #: The owner that creates its replacement; its own uid if it has no owner.
    maker: str
    shape: Shape


class DemandStatistics:
    """Statistics of one leader. Arrivals are counted when a snapshot asks for the expected
    demand."""

    def __init__(self) -> None:
        self._knowledge = DemandKnowledge()
        self._told: set[str] = set()
        self._came: list[_PodArrival] = []
        self._began = False

    def note_pod(self, uid: str, pod: Pod | None) -> None:
        """Note a managed pod as it is now (None: deleted). Each pod counts once."""
        if pod is None:
            self._told.discard(uid)
        elif uid not in self._told:
            self._told.add(uid)
            maker = pod.owner or uid
            for number in range(len(pod.asks)):
                shape = pod.shape(number)
                self._came.append(
                    _PodArrival(pod.created_ns, pod.namespace, pod.name, maker, shape)
                )

    def note_entries(self, gone: Iterable[Entry], come: Iterable[Entry]) -> None:
        """Note entries that left a ledger and entries that came. Seats of future members do not
        count."""
        had = _by_key(gone)
        has = _by_key(come)
        for key, entry in has.items():
            # Entries of the first lists say nothing about when their jobs began.
            if self._began and key not in had:
                self._knowledge.record_start(_held_shape(entry))
        for key, entry in had.items():
            if key not in has:
                self._knowledge.record_release(_held_shape(entry))

    def expected_demand(self, cards: int) -> ExpectedDemand:
        """The demand expected now, in a pool of `cards` cards."""
        self._began = True
        self._knowledge.set_capacity(cards * WHOLE)
        # Oldest first, so that a new leader learns from its first list what the last one learned
        # from single events. Pods that one owner creates at once are one submission, like an array.
        jobs_by_submission: Counter[tuple[str, Shape]] = Counter()
        for arrival in sorted(self._came, key=_sort_key):
            jobs_by_submission[arrival.maker, arrival.shape] += 1
        self._came.clear()
        for (_, shape), jobs in jobs_by_submission.items():
            self._knowledge.record_arrival(shape, jobs)
        return self._knowledge.expected_demand


def _sort_key(arrival: _PodArrival) -> tuple[int, str, str]:
    return arrival.created_ns, arrival.namespace, arrival.name


def _by_key(entries: Iterable[Entry]) -> dict[tuple[str, str], Entry]:
    by_key = {}
    for entry in entries:
        if not is_future_member(entry.uid):
            by_key[entry.key] = entry
    return by_key


def _held_shape(entry: Entry) -> Shape:
    """Return the shape of a claim that would get the entry's seats."""
    # The seats of one claim are alike, so the first stands for all.
    return Shape(entry.seats[0].gpu_milli if entry.seats else 0, count=len(entry.seats))
