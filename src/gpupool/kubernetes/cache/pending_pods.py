"""Queues managed pods that wait for cards, in classes of equal rank, tenant and shape.

A pod with several containers that request cards is one claim for each of them: a gang on one node.
The rule that says where a pod may run is part of its shape, as a label that no Node has.
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

from gpupool.kubernetes.predicates.predicates import Rule
from gpupool.kubernetes.resources import gang as gangs
from gpupool.kubernetes.resources import names
from gpupool.kubernetes.resources.gpu_node import Entry
from gpupool.kubernetes.resources.pod import Pod
from gpupool.kubernetes.resources.pod_requests import KINDS
from gpupool.model.claim import Shape
from gpupool.scheduling import ClassKey, WaitingClass

#: Pods of one class that a snapshot names: as many as one plan places. The cost of writing a ledger
#: grows with all its entries, so fewer and larger plans are cheaper; each takes a few hundredths of
#: a second.
HEADS = 256
#: Rules of which it does not matter whether a waiting pod has them.
FEW_MARKS = 64


class PresentMembers(NamedTuple):
    """Members of a gang that have their cards and stay.

    Attributes:
        entered: by member, its entries.
        over: the number of pods of the gang that have ended.
        began_ns: when the first present member was created; 0 if there is none.
    """

    entered: Mapping[str, Sequence[Entry]]
    over: int
    began_ns: int = 0


class _ClassQueue:
    """Pods of one class, oldest first."""

    # A sorted list and not a sort per plan: thousands of pods may arrive one by one, each followed
    # by a plan.

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self._order: list[tuple[int, str, str, str]] = []

    def __len__(self) -> int:
        return len(self.pods)

    def put_pod(self, pod: Pod) -> None:
        self.pods[pod.uid] = pod
        insort(self._order, _queue_key(pod))

    def remove_pod(self, uid: str) -> None:
        del self._order[bisect_left(self._order, _queue_key(self.pods.pop(uid)))]

    def list_oldest(self, count: int) -> tuple[Pod, ...]:
        return tuple(self.pods[uid] for *_, uid in self._order[:count])


class PodQueue:
    """Waiting pods; oldest first within a class, by creation and then by name."""

    def __init__(self, rule_of: Callable[[Pod], Rule] = lambda pod: pod.constraint) -> None:
        self._rule_of = rule_of
        self._queue: dict[ClassKey, _ClassQueue] = {}
        self._gangs: dict[str, dict[str, Pod]] = {}
        self._tenant: dict[str, str] = {}
        #: By pod its class, or its gang.
        self._key: dict[str, ClassKey | str] = {}
        #: By pod.
        self._tenant_of: dict[str, str] = {}
        self._pods_of_tenant: Counter[str] = Counter()
        #: Classes, and gangs by name, that a pod has come to since they were settled.
        self._come: dict[ClassKey | str, None] = {}
        self._made: dict[ClassKey, WaitingClass | None] = {}
        #: Both as the last snapshot had them; a gang whose members all have cards is nothing
        #: there.
        self._made_gangs: dict[str, WaitingClass | None] = {}
        self._changed = set[ClassKey]()
        self._changed_gangs = set[str]()
        #: By rule, the label of the nodes that it admits.
        self.marks: dict[Rule, str] = {}
        #: So many rules are kept without a look which of them are in use.
        self._most_marks = FEW_MARKS

    def __len__(self) -> int:
        return len(self._key)

    def __contains__(self, uid: str) -> bool:
        return uid in self._key

    def put_pod(self, pod: Pod, tenant: str) -> None:
        """Queue the pod; a pod that waits already is replaced."""
        self.remove_pod(pod.uid)
        self._tenant_of[pod.uid] = tenant
        self._pods_of_tenant[tenant] += 1
        if pod.gang:
            self._gangs.setdefault(pod.gang, {})[pod.uid] = pod
            self._tenant[pod.gang] = tenant
            self._key[pod.uid] = pod.gang
            self._note_gang(pod.gang)
            self._come[pod.gang] = None
            return
        name = pod.uid if len(pod.asks) > 1 else ""
        shape = self.shapes_of(pod)[0]
        reservation = pod.reservation or None
        key = ClassKey(
            tenant, pod.priority, shape, pod.max_seconds, name, reservation, pod.preemptible
        )
        self._queue.setdefault(key, _ClassQueue()).put_pod(pod)
        self._key[pod.uid] = key
        self._note_class(key)
        self._come[key] = None

    def remove_pod(self, uid: str) -> None:
        """Remove the pod from the queue; idempotent."""
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
            self._queue[key].remove_pod(uid)
            self._note_class(key)
            if not self._queue[key]:
                del self._queue[key], self._made[key]
                self._changed.discard(key)
                self._come.pop(key, None)

    def find_pod(self, uid: str) -> Pod | None:
        """The pod as it waits; None if it does not."""
        key = self._key.get(uid)
        if key is None:
            return None
        return self._gangs[key][uid] if isinstance(key, str) else self._queue[key].pods[uid]

    def pod_uids(self) -> list[str]:
        """Uids of all waiting pods."""
        return list(self._key)

    def pods_of(self, key: ClassKey) -> Iterator[Pod]:
        """All pods of a class or gang."""
        line = self._queue.get(key)
        yield from (self._gangs.get(key.gang) or (line.pods if line else {})).values()

    def count_by_tenant(self) -> Mapping[str, int]:
        """By tenant, the number of waiting pods."""
        return +self._pods_of_tenant

    def has_gang(self, name: str) -> bool:
        """Whether a member of the gang waits."""
        return name in self._gangs

    def gang_names(self) -> list[str]:
        """Gangs with a waiting member."""
        return list(self._gangs)

    def first_arrivals(self, count: int) -> list[ClassKey]:
        """The first `count` classes and gangs that pods have arrived in, as the last snapshot had
        them."""
        known = (self._known_key(one) for one in self._come)
        return list(islice((key for key in known if key is not None), count))

    def clear_arrivals(self, keys: Iterable[ClassKey]) -> None:
        """Forget arrivals in these classes; the next pod counts as a new arrival."""
        for key in keys:
            self._come.pop(key, None)
            self._come.pop(key.gang, None)

    def class_keys(self) -> list[ClassKey]:
        """Keys of all classes and gangs, as the last snapshot had them."""
        gang_keys = []
        for one in self._made_gangs.values():
            if one is not None:
                gang_keys.append(one.key)
        return [*self._queue, *gang_keys]

    def _known_key(self, one: ClassKey | str) -> ClassKey | None:
        if not isinstance(one, str):
            return one
        made = self._made_gangs[one]
        return None if made is None else made.key

    def oldest_member(self, name: str) -> Pod:
        """The oldest waiting member of the gang."""
        return min(self._gangs[name].values(), key=_age_key)

    def gang_pods(self, name: str) -> list[Pod]:
        """Waiting members of the gang, oldest first."""
        return sorted(self._gangs.get(name, {}).values(), key=_age_key)

    def waiting_classes(
        self,
        present: Callable[[str], PresentMembers],
        takes: gangs.Takes = lambda *_: True,
        begun: AbstractSet[str] | None = None,
    ) -> tuple[WaitingClass, ...]:
        """All classes and gangs for a snapshot. One that has not changed is the same object as
        before.

        Args:
            present: the present members of a gang.
            takes: whether a pod can take a kept seat.
            begun: gangs with a member that has or had cards. Only these are computed anew each
                time; None means all.
        """
        for key in self._changed:
            self._made[key] = self._build_class(key)
        self._changed.clear()
        begun = self._gangs.keys() & (self._gangs.keys() if begun is None else begun)
        for name in self._changed_gangs | begun:
            self._made_gangs[name] = self._waiting_gang(name, present(name), takes)
        # A begun gang is computed once more after its last member has left its ledger.
        self._changed_gangs = set(begun)
        classes = (*self._made.values(), *self._made_gangs.values())
        built = []
        for one in classes:
            if one is not None:
                built.append(one)
        return tuple(built)

    def _note_class(self, key: ClassKey) -> None:
        self._made[key] = None
        self._changed.add(key)

    def _note_gang(self, name: str) -> None:
        self._made_gangs[name] = None
        self._changed_gangs.add(name)

    def shapes_of(self, pod: Pod) -> tuple[Shape, ...]:
        """The pod's shapes, one per container, with the label of its rule."""
        rule = self._rule_of(pod)
        label = self.marks.get(rule) or self.marks.setdefault(rule, rule_label(rule))
        return tuple(_label_shape(pod.shape(number), label) for number in range(len(pod.asks)))

    def drop_unused_marks(self) -> None:
        """Forget the rules that no waiting pod has, if there are many.

        Only for a caller that then computes all labels of the nodes: `CardColumns` compares the
        number of rules to find out whether it has all labels.
        """
        if len(self.marks) <= self._most_marks:
            return
        used = set[str]()
        for key in self._queue:
            used.update(label for label, _ in key.shape.labels)
        for members in self._gangs.values():
            used.update(self.marks.get(self._rule_of(pod), "") for pod in members.values())
        for rule, label in list(self.marks.items()):
            if label not in used:
                del self.marks[rule]
        self._most_marks = FEW_MARKS + 2 * len(self.marks)

    def _build_class(self, key: ClassKey) -> WaitingClass:
        pods = self._queue[key].list_oldest(HEADS)
        if key.gang:
            # A pod with several claims is a gang of its containers, all of the pod's age.
            gang = gangs.gang_of_pod(pods[0], self.shapes_of(pods[0]))
            members = gang.members
            ages = (pods[0].created_ns,) * len(members)
            return WaitingClass.build(key, members, len(members), ages, gang)
        heads = tuple(gangs.job_name(pod.uid, pod.asks[0].container) for pod in pods)
        ages = tuple(pod.created_ns for pod in pods)
        return WaitingClass.build(key, heads, len(self._queue[key]), ages, None)

    def _waiting_gang(
        self, name: str, present: PresentMembers, takes: gangs.Takes
    ) -> WaitingClass | None:
        pods = self.gang_pods(name)
        shapes = {pod.uid: self.shapes_of(pod) for pod in pods}
        return gangs.waiting_gang(name, self._tenant[name], pods, shapes, *present, takes)


@lru_cache(KINDS)
def _label_shape(shape: Shape, label: str) -> Shape:
    return replace(shape, labels=((label, ""),))


def rule_label(rule: Rule) -> str:
    """A label for the nodes that the rule admits; the same in every process."""
    return names.ELIGIBLE + hashlib.sha256(repr(rule).encode()).hexdigest()[:16]


def _queue_key(pod: Pod) -> tuple[int, str, str, str]:
    return *_age_key(pod), pod.uid


def _age_key(pod: Pod) -> tuple[int, str, str]:
    return pod.created_ns, pod.namespace, pod.name
