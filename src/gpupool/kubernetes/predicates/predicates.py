"""Evaluates every rule by which kube-scheduler may reject a node for a pod.

A pod that only names labels, taints, CPU, memory and cards is evaluated by its `NodeConstraint`.
Every other pod has a `PodDemand`, which equal pods share. Pods of one plan are evaluated one after
the other, each beside those before. What cannot be evaluated here (a storage's free capacity,
other plugins) shows when the pod turns out to be unschedulable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpupool.kubernetes.predicates.pod_affinity import LocatedPod, PodAffinityIndex
from gpupool.kubernetes.predicates.volume_limits import TOO_MANY, DriverVolume
from gpupool.kubernetes.predicates.volumes import ANYWHERE, VolumeIndex, VolumePlacement
from gpupool.kubernetes.resources.gpu_node_status import ForeignUsage
from gpupool.kubernetes.resources.node import NodeFacts, NodeUsage
from gpupool.kubernetes.resources.node_affinity import NodeConstraint, Terms, has_matching_term
from gpupool.kubernetes.resources.pod_constraints import (
    HOSTNAME,
    NOTHING,
    AffinityTerm,
    HostPort,
    SpreadConstraint,
    sum_amounts,
)

if TYPE_CHECKING:
    from gpupool.kubernetes.resources.pod import Pod

LABELS = "its selector, affinity or tolerations"
WHOLE_ONLY = "whole cards alone are handed out there"


@dataclass(frozen=True)
class PodDemand:
    """What a pod requests of its node, as canonical parts: equal pods have equal demands."""

    constraint: NodeConstraint
    ports: tuple[HostPort, ...] = ()
    resources: tuple[tuple[str, int], ...] = ()
    volumes: tuple[Terms, ...] = ()
    alone: tuple[tuple[str, str], ...] = ()
    attaches: tuple[tuple[str, int], ...] = ()
    #: `attaches` and `known_volumes` are those of `VolumePlacement`.
    known_volumes: tuple[DriverVolume, ...] = ()
    near: tuple[AffinityTerm, ...] = ()
    near_itself: bool = False
    apart: tuple[AffinityTerm, ...] = ()
    #: Each with whether it counts the pod itself.
    spread: tuple[tuple[SpreadConstraint, bool], ...] = ()
    #: Anti-affinity rules of other pods that select this one.
    kept_away: tuple[AffinityTerm, ...] = ()

    @property
    def of_pods_around(self) -> bool:
        return bool(self.near or self.apart or self.spread or self.kept_away or self.alone)

    #: Whether no node can take two such pods.
    one_a_node: bool = False


Rule = NodeConstraint | PodDemand


@dataclass
class PlannedPods:
    """Pods of the plan that is being checked, as if they ran already."""

    use: dict[str, NodeUsage] = field(default_factory=dict)
    seen: list[LocatedPod] = field(default_factory=list)
    repelling: list[tuple[str, tuple[AffinityTerm, ...]]] = field(default_factory=list)


class NodePredicates:
    """The predicates of one cluster. `hosts` are the known nodes."""

    def __init__(self, hosts: Mapping[str, NodeFacts]) -> None:
        self.around = PodAffinityIndex(hosts, self.note_change)
        self.volumes = VolumeIndex(self.note_change)
        #: Changes whenever the answer for some pod may differ.
        self.version = 0
        self._away: tuple[AffinityTerm, ...] = ()
        #: By demand, the evaluated affinity of the present version: the sets of nodes are the same
        #: for every node that is asked about.
        self._evaluated: dict[PodDemand, Callable[[NodeFacts], str]] = {}

    def note_change(self) -> None:
        """Note that an answer may differ from now on."""
        self.version += 1
        self._evaluated.clear()

    def note_host(self, before: NodeFacts | None, now: NodeFacts | None) -> None:
        """Note a node as it was and as it is now."""
        # Usage changes all the time and is compared for each pod; domains follow from labels alone.
        if (
            before is None
            or now is None
            or (before.labels, before.taints) != (now.labels, now.taints)
        ):
            self.note_change()

    def note_pod(self, uid: str, pod: Pod | None, node: str) -> None:
        """Note a managed pod on the node that it has, or will have; empty: none."""
        apart = pod.needs.apart if pod is not None else ()
        self.around.note_anti_affinity(uid, node, apart if node else ())
        # Bound pods are reported by the watch of all pods, also when they are ours.
        if self.around.known and (pod is None or not pod.node):
            self.around.put_pod(uid, locate_pod(pod, node) if pod is not None and node else None)

    def affected_pods(self, waiting: Iterable[Pod]) -> list[Pod]:
        """Return the waiting pods whose rules may have changed since the last call."""
        # A new anti-affinity rule may select any pod, also one that requests nothing special.
        if self._away != self.around.kept_away:
            self._away = self.around.kept_away
            return list(waiting)
        return [pod for pod in waiting if pod.needs is not NOTHING]

    def rule_of(self, pod: Pod) -> Rule:
        """The pod's rule."""
        needs = pod.needs
        away = self.around.kept_away
        if needs is NOTHING and not away:
            return pod.constraint
        space = pod.namespace
        labels = pod.labels
        spaces = self.around.spaces
        places = (
            self.volumes.placement_of(space, needs.claims) if needs.claims else VolumePlacement()
        )
        # Two pods with one host port, or that repel each other by host name, need two nodes.
        one_a_node = bool(needs.ports)
        for rule in needs.apart:
            if rule.key == HOSTNAME and rule.matches(space, labels, spaces):
                one_a_node = True
        demand = PodDemand(
            pod.constraint,
            needs.ports,
            needs.resources,
            tuple(terms for terms in places.terms if terms != ANYWHERE),
            places.alone,
            places.attaches,
            places.known_volumes,
            needs.near,
            bool(needs.near) and all(rule.matches(space, labels, spaces) for rule in needs.near),
            needs.apart,
            tuple((rule, rule.matches(space, labels)) for rule in needs.spread),
            tuple(rule for rule in away if rule.matches(space, labels, spaces)),
            one_a_node,
        )
        # The plain constraint is much cheaper to evaluate, and most pods have no more than it.
        return pod.constraint if demand == PodDemand(pod.constraint) else demand

    def why_unplaceable(self, pod: Pod) -> str:
        """Return why no node can be named for the pod yet; empty if nodes can be evaluated."""
        needs = pod.needs
        if needs is NOTHING:
            return ""
        places = (
            self.volumes.placement_of(pod.namespace, needs.claims)
            if needs.claims
            else VolumePlacement()
        )
        if not places.waits and (needs.of_pods_around or places.alone) and not self.around.known:
            return "the pods around it are being looked up"
        return places.waits

    def depend_on_pods(self, pods: Iterable[Pod]) -> bool:
        """Whether one of the pods can only be evaluated with the labels or claims of others."""
        for pod in pods:
            needs = pod.needs
            if needs.of_pods_around:
                return True
            # A claim for one pod at a time (ReadWriteOncePod) depends on its other users.
            if needs.claims and self.volumes.placement_of(pod.namespace, needs.claims).alone:
                return True
        return False

    def admits(self, rule: Rule, host: NodeFacts, use: NodeUsage) -> bool:
        """Whether a pod of this rule may go to the node."""
        return not self.why_not(rule, host, use)

    def why_not(
        self, rule: Rule, host: NodeFacts, use: NodeUsage, plus: PlannedPods | None = None
    ) -> str:
        """Return why a pod of this rule cannot go to the node; empty if it can.

        Args:
            use: what pods request of the node, managed and foreign.
            plus: pods of the same plan, to be counted too.
        """
        # The cheap checks first: most nodes fail by their labels.
        constraint = rule if isinstance(rule, NodeConstraint) else rule.constraint
        if not constraint.admits(host.name, host.labels, host.taints):
            return LABELS
        if constraint.shares and host.whole_only:
            return WHOLE_ONLY
        if isinstance(rule, NodeConstraint):
            return ""
        for terms in rule.volumes:
            if not has_matching_term(terms, host.name, host.labels):
                return "its volumes cannot be reached there"
        for port in rule.ports:
            if any(port.meets(one) for one in use.ports):
                return f"host port {port} is taken"
        has = dict(host.resources)
        used = dict(use.resources)
        for name, amount in rule.resources:
            free = has.get(name, 0) - used.get(name, 0)
            if free < amount:
                has_none = not has.get(name) and free <= 0
                return f"no {name}" if has_none else f"too little {name}"
        if full := self.volumes.why_full(rule, host.name, use.claims):
            return full
        if not rule.of_pods_around:
            return ""
        if plus is not None:
            return self._evaluate_affinity(rule, plus)(host)
        if rule not in self._evaluated:
            self._evaluated[rule] = self._evaluate_affinity(rule, PlannedPods())
        return self._evaluated[rule](host)

    def _evaluate_affinity(self, rule: PodDemand, plus: PlannedPods) -> Callable[[NodeFacts], str]:
        """Return a function that says why other pods exclude a node; empty if they do not."""
        around = self.around
        in_use = [name for space, name in rule.alone if self._has_users((space, name), plus)]
        if in_use:
            return lambda _: (
                f"the claim {in_use[0]} is used by another pod, and is for one at a time"
            )
        too_near = around.anti_affinity_nodes(rule.apart, plus.seen)
        repelled = around.repelled_nodes(rule.kept_away, plus.repelling)
        near = around.affinity_nodes(rule.near, rule.near_itself, plus.seen) if rule.near else None
        rules = [one for one, _ in rule.spread]
        itself = [counts for _, counts in rule.spread]
        even = around.spread_nodes(rules, itself, rule.constraint, plus.seen) if rules else None

        def why_not(host: NodeFacts) -> str:
            if host.name in too_near:
                return "it keeps away from pods there"
            if host.name in repelled:
                return "pods there keep it away"
            has_labels = all(one.key in host.labels for one in rule.near)
            if not has_labels or (near is not None and host.name not in near):
                return "no pod that it is to be near is there"
            if even is not None and host.name not in even:
                return "its pods would be spread unevenly"
            return ""

        return why_not

    def _has_users(self, claim: tuple[str, str], plus: PlannedPods) -> bool:
        space, name = claim
        for pod in plus.seen:
            if pod.namespace == space and name in pod.claims:
                return True
        return bool(self.around.pods_using_claim(claim))


