"""What is likely to be asked for next, learnt from the pods that come, get their cards and give them back.

The cluster keeps no past of pods that are gone, so a new leader begins with those that are there, oldest first. What
stands in ledgers by then says nothing of when it was given out: it counts once it is given back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from gpupool.base.units import WHOLE
from gpupool.kubernetes.gangs import expected
from gpupool.kubernetes.objects import Entry
from gpupool.kubernetes.pods import Pod
from gpupool.model.claim import Shape
from gpupool.scheduling.knowledge import Knowledge
from gpupool.scheduling.snapshot import Expected


class _Came(NamedTuple):
    created_ns: int
    namespace: str
    name: str
    maker: str
    """Who makes another one in its place; itself where nobody does."""
    shape: Shape


class Learning:
    """One leader's. `expected` is asked for each snapshot, and what came until then is learnt at once."""

    def __init__(self) -> None:
        self._knowledge = Knowledge()
        self._told: set[str] = set()
        self._came: list[_Came] = []
        self._began = False

    def note_pod(self, uid: str, pod: Pod | None) -> None:
        """A managed pod as it is now; None: it is gone. Each is learnt from once."""
        if pod is None:
            self._told.discard(uid)
        elif uid not in self._told:
            self._told.add(uid)
            shapes = (pod.shape(number) for number in range(len(pod.asks)))
            self._came += (_Came(pod.created_ns, pod.namespace, pod.name, pod.owner or uid, shape) for shape in shapes)

    def note_entries(self, gone: Iterable[Entry], come: Iterable[Entry]) -> None:
        """These entries left a ledger, those stand there now. Seats of pods that are still to come are nobody's yet."""
        had, has = _by_key(gone), _by_key(come)
        for key, entry in has.items() if self._began else ():
            if key not in had:
                self._knowledge.claim_started(_held(entry))
        for key, entry in had.items():
            if key not in has:
                self._knowledge.claim_gave_back(_held(entry))

    def expected(self, cards: int) -> Expected:
        """As of now, in a pool of so many cards."""
        self._began = True
        self._knowledge.set_capacity(cards * WHOLE)
        # Pods that one owner makes at once are one submission, as an array is.
        alike = Counter((one.maker, one.shape) for one in sorted(self._came, key=_age))
        self._came.clear()
        for (_, shape), jobs in alike.items():
            self._knowledge.claim_came(shape, jobs)
        return self._knowledge.expected


def _age(one: _Came) -> tuple[int, str, str]:
    return one.created_ns, one.namespace, one.name


def _by_key(entries: Iterable[Entry]) -> dict[tuple[str, str], Entry]:
    return {entry.key: entry for entry in entries if not expected(entry.uid)}


def _held(entry: Entry) -> Shape:
    """What it takes of cards, as a claim for it would say; seats of one claim are alike."""
    return Shape(entry.seats[0].gpu_milli if entry.seats else 0, count=len(entry.seats))
