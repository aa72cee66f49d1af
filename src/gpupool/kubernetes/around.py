"""Pods around a pod: who is where with which labels, who keeps whom away, and what that leaves of the nodes.

As kube-scheduler counts it (its plugins InterPodAffinity and PodTopologySpread), for what it insists on. Who was let go
and is not bound yet counts where its cards are. All bound pods are kept only while somebody who waits asks for it; who
keeps others away is always known, from our own pods and from what nodes' agents report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from gpupool.kubernetes import names
from gpupool.kubernetes.eligible import Constraint
from gpupool.kubernetes.hosts import Host
from gpupool.kubernetes.needs import Nearby, Spread, needs_of

Json = Mapping[str, Any]


class Seen(NamedTuple):
    """One pod on its node."""

    node: str
    namespace: str
    labels: Mapping[str, str]
    claims: tuple[str, ...] = ()
    going: bool = False
    """It is being deleted: it counts for nearness, not for spreading."""


class Around:
    """`hosts` are all nodes, as they are known; `changed` is called where an answer may be another one."""

    def __init__(self, hosts: Mapping[str, Host], changed: Callable[[], None]) -> None:
        self._hosts, self._changed = hosts, changed
        self._pods: dict[str, Seen] = {}
        self._repelling: dict[str, tuple[str, tuple[Nearby, ...]]] = {}
        self.spaces: dict[str, Mapping[str, str]] = {}
        self.known = False
        """Whether all bound pods have been listed, and are kept."""
        self.kept_away: tuple[Nearby, ...] = ()
        """Every distinct rule by which some pod keeps others away."""

    # --- what is noted ------------------------------------------------------------------------

    def listed(self) -> None:
        self.known = True
        self._changed()

    def forget(self) -> None:
        """Nobody asks any more."""
        self.known = False
        self._pods.clear()

    def note(self, found: Json, gone: bool) -> None:
        """A bound pod as it is now."""
        meta, spec, status = found["metadata"], found["spec"], found.get("status") or {}
        over = gone or status.get("phase") in names.ENDED or not spec.get("nodeName")
        claims = () if over else needs_of(found).claims
        going = meta.get("deletionTimestamp") is not None
        seen = Seen(spec.get("nodeName") or "", meta["namespace"], meta.get("labels") or {}, claims, going)
        self.put(meta["uid"], None if over else seen)

    def note_space(self, found: Json, gone: bool) -> None:
        """A namespace as it is now."""
        meta = found["metadata"]
        labels = None if gone else meta.get("labels") or {}
        if self.spaces.get(meta["name"]) != labels:
            self.spaces.pop(meta["name"], None)
            if labels is not None:
                self.spaces[meta["name"]] = labels
            self._changed()

    def put(self, uid: str, seen: Seen | None) -> None:
        """A pod that is there, or is to be (None: no more)."""
        if self._pods.get(uid) != seen:
            self._pods.pop(uid, None)
            if seen is not None:
                self._pods[uid] = seen
            self._changed()

    def note_repelling(self, source: str, node: str, apart: tuple[Nearby, ...]) -> None:
        """A pod, or all of a node together, keeps others away by these rules (none: no more)."""
        if self._repelling.get(source, ("", ())) == (node if apart else "", apart):
            return
        self._repelling.pop(source, None)
        if apart:
            self._repelling[source] = node, apart
        distinct = {one for _, rules in self._repelling.values() for one in rules}
        self.kept_away = tuple(sorted(distinct, key=repr))
        self._changed()

    # --- what it leaves of the nodes ----------------------------------------------------------

    def users(self, claim: tuple[str, str]) -> list[str]:
        """Uids of pods that use the claim."""
        space, name = claim
        return [uid for uid, one in self._pods.items() if one.namespace == space and name in one.claims]

    def repelled(self, rules: Iterable[Nearby], more: Sequence[tuple[str, tuple[Nearby, ...]]] = ()) -> set[str]:
        """Nodes of which pods that are there keep those away whom one of the rules means."""
        keepers = (*self._repelling.values(), *more)
        found = (self._alike(rule.key, (node for node, apart in keepers if rule in apart)) for rule in rules)
        return set().union(*found)

    def near(self, rules: Sequence[Nearby], itself: bool, more: Sequence[Seen] = ()) -> set[str] | None:
        """Nodes near pods that meet all of the rules; None: everywhere that has the labels.

        The first of a group that is to be near itself has nobody to be near to.
        """
        pods = [one for one in self._with(more) if all(self._means(rule, one) for rule in rules)]
        if not pods:
            return None if itself else set()
        return set.intersection(*(self._alike(rule.key, (pod.node for pod in pods)) for rule in rules))

    def too_near(self, rules: Sequence[Nearby], more: Sequence[Seen] = ()) -> set[str]:
        """Nodes near pods that one of the rules wants to be away from."""
        pods = self._with(more)
        found = (self._alike(rule.key, (pod.node for pod in pods if self._means(rule, pod))) for rule in rules)
        return set().union(*found)

    def spread(
        self, rules: Sequence[Spread], itself: Sequence[bool], constraint: Constraint, more: Sequence[Seen] = ()
    ) -> set[str]:
        """Nodes where one more pod keeps to all of the rules; `itself`: whether it is counted by each of them."""
        keys = [rule.key for rule in rules]
        whole = {name: host for name, host in self._hosts.items() if all(key in host.labels for key in keys)}
        found, pods = set(whole), self._with(more)
        for rule, counts in zip(rules, itself, strict=True):
            counted = {name: host.labels[rule.key] for name, host in whole.items() if _counted(rule, host, constraint)}
            domains: Counter[str] = Counter(dict.fromkeys(counted.values(), 0))
            for pod in pods:
                if not pod.going and pod.node in counted and rule.matches(pod.namespace, pod.labels):
                    domains[counted[pod.node]] += 1
            least = 0 if len(domains) < rule.domains else min(domains.values(), default=0)
            found &= {
                name for name, host in whole.items() if domains[host.labels[rule.key]] + counts - least <= rule.skew
            }
        return found

    def _with(self, more: Sequence[Seen]) -> list[Seen]:
        return [*self._pods.values(), *more]

    def _means(self, rule: Nearby, pod: Seen) -> bool:
        return rule.matches(pod.namespace, pod.labels, self.spaces)

    def _alike(self, key: str, nodes: Iterable[str]) -> set[str]:
        """Nodes that are in one domain with one of those; who lacks the label is in none."""
        values = {self._hosts[node].labels.get(key) for node in set(nodes) if node in self._hosts} - {None}
        return {name for name, host in self._hosts.items() if host.labels.get(key) in values} if values else set()


def _counted(rule: Spread, host: Host, constraint: Constraint) -> bool:
    """Whether a node's pods count for the rule."""
    bars = host.taints if rule.by_taints else ()
    if rule.by_affinity:
        return constraint.admits(host.name, host.labels, bars)
    return all(constraint.tolerates(taint) for taint in bars if taint.get("effect") in ("NoSchedule", "NoExecute"))
