"""Which nodes a pod may go to by all that kube-scheduler will ask of them, also where that depends on other pods.

A pod that asks nothing but labels, taints, processors, memory and cards is judged by its `Constraint` alone. Any other
has a `Demand`, which equal pods share. Pods of one plan are judged one after the other, each beside those before.
What nobody here can judge (a storage's own room, others' plugins) is left to what becomes of stuck pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpupool.kubernetes.around import Around, Seen
from gpupool.kubernetes.attaching import TOO_MANY, Attached
from gpupool.kubernetes.eligible import Constraint, Terms, one_matches
from gpupool.kubernetes.hosts import Host, Use
from gpupool.kubernetes.needs import HOSTNAME, NOTHING, Nearby, Port, Spread, summed
from gpupool.kubernetes.reported import Others
from gpupool.kubernetes.volumes import ANYWHERE, Places, Volumes

if TYPE_CHECKING:
    from gpupool.kubernetes.pods import Pod

LABELS = "its selector, affinity or tolerations"
WHOLE_ONLY = "whole cards alone are handed out there"


@dataclass(frozen=True)
class Demand:
    """What a pod asks of its node, as canonical parts."""

    constraint: Constraint
    ports: tuple[Port, ...] = ()
    resources: tuple[tuple[str, int], ...] = ()
    volumes: tuple[Terms, ...] = ()
    alone: tuple[tuple[str, str], ...] = ()
    attaches: tuple[tuple[str, int], ...] = ()
    attached: tuple[Attached, ...] = ()
    """Both as `volumes.Places` has them."""
    near: tuple[Nearby, ...] = ()
    near_itself: bool = False
    apart: tuple[Nearby, ...] = ()
    spread: tuple[tuple[Spread, bool], ...] = ()
    """With whether the pod itself is counted."""
    kept_away: tuple[Nearby, ...] = ()
    """By which rules of others it is meant."""

    @property
    def of_pods_around(self) -> bool:
        return bool(self.near or self.apart or self.spread or self.kept_away or self.alone)

    one_a_node: bool = False
    """No node takes two like it."""


Rule = Constraint | Demand


@dataclass
class Plus:
    """Pods that are to be where the plan has them, beside those that are."""

    use: dict[str, Use] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    repelling: list[tuple[str, tuple[Nearby, ...]]] = field(default_factory=list)


class Rules:
    """`hosts` are all nodes, as they are known."""

    def __init__(self, hosts: Mapping[str, Host]) -> None:
        self.around, self.volumes = Around(hosts, self.change), Volumes(self.change)
        self.version = 0
        """Moves when the answer for some pod may be another one."""
        self._away: tuple[Nearby, ...] = ()
        self._kept: dict[Demand, Callable[[Host], str]] = {}

    def change(self) -> None:
        self.version += 1
        self._kept.clear()

    def note_host(self, before: Host | None, now: Host | None) -> None:
        """A node, as it was and as it is now."""
        if before is None or now is None or (before.labels, before.taints) != (now.labels, now.taints):
            self.change()

    def note(self, uid: str, pod: Pod | None, node: str) -> None:
        """One of our pods is on that node, or is to be (empty: on none)."""
        apart = pod.needs.apart if pod is not None else ()
        self.around.note_repelling(uid, node, apart if node else ())
        if self.around.known and (pod is None or not pod.node):
            self.around.put(uid, seen(pod, node) if pod is not None and node else None)

    def concerned(self, waiting: Iterable[Pod]) -> list[Pod]:
        """Of those who wait, whose rule may be another one than when this was asked last."""
        everybody, self._away = self._away != self.around.kept_away, self.around.kept_away
        return [pod for pod in waiting if everybody or pod.needs is not NOTHING]

    def of(self, pod: Pod) -> Rule:
        """The pod's rule."""
        needs, away = pod.needs, self.around.kept_away
        if needs is NOTHING and not away:
            return pod.constraint
        space, labels = pod.namespace, pod.labels
        spaces = self.around.spaces
        places = self.volumes.places(space, needs.claims) if needs.claims else Places()
        made = Demand(
            pod.constraint,
            needs.ports,
            needs.resources,
            tuple(terms for terms in places.terms if terms != ANYWHERE),
            places.alone,
            places.attaches,
            places.attached,
            needs.near,
            bool(needs.near) and all(rule.matches(space, labels, spaces) for rule in needs.near),
            needs.apart,
            tuple((rule, rule.matches(space, labels)) for rule in needs.spread),
            tuple(rule for rule in away if rule.matches(space, labels, spaces)),
            bool(needs.ports)
            or any(rule.key == HOSTNAME and rule.matches(space, labels, spaces) for rule in needs.apart),
        )
        return pod.constraint if made == Demand(pod.constraint) else made

    def waits_for(self, pod: Pod) -> str:
        """Why the pod cannot be placed anywhere yet; empty where it can be looked at."""
        needs = pod.needs
        if needs is NOTHING:
            return ""
        places = self.volumes.places(pod.namespace, needs.claims) if needs.claims else Places()
        if not places.waits and (needs.of_pods_around or places.alone) and not self.around.known:
            return "the pods around it are being looked up"
        return places.waits

    def asks_around(self, pods: Iterable[Pod]) -> bool:
        """Whether one of the pods can only be judged by the labels, or claims, of others."""
        return any(
            pod.needs.of_pods_around
            or (bool(pod.needs.claims) and bool(self.volumes.places(pod.namespace, pod.needs.claims).alone))
            for pod in pods
        )

    def admits(self, rule: Rule, host: Host, use: Use) -> bool:
        return not self.why_not(rule, host, use)

    def why_not(self, rule: Rule, host: Host, use: Use, plus: Plus | None = None) -> str:
        """Why a pod of this rule cannot go to the node, which is used so much; empty where it can."""
        constraint = rule if isinstance(rule, Constraint) else rule.constraint
        if not constraint.admits(host.name, host.labels, host.taints):
            return LABELS
        if constraint.shares and host.whole_only:
            return WHOLE_ONLY
        if isinstance(rule, Constraint):
            return ""
        for terms in rule.volumes:
            if not one_matches(terms, host.name, host.labels):
                return "its volumes cannot be reached there"
        if taken := next((mine for mine in rule.ports if any(mine.meets(one) for one in use.ports)), None):
            return f"host port {taken} is taken"
        has, used = dict(host.resources), dict(use.resources)
        for name, amount in rule.resources:
            if (free := has.get(name, 0) - used.get(name, 0)) < amount:
                return f"too little {name}" if has.get(name) else f"no {name}" if free <= 0 else f"too little {name}"
        if full := self.volumes.why_full(rule, host.name, use.claims):
            return full
        if not rule.of_pods_around:
            return ""
        if plus is not None:
            return self._around(rule, plus)(host)
        if rule not in self._kept:
            self._kept[rule] = self._around(rule, Plus())
        return self._kept[rule](host)

    def _around(self, rule: Demand, plus: Plus) -> Callable[[Host], str]:
        """What pods around say of each node; reckoned once for all of them."""
        around = self.around
        if used := next((name for space, name in rule.alone if self._users((space, name), plus)), None):
            return lambda _: f"the claim {used} is used by another pod, and is for one at a time"
        too_near = around.too_near(rule.apart, plus.seen)
        repelled = around.repelled(rule.kept_away, plus.repelling)
        near = around.near(rule.near, rule.near_itself, plus.seen) if rule.near else None
        rules, itself = [one for one, _ in rule.spread], [counts for _, counts in rule.spread]
        even = around.spread(rules, itself, rule.constraint, plus.seen) if rules else None

        def why_not(host: Host) -> str:
            if host.name in too_near:
                return "it keeps away from pods there"
            if host.name in repelled:
                return "pods there keep it away"
            if (near is not None and host.name not in near) or not all(one.key in host.labels for one in rule.near):
                return "no pod that it is to be near is there"
            return "its pods would be spread unevenly" if even is not None and host.name not in even else ""

        return why_not

    def _users(self, claim: tuple[str, str], plus: Plus) -> bool:
        more = any(one.namespace == claim[0] and claim[1] in one.claims for one in plus.seen)
        return more or bool(self.around.users(claim))


