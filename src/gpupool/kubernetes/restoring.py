"""Pods that were let go and stand in no ledger: a store was restored, a ledger deleted, a node replaced under them.

Such a pod cannot wear its gate again, and its containers do not start: the node's agent finds no entry for them. So it
waits for cards as others do, but for those of the node that it is bound or pinned to, and is not released again. A
pod that no node can be named for waits until it is bound. Pure.
"""

from __future__ import annotations

from dataclasses import replace

from gpupool.kubernetes.eligible import Constraint, Terms
from gpupool.kubernetes.needs import NOTHING
from gpupool.kubernetes.pods import Pod

LOST = "it was let go to its node and stands in no ledger, so its containers do not start"
_EVERYTHING = (("", "Exists", "", ""),)
"""A pod that is bound is not asked again what it tolerates."""


def is_let_go(pod: Pod) -> bool:
    """Whether it ought to have cards: a controller let it go, and it is not over. Who was bound past us gets none."""
    return pod.placed and not (pod.gated or pod.deleting or pod.ended or pod.problem)


def node_of(pod: Pod) -> str:
    """The one node that its cards can be on; empty where more than one is possible.

    >>> node_of(Pod("u", "a", "b", "1", (), 0, 0, Constraint(terms=pin("n0"))))
    'n0'
    """
    if pod.node:
        return pod.node
    named = {_named(term) for term in pod.constraint.terms or ()}
    return named.pop() if len(named) == 1 else ""


def as_it_waits(pod: Pod) -> Pod | None:
    """The pod as one that waits for cards of its node alone; None where no node can be named."""
    node = node_of(pod)
    if not (node and is_let_go(pod)):
        return None
    if not pod.node:
        return replace(pod, gang="")
    bound = Constraint(terms=pin(node), tolerations=_EVERYTHING, shares=pod.constraint.shares)
    # Its processors and memory are counted where it is bound.
    return replace(pod, gang="", constraint=bound, cpu_milli=0, host_bytes=0, needs=NOTHING)


def pin(node: str) -> Terms:
    """That node and no other."""
    return ((("field", "metadata.name", "In", (node,)),),)


def _named(term: tuple[tuple[str, str, str, tuple[str, ...]], ...]) -> str:
    """The node that a term names by its name alone; empty where it names none, or several."""
    named = [values for where, key, how, values in term if (where, key, how) == ("field", "metadata.name", "In")]
    return named[0][0] if named and len(named[0]) == 1 else ""
