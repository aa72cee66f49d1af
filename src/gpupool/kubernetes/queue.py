"""Managed pods that wait for cards, in classes of equal rank, tenant and shape, as a snapshot wants them.

A pod whose containers each have cards is one claim for each of them: a gang on one node. Where a pod may go is part of
its shape, as a label that no Node has.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from gpupool.kubernetes import gangs, names
from gpupool.kubernetes.amounts import KINDS
from gpupool.kubernetes.objects import Entry
from gpupool.kubernetes.pods import Pod
from gpupool.kubernetes.rules import Rule
from gpupool.model.claim import Shape
from gpupool.scheduling.snapshot import ClassKey, Waiting

HEADS = 256
"""Pods of one class that a snapshot names: as many as one plan places. A write of a ledger costs by all that stands
there, so fewer and larger plans are cheaper; each is a few hundredths of a second."""


class Present(NamedTuple):
    """Of a gang: the entries of members that have their cards and stay, how many of its pods are over, and since when
    the first of those members is there (0: none is)."""

    entered: Mapping[str, Sequence[Entry]]
    over: int
    began_ns: int = 0


class _Line:
    """Pods of one class, oldest first. One more costs a search: thousands may come one by one, each with a plan."""

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self._order: list[tuple[int, str, str, str]] = []

    def __len__(self) -> int:
        return len(self.pods)

    def put(self, pod: Pod) -> None:
        self.pods[pod.uid] = pod
        insort(self._order, _place(pod))

    def remove(self, uid: str) -> None:
        del self._order[bisect_left(self._order, _place(self.pods.pop(uid)))]

    def first(self, count: int) -> tuple[Pod, ...]:
        return tuple(self.pods[uid] for *_, uid in self._order[:count])


class PodQueue:
    """Oldest first within a class, by creation and then by name."""

    def __init__(self, rule_of: Callable[[Pod], Rule] = lambda pod: pod.constraint) -> None:
        self._rule_of = rule_of
        self._queue: dict[ClassKey, _Line] = {}
        self._gangs: dict[str, dict[str, Pod]] = {}
        self._tenant: dict[str, str] = {}
        self._key: dict[str, ClassKey | str] = {}
        """By pod its class, or its gang."""
        self._tenant_of: dict[str, str] = {}
        """By pod."""
        self._pods_of_tenant: Counter[str] = Counter()
        self._come: dict[ClassKey | str, None] = {}
        """Classes, and gangs by name, that a pod has come to since they were settled."""
        self._made: dict[ClassKey, Waiting | None] = {}
        self._made_gangs: dict[str, Waiting | None] = {}
        """Both as the last snapshot had them; a gang whose members all have cards is nothing there."""
        self._changed = set[ClassKey]()
        self._changed_gangs = set[str]()
        self.marks: dict[Rule, str] = {}
        """By rule, the label of the nodes that it admits."""

    def __len__(self) -> int:
        return len(self._key)

    def __contains__(self, uid: str) -> bool:
        return uid in self._key

    def put(self, pod: Pod, tenant: str) -> None:
        """The pod waits; one that waits already is read anew."""
        self.remove(pod.uid)
        self._tenant_of[pod.uid] = tenant
        self._pods_of_tenant[tenant] += 1
        if pod.gang:
            self._gangs.setdefault(pod.gang, {})[pod.uid] = pod
            self._tenant[pod.gang], self._key[pod.uid] = tenant, pod.gang
            self._note_gang(pod.gang)
            self._come[pod.gang] = None
            return
        name = pod.uid if len(pod.asks) > 1 else ""
        shape, reservation = self.shapes(pod)[0], pod.reservation or None
        key = ClassKey(tenant, pod.priority, shape, pod.max_seconds, name, reservation, pod.preemptible)
        self._queue.setdefault(key, _Line()).put(pod)
        self._key[pod.uid] = key
        self._note_class(key)
        self._come[key] = None

    def remove(self, uid: str) -> None:
        """The pod does not wait any more; nothing where it did not."""
        key = self._key.pop(uid, None)
        if key is not None:
            self._pods_of_tenant[self._tenant_of.pop(uid)] -= 1
        if isinstance(key, str):
            del self._gangs[key][uid]
            self._note_gang(key)
            if not self._gangs[key]:
                del self._gangs[key], self._tenant[key], self._made_gangs[key]
                self._changed_gangs.discard(key)
                self._come.pop(key, None)
        elif key is not None:
            self._queue[key].remove(uid)
            self._note_class(key)
            if not self._queue[key]:
                del self._queue[key], self._made[key]
                self._changed.discard(key)
                self._come.pop(key, None)

    def find(self, uid: str) -> Pod | None:
        """The pod as it waits; None where it does not."""
        key = self._key.get(uid)
        if key is None:
            return None
        return self._gangs[key][uid] if isinstance(key, str) else self._queue[key].pods[uid]

    def uids(self) -> list[str]:
        """Everybody who waits."""
        return list(self._key)

    def pods_of(self, key: ClassKey) -> Iterator[Pod]:
        """Everybody in a class, or in a gang."""
        line = self._queue.get(key)
        yield from (self._gangs.get(key.gang) or (line.pods if line else {})).values()

    def by_tenant(self) -> Mapping[str, int]:
        """How many pods of each tenant wait."""
        return +self._pods_of_tenant

    def has_gang(self, name: str) -> bool:
        """Whether somebody of the gang waits."""
        return name in self._gangs

    def gang_names(self) -> list[str]:
        """Gangs of which somebody waits."""
        return list(self._gangs)

    def come_first(self, count: int) -> list[ClassKey]:
        """So many of the classes and gangs that a pod has come to, in that order, as the last snapshot had them."""
        known = (self._known(one) for one in self._come)
        return list(islice((key for key in known if key is not None), count))

    def settle(self, keys: Iterable[ClassKey]) -> None:
        """Whoever comes to them comes anew."""
        for key in keys:
            self._come.pop(key, None)
            self._come.pop(key.gang, None)

    def keys(self) -> list[ClassKey]:
        """Every class and every gang, as the last snapshot had them."""
        return [*self._queue, *(one.key for one in self._made_gangs.values() if one is not None)]

    def _known(self, one: ClassKey | str) -> ClassKey | None:
        if not isinstance(one, str):
            return one
        made = self._made_gangs[one]
        return None if made is None else made.key

    def oldest_of(self, name: str) -> Pod:
        """Of the gang's members that wait."""
        return min(self._gangs[name].values(), key=_age)

    def gang(self, name: str) -> list[Pod]:
        """Members that wait, oldest first."""
        return sorted(self._gangs.get(name, {}).values(), key=_age)

    def waiting(
        self,
        present: Callable[[str], Present],
        takes: gangs.Takes = lambda *_: True,
        begun: AbstractSet[str] | None = None,
    ) -> tuple[Waiting, ...]:
        """Every class and every gang, as a snapshot has it; `takes`: whether a seat that is kept is one for the pod.

        One that nothing has happened to is the same object as before. `begun` are gangs of which somebody had cards,
        which are looked at each time; all of them, where that is not known.
        """
        for key in self._changed:
            self._made[key] = self._class(key)
        self._changed.clear()
        begun = self._gangs.keys() & (self._gangs.keys() if begun is None else begun)
        for name in self._changed_gangs | begun:
            self._made_gangs[name] = self._waiting_gang(name, present(name), takes)
        self._changed_gangs = set(begun)  # also once they are not any more
        return tuple(one for made in (self._made, self._made_gangs) for one in made.values() if one is not None)

    def _note_class(self, key: ClassKey) -> None:
        self._made[key] = None
        self._changed.add(key)

    def _note_gang(self, name: str) -> None:
        self._made_gangs[name] = None
        self._changed_gangs.add(name)

    def shapes(self, pod: Pod) -> tuple[Shape, ...]:
        """What the scheduler is asked, per container."""
        rule = self._rule_of(pod)
        label = self.marks.get(rule) or self.marks.setdefault(rule, mark_of(rule))
        return tuple(_marked(pod.shape(number), label) for number in range(len(pod.asks)))

    def _class(self, key: ClassKey) -> Waiting:
        pods = self._queue[key].first(HEADS)
        gang = gangs.of_one_pod(pods[0], self.shapes(pods[0])) if key.gang else None
        heads = gang.members if gang else tuple(gangs.job_name(pod.uid, pod.asks[0].container) for pod in pods)
        ages = (pods[0].created_ns,) * len(heads) if gang else tuple(pod.created_ns for pod in pods)
        count = len(heads) if gang else len(self._queue[key])
        return Waiting.of(key, heads, count, ages, gang)

    def _waiting_gang(self, name: str, present: Present, takes: gangs.Takes) -> Waiting | None:
        pods = self.gang(name)
        shapes = {pod.uid: self.shapes(pod) for pod in pods}
        return gangs.waiting_gang(name, self._tenant[name], pods, shapes, *present, takes)


@lru_cache(KINDS)
def _marked(shape: Shape, label: str) -> Shape:
    return replace(shape, labels=((label, ""),))


def mark_of(rule: Rule) -> str:
    """A label for the nodes that the rule admits: the same in every process."""
    return names.ELIGIBLE + hashlib.sha256(repr(rule).encode()).hexdigest()[:16]


def _place(pod: Pod) -> tuple[int, str, str, str]:
    return *_age(pod), pod.uid


def _age(pod: Pod) -> tuple[int, str, str]:
    return pod.created_ns, pod.namespace, pod.name
