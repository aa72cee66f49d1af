"""Writes a node's ledger: a compare-and-swap of `GpuNode.spec.allocations`.

The patch tests `metadata.generation`, which changes with the spec alone: an agent's report is no
conflict, another write of the ledger is. It also tests the ledger's clock, because a server that
was restored from a backup counts generations again. So no card is given out twice, not even by two
controllers that both believe they lead. The same patch records since when new entries are held, and
the intervals that ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpupool.base.errors import ApiServerRejection
from gpupool.kubernetes.client.api import JSON_PATCH, METADATA, KubeApi
from gpupool.kubernetes.ledger.billing_intervals import (
    LedgerUpdate,
    is_overflowing,
    plan_update,
    unreported_intervals,
)
from gpupool.kubernetes.ledger.journal import IntervalJournal
from gpupool.kubernetes.resources import managed_fields, names
from gpupool.kubernetes.resources.closed_intervals import ClosedInterval
from gpupool.kubernetes.resources.gpu_node import Entry, GpuNode, Mode

NODES = f"/apis/{names.API_VERSION}/gpunodes"


def overcommitted_cards(node: GpuNode) -> list[str]:
    """Cards of which more is held than exists, and held cards that the node never had.

    >>> overcommitted_cards(GpuNode("n"))
    []
    """
    overcommitted = []
    for uuid, left in node.free_amounts().items():
        if left.gpu_milli < 0 or left.memory_bytes < 0:
            overcommitted.append(uuid)
    return sorted(overcommitted)


def build_swap_patch(
    node: GpuNode, then: LedgerUpdate, *, metered: bool = False, forget: bool = False
) -> list[dict[str, Any]]:
    """The JSON patch that makes `then` the node's ledger if its spec was not written since it was
    read.

    Args:
        metered: remove the owner reference, so that the ledger outlives its Node until the meter
            has reported its intervals (`orphaned_ledgers`).
        forget: clear the record of field managers (`managed_fields`).
    """
    # The tests come first: RFC 6902 applies operations in order and the whole patch or nothing.
    found: list[dict[str, Any]] = [
        {"op": "test", "path": "/metadata/generation", "value": node.version}
    ]
    # A ledger that was never written has no clock; a test of a missing path fails.
    if node.ledger_ns:
        found.append({"op": "test", "path": "/spec/ledgerNs", "value": node.ledger_ns})
    found.append(
        {"op": "add", "path": "/spec/allocations", "value": node.format_entries(then.entries)}
    )
    found.append({"op": "add", "path": "/spec/ledgerNs", "value": then.at_ns})
    if then.ended != node.ended:
        found.append(
            {"op": "add", "path": "/spec/ended", "value": [one.to_json() for one in then.ended]}
        )
    if forget and node.tracked:
        found.append(
            {"op": "add", "path": "/metadata/managedFields", "value": managed_fields.FORGOTTEN}
        )
    if metered and node.owned:
        found.append({"op": "add", "path": "/metadata/ownerReferences", "value": []})
    return found


async def write_entries(
    api: KubeApi,
    node: GpuNode,
    entries: Sequence[Entry],
    now_ns: int,
    journal: IntervalJournal | None = None,
    *,
    forget: bool = False,
) -> GpuNode | None:
    """Swap the entries of the ledger. Not idempotent: the second call is a conflict.

    The answer carries the metadata alone. A whole ledger is expensive for the API server to encode
    and for us to parse, and the watch reports it anyway.

    Args:
        now_ns: wall clock, in nanoseconds since the epoch.
        journal: where closed intervals go that do not fit; None where nothing is metered.
        forget: clear the record of field managers (`managed_fields`).

    Returns:
        The ledger as written, or None if another writer came first or it is gone.

    Raises:
        ApiServerRejection: the API server refused the write for any other reason.
        ServiceUnavailable: the API server cannot be reached.
    """
    then = plan_update(node, entries, now_ns)
    if journal is None:
        then = replace(then, ended=())
    # The page before the ledger: a crash between the two leaves the intervals in both, and the
    # meter counts them once. In the other order they would be lost.
    elif (before := _intervals_for_journal(node, then)) and await journal.store_page(
        node.name, before
    ):
        then = replace(then, ended=then.ended[len(before) :])
    patch = build_swap_patch(node, then, metered=journal is not None, forget=forget)
    try:
        found = await api.patch(f"{NODES}/{node.name}", patch, JSON_PATCH, METADATA)
    except ApiServerRejection as error:
        if error.is_conflict or error.is_not_found:
            return None
        raise
    return _as_written(node, then, found["metadata"])


def _as_written(node: GpuNode, then: LedgerUpdate, meta: Mapping[str, Any]) -> GpuNode:
    return replace(
        node,
        entries=then.entries,
        ended=then.ended,
        ledger_ns=then.at_ns,
        version=meta["generation"],
        written=meta["resourceVersion"],
        owned=bool(meta.get("ownerReferences")),
        tracked=managed_fields.is_unused(meta),
        assumed=True,
    )


def reuse_entries(found: Mapping[str, Any], known: GpuNode | None) -> tuple[Entry, ...] | None:
    """The known entries if the ledger just read has the same ones; None if they must be parsed.

    Most changes of a ledger are reports of its agent, which leave the entries as they are.
    """
    spec = found.get("spec") or {}
    if known is None or not known.ledger_ns or found["metadata"].get("generation") != known.version:
        return None
    if known.assumed and spec.get("allocations") != known.format_entries(known.entries):
        return None  # an admission webhook has changed what we wrote
    return known.entries if spec.get("ledgerNs") == known.ledger_ns else None


def _intervals_for_journal(node: GpuNode, then: LedgerUpdate) -> tuple[ClosedInterval, ...]:
    """Return the intervals that the ledger has no space for."""
    # Only while an interval ends in this write: a ledger then never is without an unreported
    # interval while its journal has one, so the ledger alone shows whether all was reported.
    before = unreported_intervals(node)
    return before if is_overflowing(then) and len(then.ended) > len(before) else ()


async def set_observe_mode(api: KubeApi, node: GpuNode) -> None:
    """Stop handing out cards by this ledger.

    Raises:
        ApiServerRejection: a conflict if the spec was written since it was read.
    """
    patch: list[dict[str, Any]] = [
        {"op": "test", "path": "/metadata/generation", "value": node.version},
        {"op": "add", "path": "/spec/mode", "value": Mode.OBSERVE.value},
    ]
    await api.patch(f"{NODES}/{node.name}", patch, JSON_PATCH)


async def delete_ledger(api: KubeApi, node: GpuNode) -> None:
    """Delete the ledger as it was read.

    Raises:
        ApiServerRejection: a conflict if anything of it has changed.
    """
    options = {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "preconditions": {"resourceVersion": node.written},
    }
    await api.delete(f"{NODES}/{node.name}", options)


async def read_ledger(api: KubeApi, name: str) -> GpuNode | None:
    """The node's ledger as it is now; None if there is none."""
    found = await read_ledger_json(api, name)
    return None if found is None else GpuNode.from_json(found)


async def read_ledger_json(api: KubeApi, name: str) -> dict[str, Any] | None:
    """The same as the API server writes it; never older than what any client has read before."""
    try:
        return await api.get(f"{NODES}/{name}")
    except ApiServerRejection as error:
        if error.is_not_found:
            return None
        raise


def new_ledger(name: str, owner: Mapping[str, Any], mode: Mode = Mode.OBSERVE) -> dict[str, Any]:
    """A ledger for a Node that has none. It is deleted with its Node unless it is metered."""
    owned = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": owner["metadata"]["uid"]}
    return {
        "apiVersion": names.API_VERSION,
        "kind": "GpuNode",
        "metadata": {"name": name, "ownerReferences": [owned]},
        "spec": {"mode": mode.value, "allocations": []},
    }


def by_pod(entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    """Entries of each pod, in order."""
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        found.setdefault(entry.uid, []).append(entry)
    return found
