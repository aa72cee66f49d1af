"""Managed pods that wait for cards, in classes of equal rank, tenant and shape, as a snapshot wants them.

A pod whose containers each have cards is one claim for each of them: a gang on one node. Where a pod may go is part of
its shape, as a label that no Node has.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
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
        self.marks: dict[Rule, str] = {}
        """By rule, the label of the nodes that it admits."""

    def __len__(self) -> int:
        return len(self._key)

    def __contains__(self, uid: str) -> bool:
        return uid in self._key

    def put(self, pod: Pod, tenant: str) -> None:
        """The pod waits; one that waits already is read anew."""
        self.remove(pod.uid)
        if pod.gang:
            self._gangs.setdefault(pod.gang, {})[pod.uid] = pod
            self._tenant[pod.gang], self._key[pod.uid] = tenant, pod.gang
            return
        name = pod.uid if len(pod.asks) > 1 else ""
        shape, reservation = self.shapes(pod)[0], pod.reservation or None
        key = ClassKey(tenant, pod.priority, shape, pod.max_seconds, name, reservation, pod.preemptible)
        self._queue.setdefault(key, _Line()).put(pod)
        self._key[pod.uid] = key

    def remove(self, uid: str) -> None:
        """The pod does not wait any more; nothing where it did not."""
        key = self._key.pop(uid, None)
        if isinstance(key, str):
            del self._gangs[key][uid]
            if not self._gangs[key]:
                del self._gangs[key], self._tenant[key]
        elif key is not None:
            self._queue[key].remove(uid)
            if not self._queue[key]:
                del self._queue[key]

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
        found: Counter[str] = Counter()
        for key, line in self._queue.items():
            found[key.tenant] += len(line)
        for name, pods in self._gangs.items():
            found[self._tenant[name]] += len(pods)
        return found

    def gang_names(self) -> list[str]:
        """Gangs of which somebody waits."""
        return list(self._gangs)

    def gang(self, name: str) -> list[Pod]:
        """Members that wait, oldest first."""
        return sorted(self._gangs.get(name, {}).values(), key=_age)

    def waiting(self, present: Callable[[str], Present], takes: gangs.Takes = lambda *_: True) -> tuple[Waiting, ...]:
        """Every class and every gang, as a snapshot has it; `takes`: whether a seat that is kept is one for the pod."""
        found = (self._waiting_gang(name, present(name), takes) for name in self._gangs)
        return (*map(self._class, self._queue), *(gang for gang in found if gang is not None))

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
