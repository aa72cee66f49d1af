"""Handles released pods that have no entry: a store was restored, a ledger deleted, a node
replaced.

The gate of such a pod cannot be set again, and its containers do not start, because the node's
agent finds no entry for them. So the pod waits for cards like other pods, but only for cards of the
node it is bound or pinned to, and it is not released again. A pod for which no single node can be
named waits until it is bound. Pure.
"""

from __future__ import annotations

from dataclasses import replace

from gpupool.kubernetes.resources.node_affinity import NodeConstraint, Terms
from gpupool.kubernetes.resources.pod import Pod
from gpupool.kubernetes.resources.pod_constraints import NOTHING

LOST = "it was let go to its node and stands in no ledger, so its containers do not start"
#: Tolerates every taint: a bound pod is on its node whatever the node's taints are.
_EVERYTHING = (("", "Exists", "", ""),)


def is_released(pod: Pod) -> bool:
    """Whether a controller released the pod and it has not ended: it should have cards.

    A pod that was bound without going through the gate gets none.
    """
    return pod.placed and not (pod.gated or pod.deleting or pod.ended or pod.problem)


def required_node(pod: Pod) -> str:
    """The one node that the pod's cards can be on; empty if several are possible.

    >>> required_node(Pod("u", "a", "b", "1", (), 0, 0, NodeConstraint(terms=pin_to_node("n0"))))
    'n0'
    """
    if pod.node:
        return pod.node
    named = {_named_node(term) for term in pod.constraint.terms or ()}
    return named.pop() if len(named) == 1 else ""


def as_waiting(pod: Pod) -> Pod | None:
    """The pod as one that waits for cards of its node alone; None if no node can be named."""
    node = required_node(pod)
    if not (node and is_released(pod)):
        return None
    if not pod.node:
        return replace(pod, gang="")
    bound = NodeConstraint(
        terms=pin_to_node(node), tolerations=_EVERYTHING, shares=pod.constraint.shares
    )
    # A bound pod's CPUs and memory are counted on its node already; asked for again, they would not
    # fit beside themselves.
    return replace(pod, gang="", constraint=bound, cpu_milli=0, host_bytes=0, needs=NOTHING)


def pin_to_node(node: str) -> Terms:
    """Node affinity terms that match this node alone."""
    return ((("field", "metadata.name", "In", (node,)),),)


def _named_node(term: tuple[tuple[str, str, str, tuple[str, ...]], ...]) -> str:
    """The node that a term names by its name alone; empty where it names none, or several."""
    named = []
    for where, key, how, values in term:
        if (where, key, how) == ("field", "metadata.name", "In"):
            named.append(values)
    return named[0][0] if named and len(named[0]) == 1 else ""