def locate_pod(pod: Pod, node: str) -> LocatedPod:
    """Return a managed pod on that node, as the rules of other pods see it."""
    return LocatedPod(node, pod.namespace, pod.labels, pod.needs.claims, pod.deleting)


def sum_usage(others: ForeignUsage, ours: Sequence[Pod]) -> NodeUsage:
    """Return what foreign pods and these managed pods request of one node."""
    cpu_milli = others.cpu_milli
    memory_bytes = others.memory_bytes
    ports = list(others.ports)
    resources = [others.resources]
    claims = []
    for pod in ours:
        cpu_milli += pod.cpu_milli
        memory_bytes += pod.host_bytes
        # Most pods request nothing else, and this runs for every pod of a changed node.
        if pod.needs is not NOTHING:
            ports += pod.needs.ports
            resources.append(pod.needs.resources)
            for name in pod.needs.claims:
                claims.append((pod.namespace, name))
    return NodeUsage(
        cpu_milli,
        memory_bytes,
        others.pods + len(ours),
        tuple(ports),
        sum_amounts(resources),
        tuple(claims),
    )


#: Beginnings of the reasons that an empty node of the same kind would not have.
HELPED = (
    TOO_MANY,
    "host port",
    "too little",
    "pods there keep",
    "it keeps away",
    "its pods would be spread",
)


def summarize_reasons(reasons: Sequence[str]) -> tuple[str, bool]:
    """Return the reasons of all nodes in one sentence, and whether another node would help.

    >>> summarize_reasons(["host port TCP 80 is taken", "host port TCP 80 is taken", LABELS])
    ('of 3 nodes: 2 host port TCP 80 is taken, 1 its selector, affinity or tolerations', True)
    """
    counts = Counter(reason for reason in reasons if reason)
    each = ", ".join(f"{count} {reason}" for reason, count in counts.most_common())
    would_help = any(reason.startswith(HELPED) for reason in counts)
    return f"of {len(reasons)} nodes: {each}" if each else "", would_help
