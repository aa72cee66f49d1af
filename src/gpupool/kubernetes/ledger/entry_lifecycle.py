"""Decides what becomes of each entry of a ledger, given its pods. Pure.

An entry lives as long as its pod. It drains when the pod is over, and it is removed when the node's
agent has read that it drains and reports that no container uses its cards. Nothing else frees a
card, except that the node itself is gone. The decision is the same after any crash.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from types import MappingProxyType

from gpupool.kubernetes.resources import gang
from gpupool.kubernetes.resources.gpu_node import Entry, EntryState, EvictionOrder, GpuNode
from gpupool.kubernetes.resources.pod import Pod


def reconcile_entries(
    node: GpuNode,
    pods: Mapping[str, Pod],
    *,
    node_exists: bool = True,
    claimed: Mapping[str, Pod] = MappingProxyType({}),
    given_up: Container[str] = frozenset(),
    leaving: Mapping[str, EvictionOrder] = MappingProxyType({}),
    kept: Container[str] = frozenset(),
    returning: Container[str] = frozenset(),
    stay: Container[str] = frozenset(),
) -> tuple[Entry, ...]:
    """The node's entries as they should be now; equal to its entries where nothing must be written.

    Args:
        pods: managed pods by uid.
        node_exists: False frees every card of the node.
        claimed: by uid of a seat kept for a gang member, the pod that takes it.
        given_up: gangs whose unreleased seats are freed, and single seats of future members.
        leaving: by claim, the eviction order that its entry must hold. An entry that is not named
            here holds none.
        kept: pods that were never bound and are gone; their seats wait for a replacement.
        returning: departed gang members whose seats are kept for their replacements.
        stay: pods whose entries must not be removed now (`entry_withdrawal`).
    """
    if not node_exists:
        return ()
    living = list[Entry]()
    for entry in node.entries:
        if entry.uid in stay:
            living.append(entry)
        elif not is_given_up(entry, given_up, pods) and (
            now := _reconcile_entry(node, entry, pods, claimed, kept, returning)
        ):
            living.append(now)
    entries = []
    for entry in living:
        entries.append(_set_order(entry, pods.get(entry.uid), leaving, node.version + 1))
    return tuple(entries)


def _set_order(
    entry: Entry, pod: Pod | None, leaving: Mapping[str, EvictionOrder], version: int
) -> Entry:
    wanted = leaving.get(gang.job_name(entry.uid, entry.container), EvictionOrder())
    # A pod that goes by itself keeps the order that stands there: rewriting it would only cost a
    # write of the ledger.
    going = pod is None or pod.deleting or entry.state is EntryState.DRAINING
    if going or wanted == entry.order:
        return entry
    return replace(
        entry, leaving_for=wanted.beneficiary, leaving_at=wanted.pod_version, generation=version
    )


def is_given_up(entry: Entry, given_up: Container[str], pods: Mapping[str, Pod]) -> bool:
    """Whether the seat is freed at once: it is given up, and its pod is not known to be
    released."""
    return (entry.gang in given_up or entry.uid in given_up) and _is_unreleased(entry, pods)


def _is_unreleased(entry: Entry, pods: Mapping[str, Pod]) -> bool:
    """Whether nothing can have been prepared for the entry."""
    # A gated pod has no containers, and a member that does not exist has no pod: the agent's word
    # is not needed before such a seat is freed.
    pod = pods.get(entry.uid)
    return entry.state is EntryState.RESERVED and (
        gang.is_future_member(entry.uid) or (pod is not None and pod.gated)
    )


def _reconcile_entry(
    node: GpuNode,
    entry: Entry,
    pods: Mapping[str, Pod],
    claimed: Mapping[str, Pod],
    kept: Container[str],
    returning: Container[str],
) -> Entry | None:
    if gang.is_future_member(entry.uid) or entry.uid in kept:
        taker = claimed.get(entry.uid)
        return entry if taker is None else gang.take_seat(entry, taker, node.version + 1)
    pod = pods.get(entry.uid)
    if entry.state is EntryState.DRAINING:
        if not _is_let_go(node, entry):
            return entry
        return gang.keep_seat(entry, node.version + 1) if entry.uid in returning else None
    if pod is None or pod.ended or (pod.node and pod.node != node.name):
        return replace(entry, state=EntryState.DRAINING, generation=node.version + 1)
    if entry.state is EntryState.RESERVED and _is_in_use(node, entry):
        return replace(entry, state=EntryState.ACTIVE)
    return entry


def _is_let_go(node: GpuNode, entry: Entry) -> bool:
    """Whether the agent has read that the entry drains, and holds nothing for it."""
    # Without the generation a report from before the entry would count: the agent may just be
    # preparing it.
    return node.observed >= entry.generation and not _is_in_use(node, entry)


def _is_in_use(node: GpuNode, entry: Entry) -> bool:
    return any(use.key == entry.key and not use.released for use in node.slots)
