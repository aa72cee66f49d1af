"""What has to become of a ledger, seen from its pods: pure, and the same again after any crash.

An entry lives as long as its pod: it drains when the pod is over, and goes when the node's agent has acted upon that
and says that nothing of the container is on the cards any more. No other word frees a card, but for that of a node that
is no more.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from types import MappingProxyType

from gpupool.kubernetes import gangs
from gpupool.kubernetes.objects import Entry, EntryState, GpuNode, Order
from gpupool.kubernetes.pods import Pod


def settled(
    node: GpuNode,
    pods: Mapping[str, Pod],
    *,
    node_exists: bool = True,
    claimed: Mapping[str, Pod] = MappingProxyType({}),
    given_up: Container[str] = frozenset(),
    leaving: Mapping[str, Order] = MappingProxyType({}),
    kept: Container[str] = frozenset(),
    returning: Container[str] = frozenset(),
    stay: Container[str] = frozenset(),
) -> tuple[Entry, ...]:
    """The node's entries as they ought to be now; equal to what they are where nothing has to be written.

    `claimed`: by seat that was kept for a member of a gang, the pod that takes it. `given_up`: gangs that do not come
    together, whose seats go unless their pod was released, and single seats of members to come. `leaving`: by claim the
    order to leave that ought to stand there; where it is not among them, none does. `kept`: pods that were never bound
    and are gone, whose seats wait for an heir. `returning`: pods of gangs that are gone, whose seats wait for the ones
    made in their place. `stay`: pods whose entries do not go now (`withdrawing`).
    """
    if not node_exists:
        return ()
    living = list[Entry]()
    for entry in node.entries:
        if entry.uid in stay:
            living.append(entry)
        elif not is_given_up(entry, given_up, pods) and (now := _settled(node, entry, pods, claimed, kept, returning)):
            living.append(now)
    return tuple(_leaving(entry, pods.get(entry.uid), leaving, node.version + 1) for entry in living)


def _leaving(entry: Entry, pod: Pod | None, leaving: Mapping[str, Order], version: int) -> Entry:
    wanted = leaving.get(gangs.job_name(entry.uid, entry.container), Order())
    going = pod is None or pod.deleting or entry.state is EntryState.DRAINING
    if going or wanted == entry.order:
        return entry
    return replace(entry, leaving_for=wanted.whom, leaving_at=wanted.at, generation=version)


def is_given_up(entry: Entry, given_up: Container[str], pods: Mapping[str, Pod]) -> bool:
    """Whether the seat goes at once: it is given up, and nobody was let go by it as far as is known."""
    return (entry.gang in given_up or entry.uid in given_up) and _unreleased(entry, pods)


def _unreleased(entry: Entry, pods: Mapping[str, Pod]) -> bool:
    """Nothing can have been prepared for it: its pod still wears the gate, or does not exist yet."""
    pod = pods.get(entry.uid)
    return entry.state is EntryState.RESERVED and (gangs.expected(entry.uid) or (pod is not None and pod.gated))


def _settled(
    node: GpuNode,
    entry: Entry,
    pods: Mapping[str, Pod],
    claimed: Mapping[str, Pod],
    kept: Container[str],
    returning: Container[str],
) -> Entry | None:
    if gangs.expected(entry.uid) or entry.uid in kept:
        taker = claimed.get(entry.uid)
        return entry if taker is None else gangs.as_taken(entry, taker, node.version + 1)
    pod = pods.get(entry.uid)
    if entry.state is EntryState.DRAINING:
        if not _let_go(node, entry):
            return entry
        return gangs.as_kept(entry, node.version + 1) if entry.uid in returning else None
    if pod is None or pod.ended or (pod.node and pod.node != node.name):
        return replace(entry, state=EntryState.DRAINING, generation=node.version + 1)
    if entry.state is EntryState.RESERVED and _in_use(node, entry):
        return replace(entry, state=EntryState.ACTIVE)
    return entry


def _let_go(node: GpuNode, entry: Entry) -> bool:
    """The agent has read that it drains, and holds nothing for it."""
    return node.observed >= entry.generation and not _in_use(node, entry)


def _in_use(node: GpuNode, entry: Entry) -> bool:
    return any(use.key == entry.key and not use.released for use in node.slots)
