"""Indexes pods by node and labels, and evaluates inter-pod affinity and topology spreading.

It counts as kube-scheduler's plugins InterPodAffinity and PodTopologySpread do, for required terms
only. A released pod that is not bound yet counts on the node of its cards. All bound pods are
indexed only while a waiting pod needs them; pods with required anti-affinity are always known, from
our own pods and from the reports of node agents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from gpupool.kubernetes.resources import names
from gpupool.kubernetes.resources.node import NodeFacts
from gpupool.kubernetes.resources.node_affinity import NodeConstraint
from gpupool.kubernetes.resources.pod_constraints import (
    AffinityTerm,
    SpreadConstraint,
    read_constraints,
)

Json = Mapping[str, Any]


class LocatedPod(NamedTuple):
    """One pod on its node."""

    node: str
    namespace: str
    labels: Mapping[str, str]
    claims: tuple[str, ...] = ()
    #: It is being deleted: it counts for nearness, not for spreading.
    going: bool = False


class PodAffinityIndex:
    """Bound pods by node.

    `hosts` are the known nodes; `changed` is called whenever an answer may differ.
    """

    def __init__(self, hosts: Mapping[str, NodeFacts], changed: Callable[[], None]) -> None:
        self._hosts = hosts
        self._changed = changed
        self._pods: dict[str, LocatedPod] = {}
        self._repelling: dict[str, tuple[str, tuple[AffinityTerm, ...]]] = {}
        self.spaces: dict[str, Mapping[str, str]] = {}
        #: Whether all bound pods have been listed, and are kept.
        self.known = False
        #: Every distinct rule by which some pod repels others.
        self.kept_away: tuple[AffinityTerm, ...] = ()

    # --- what is noted ------------------------------------------------------------------------

    def mark_listed(self) -> None:
        """All bound pods and namespaces have been listed: answers are complete from now on."""
        self.known = True
        self._changed()

    def forget_pods(self) -> None:
        """Forget all bound pods: no waiting pod depends on them any more."""
        self.known = False
        self._pods.clear()

    def note_pod(self, found: Json, gone: bool) -> None:
        """Note a bound pod as it is now."""
        meta = found["metadata"]
        # A list tells of a deletion that no watch has seen by the name alone.
        if gone:
            self.put_pod(meta["uid"], None)
            return
        spec = found["spec"]
        status = found.get("status") or {}
        # A pod that has ended repels no pod and holds no port, as kube-scheduler has it.
        over = status.get("phase") in names.ENDED or not spec.get("nodeName")
        claims = () if over else read_constraints(found).claims
        going = meta.get("deletionTimestamp") is not None
        seen = LocatedPod(
            spec.get("nodeName") or "", meta["namespace"], meta.get("labels") or {}, claims, going
        )
        self.put_pod(meta["uid"], None if over else seen)

    def note_namespace(self, found: Json, gone: bool) -> None:
        """Note a namespace as it is now; affinity terms select namespaces by their labels."""
        meta = found["metadata"]
        labels = None if gone else meta.get("labels") or {}
        if self.spaces.get(meta["name"]) != labels:
            self.spaces.pop(meta["name"], None)
            if labels is not None:
                self.spaces[meta["name"]] = labels
            self._changed()

    def put_pod(self, uid: str, seen: LocatedPod | None) -> None:
        """Note a pod on its node, or one that will be there; None means removed."""
        if self._pods.get(uid) != seen:
            self._pods.pop(uid, None)
            if seen is not None:
                self._pods[uid] = seen
            self._changed()

    def note_anti_affinity(self, source: str, node: str, apart: tuple[AffinityTerm, ...]) -> None:
        """Note the rules by which a pod, or all pods of a node together, repel others.

        Args:
            source: the pod or node; an empty `apart` removes its rules.
        """
        if self._repelling.get(source, ("", ())) == (node if apart else "", apart):
            return
        self._repelling.pop(source, None)
        if apart:
            self._repelling[source] = node, apart
        distinct = {one for _, rules in self._repelling.values() for one in rules}
        self.kept_away = tuple(sorted(distinct, key=repr))
        self._changed()

    # --- what it leaves of the nodes ----------------------------------------------------------

    def pods_using_claim(self, claim: tuple[str, str]) -> list[str]:
        """Uids of pods that use the claim."""
        space, name = claim
        users = []
        for uid, pod in self._pods.items():
            if pod.namespace == space and name in pod.claims:
                users.append(uid)
        return users

    def repelled_nodes(
        self,
        rules: Iterable[AffinityTerm],
        more: Sequence[tuple[str, tuple[AffinityTerm, ...]]] = (),
    ) -> set[str]:
        """Return the nodes whose pods repel, by one of the rules, the pods that it selects."""
        keepers = (*self._repelling.values(), *more)
        repelled: set[str] = set()
        for rule in rules:
            nodes = [node for node, apart in keepers if rule in apart]
            repelled |= self._expand_domains(rule.key, nodes)
        return repelled

    def affinity_nodes(
        self, rules: Sequence[AffinityTerm], itself: bool, more: Sequence[LocatedPod] = ()
    ) -> set[str] | None:
        """Return the nodes near pods that meet all of the rules; None: every node with the labels.

        Args:
            itself: whether the pod meets its own rules. Without a pod that does, the first pod of
                such a group would wait for itself, so it may go anywhere.
        """
        nodes = set()
        for pod in self._list_pods(more):
            if all(self._is_selected(rule, pod) for rule in rules):
                nodes.add(pod.node)
        if not nodes:
            return None if itself else set()
        return set.intersection(*(self._expand_domains(rule.key, nodes) for rule in rules))

    def anti_affinity_nodes(
        self, rules: Sequence[AffinityTerm], more: Sequence[LocatedPod] = ()
    ) -> set[str]:
        """Return the nodes near pods that one of the rules keeps apart from."""
        pods = self._list_pods(more)
        too_near: set[str] = set()
        for rule in rules:
            nodes = [pod.node for pod in pods if self._is_selected(rule, pod)]
            too_near |= self._expand_domains(rule.key, nodes)
        return too_near

    def spread_nodes(
        self,
        rules: Sequence[SpreadConstraint],
        itself: Sequence[bool],
        constraint: NodeConstraint,
        more: Sequence[LocatedPod] = (),
    ) -> set[str]:
        """Return the nodes where one more pod keeps to all of the rules.

        Args:
            itself: by rule, whether it counts the pod itself.
        """
        # PodTopologySpread ignores nodes that lack the label of any rule.
        labelled = {}
        for name, host in self._hosts.items():
            if all(rule.key in host.labels for rule in rules):
                labelled[name] = host
        even = set(labelled)
        pods = self._list_pods(more)
        for rule, counts in zip(rules, itself, strict=True):
            domains = self._count_domains(rule, labelled, constraint, pods)
            # With fewer domains than the rule's minDomains the least count is taken as 0.
            least = 0 if len(domains) < rule.domains else min(domains.values(), default=0)
            for name, host in labelled.items():
                if domains[host.labels[rule.key]] + counts - least > rule.skew:
                    even.discard(name)
        return even

    @staticmethod
    def _count_domains(
        rule: SpreadConstraint,
        hosts: Mapping[str, NodeFacts],
        constraint: NodeConstraint,
        pods: Iterable[LocatedPod],
    ) -> Counter[str]:
        """Count the pods that the rule selects in each domain; empty domains count as 0."""
        domain_of = {}
        for name, host in hosts.items():
            if _is_counted(rule, host, constraint):
                domain_of[name] = host.labels[rule.key]
        domains: Counter[str] = Counter(dict.fromkeys(domain_of.values(), 0))
        for pod in pods:
            if pod.going or pod.node not in domain_of:
                continue
            if rule.matches(pod.namespace, pod.labels):
                domains[domain_of[pod.node]] += 1
        return domains

    def _list_pods(self, more: Sequence[LocatedPod]) -> list[LocatedPod]:
        return [*self._pods.values(), *more]

    def _is_selected(self, rule: AffinityTerm, pod: LocatedPod) -> bool:
        return rule.matches(pod.namespace, pod.labels, self.spaces)

    def _expand_domains(self, key: str, nodes: Iterable[str]) -> set[str]:
        """Return all nodes in the topology domains of these nodes."""
        values = set()
        for node in set(nodes):
            # A node without the label is in no domain.
            if node in self._hosts and key in self._hosts[node].labels:
                values.add(self._hosts[node].labels[key])
        if not values:
            return set()
        return {name for name, host in self._hosts.items() if host.labels.get(key) in values}


def _is_counted(rule: SpreadConstraint, host: NodeFacts, constraint: NodeConstraint) -> bool:
    """Whether a node's pods count for the rule."""
    bars = host.taints if rule.by_taints else ()
    if rule.by_affinity:
        return constraint.admits(host.name, host.labels, bars)
    for taint in bars:
        is_barring = taint.get("effect") in ("NoSchedule", "NoExecute")
        if is_barring and not constraint.tolerates(taint):
            return False
    return True