def seen(pod: Pod, node: str) -> Seen:
    """One of our pods as others are to see it there."""
    return Seen(node, pod.namespace, pod.labels, pod.needs.claims, pod.deleting)


def used(others: Others, ours: Sequence[Pod]) -> Use:
    """What others' pods and these of ours ask of one node."""
    asking = [pod.needs for pod in ours if pod.needs is not NOTHING]
    return Use(
        others.cpu_milli + sum(pod.cpu_milli for pod in ours),
        others.memory_bytes + sum(pod.host_bytes for pod in ours),
        others.pods + len(ours),
        (*others.ports, *(port for needs in asking for port in needs.ports)),
        summed((others.resources, *(needs.resources for needs in asking))),
        tuple((pod.namespace, name) for pod in ours for name in pod.needs.claims),
    )


HELPED = (TOO_MANY, "host port", "too little", "pods there keep", "it keeps away", "its pods would be spread")
"""Reasons that another node like those that are there would not have."""


def told(reasons: Sequence[str]) -> tuple[str, bool]:
    """Per node why not, in one sentence; and whether another node would help.

    >>> told(["host port TCP 80 is taken", "host port TCP 80 is taken", LABELS])
    ('of 3 nodes: 2 host port TCP 80 is taken, 1 its selector, affinity or tolerations', True)
    """
    counts = Counter(reason for reason in reasons if reason)
    each = ", ".join(f"{count} {reason}" for reason, count in counts.most_common())
    return f"of {len(reasons)} nodes: {each}" if each else "", any(reason.startswith(HELPED) for reason in counts)
