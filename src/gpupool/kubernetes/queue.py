"""Managed pods that wait for cards, in classes of equal rank, tenant and shape, as a snapshot wants them.

A pod whose containers each have cards is one claim for each of them: a gang on one node. Where a pod may go is part of
its shape, as a label that no Node has.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from gpupool.kubernetes import gangs, names
from gpupool.kubernetes.objects import Entry
from gpupool.kubernetes.pods import Pod
from gpupool.kubernetes.rules import Rule
from gpupool.model.claim import Shape
from gpupool.scheduling.snapshot import ClassKey, Waiting

HEADS = 64
"""Pods of one class that a snapshot names: as many as one plan places."""


class Present(NamedTuple):
    """Of a gang: the entries of members that have their cards, and how many of its pods have ended."""

    entered: Mapping[str, Sequence[Entry]]
    over: int


class PodQueue:
    """Oldest first within a class, by creation and then by name."""

    def __init__(self, rule_of: Callable[[Pod], Rule] = lambda pod: pod.constraint) -> None:
        self._rule_of = rule_of
        self._queue: dict[ClassKey, dict[str, Pod]] = {}
        self._gangs: dict[str, dict[str, Pod]] = {}
        self._tenant: dict[str, str] = {}
        self._key: dict[str, ClassKey | str] = {}
        """By pod its class, or its gang."""
        self._sorted: set[ClassKey] = set()
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
        self._queue.setdefault(key, {})[pod.uid] = pod
        self._key[pod.uid] = key
        self._sorted.discard(key)

    def remove(self, uid: str) -> None:
        """The pod does not wait any more; nothing where it did not."""
        key = self._key.pop(uid, None)
        if isinstance(key, str):
            del self._gangs[key][uid]
            if not self._gangs[key]:
                del self._gangs[key], self._tenant[key]
        elif key is not None:
            del self._queue[key][uid]
            if not self._queue[key]:
                del self._queue[key]
                self._sorted.discard(key)

    def uids(self) -> list[str]:
        """Everybody who waits."""
        return list(self._key)

    def pods_of(self, key: ClassKey) -> Iterator[Pod]:
        """Everybody in a class, or in a gang."""
        yield from (self._gangs.get(key.gang) or self._queue.get(key) or {}).values()

    def by_tenant(self) -> Mapping[str, int]:
        """How many pods of each tenant wait."""
        found: Counter[str] = Counter()
        for key, pods in self._queue.items():
            found[key.tenant] += len(pods)
        for name, pods in self._gangs.items():
            found[self._tenant[name]] += len(pods)
        return found

    def gang_names(self) -> list[str]:
        """Gangs of which somebody waits."""
        return list(self._gangs)

    def gang(self, name: str) -> list[Pod]:
        """Members that wait, oldest first."""
        return sorted(self._gangs.get(name, {}).values(), key=_age)

    def waiting(self, present: Callable[[str], Present]) -> tuple[Waiting, ...]:
        """Every class and every gang, as a snapshot has it."""
        found = (self._waiting_gang(name, present(name)) for name in self._gangs)
        return (*map(self._class, self._queue), *(gang for gang in found if gang is not None))

    def shapes(self, pod: Pod) -> tuple[Shape, ...]:
        """What the scheduler is asked, per container."""
        rule = self._rule_of(pod)
        label = self.marks.get(rule) or self.marks.setdefault(rule, mark_of(rule))
        return tuple(replace(pod.shape(number), labels=((label, ""),)) for number in range(len(pod.asks)))

    def _class(self, key: ClassKey) -> Waiting:
        if key not in self._sorted:
            self._queue[key] = {pod.uid: pod for pod in sorted(self._queue[key].values(), key=_age)}
            self._sorted.add(key)
        pods = tuple(islice(self._queue[key].values(), HEADS))
        gang = gangs.of_one_pod(pods[0], self.shapes(pods[0])) if key.gang else None
        heads = gang.members if gang else tuple(gangs.job_name(pod.uid, pod.asks[0].container) for pod in pods)
        ages = (pods[0].created_ns,) * len(heads) if gang else tuple(pod.created_ns for pod in pods)
        count = len(heads) if gang else len(self._queue[key])
        return Waiting.of(key, heads, count, ages, gang)

    def _waiting_gang(self, name: str, present: Present) -> Waiting | None:
        pods = self.gang(name)
        shapes = {pod.uid: self.shapes(pod) for pod in pods}
        return gangs.waiting_gang(name, self._tenant[name], pods, shapes, present.entered, present.over)


def mark_of(rule: Rule) -> str:
    """A label for the nodes that the rule admits: the same in every process."""
    return names.ELIGIBLE + hashlib.sha256(repr(rule).encode()).hexdigest()[:16]


def _age(pod: Pod) -> tuple[int, str, str]:
    return pod.created_ns, pod.namespace, pod.name
