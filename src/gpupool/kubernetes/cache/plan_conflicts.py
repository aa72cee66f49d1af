"""Checks the pods of a plan beside each other: two that fit alone may not fit together.

A pod that does not fit is left out and planned again at once, when the others are known. Other
members of its gang keep their seats: the gang completes member by member or times out
(`gang_timeouts`). Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.predicates.predicates import (
    PlannedPods,
    PodDemand,
    Rule,
    locate_pod,
    sum_usage,
    summarize_reasons,
)
from gpupool.kubernetes.resources import gang as gangs
from gpupool.kubernetes.resources.gpu_node_status import ForeignUsage
from gpupool.kubernetes.resources.node import NodeUsage
from gpupool.kubernetes.resources.pod import Pod
from gpupool.kubernetes.resources.pod_constraints import NOTHING
from gpupool.scheduling import JobPlacement


def fitting_placements(
    placements: Sequence[JobPlacement], cluster: ClusterCache
) -> tuple[JobPlacement, ...]:
    """The placements that fit beside those before them."""
    parts: defaultdict[str, list[JobPlacement]] = defaultdict(list)
    for placement in placements:
        parts[gangs.split_job_name(placement.job)[0]].append(placement)
    plus = PlannedPods()
    seats = defaultdict[str, int](int)
    found = list[JobPlacement]()
    for uid, its in parts.items():
        pod = pod_of_placement(uid, its[0], cluster)
        node = its[0].node
        if pod is None or not _fits_beside(pod, node, len(its), cluster, plus, seats[node]):
            continue
        _add_pod(pod, node, plus)
        seats[node] += len(its)
        found += its
    return tuple(found)


def pod_of_placement(uid: str, placement: JobPlacement, cluster: ClusterCache) -> Pod | None:
    """The pod of the placement; for a future member, another member of its gang."""
    if gangs.is_future_member(uid):
        return next(iter(cluster.queue.gang_pods(placement.gang)), None)
    return cluster.queue.find_pod(uid) or cluster.pods.get(uid)


def _fits_beside(
    pod: Pod, node: str, containers: int, cluster: ClusterCache, plus: PlannedPods, seats: int
) -> bool:
    site = cluster.node_state(node)
    more = plus.use.get(node, NodeUsage())
    use = site.use + more if more.pods else site.use
    # The scheduler counts cards, CPUs and memory of a whole plan; pods per node and entries per
    # ledger it does not know.
    if (
        use.pods >= site.host.pods
        or len(site.ledger.entries) + seats + containers > site.ledger.slot_count
    ):
        return False
    rule = cluster.predicates.rule_of(pod)
    if plus.repelling:
        around = cluster.predicates.around
        space = (pod.namespace, pod.labels)
        away = []
        for _, terms in plus.repelling:
            for term in terms:
                if term.matches(*space, around.spaces):
                    away.append(term)
        if node in around.repelled_nodes(away, plus.repelling):
            return False
    return not isinstance(rule, PodDemand) or not cluster.predicates.why_not(
        rule, site.host, use, plus
    )


def _add_pod(pod: Pod, node: str, plus: PlannedPods) -> None:
    """Add the pod to what the placements after it are checked against."""
    plus.use[node] = plus.use.get(node, NodeUsage()) + sum_usage(ForeignUsage(), [pod])
    plus.seen.append(locate_pod(pod, node))
    if pod.needs is not NOTHING and pod.needs.apart:
        plus.repelling.append((node, pod.needs.apart))


def admitting_nodes(rule: Rule, cluster: ClusterCache) -> list[str]:
    """Nodes that can take a pod of that rule; cards are not compared."""
    nodes = []
    for site in cluster.node_states:
        if cluster.predicates.admits(rule, site.host, site.use):
            nodes.append(site.host.name)
    return nodes


def explain_rule(rule: Rule, cluster: ClusterCache) -> tuple[str, bool]:
    """Which parts of the rule exclude which nodes, and whether another node would help."""
    return summarize_reasons(
        [cluster.predicates.why_not(rule, site.host, site.use) for site in cluster.node_states]
    )


def crowded_gangs(cluster: ClusterCache) -> dict[str, str]:
    """Return the gangs that need more nodes than can take a member; by name, the reason."""
    apart = []
    for gang in cluster.queue.gang_names():
        rule = cluster.predicates.rule_of(cluster.queue.oldest_member(gang))
        if isinstance(rule, PodDemand):
            apart.append((gang, rule))
    # Only where something is compared: bringing the columns up to date is the costly part.
    if apart:
        cluster.refresh_columns()
    found: dict[str, str] = {}
    for gang, rule in apart:
        pod = cluster.queue.oldest_member(gang)
        present = cluster.members.present_members(gang)
        lacking = max(1, pod.gang_minimum - len(present.entered) - present.over)
        if rule.one_a_node and lacking > (nodes := len(admitting_nodes(rule, cluster))):
            found[gang] = (
                f"{lacking} members each want a node of their own, and {nodes} can take one now"
            )
    return found
