"""Writing a node's ledger: compare and swap on `GpuNode.spec.allocations`, and nothing else.

The patch tests `metadata.generation`, which moves with the spec alone: an agent's report is no conflict, another writer
of the ledger is. It tests the ledger's clock too: a server with an older copy of its store counts generations again.
So no card is given out twice, even by two controllers that both believe to lead. The same patch says since when what
is new is held, and keeps what ended until it is in the books.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpupool.base.errors import ApiRefused
from gpupool.kubernetes import names, tracking
from gpupool.kubernetes.api import JSON_PATCH, METADATA, KubeApi
from gpupool.kubernetes.ended import Ended
from gpupool.kubernetes.journal import Journal
from gpupool.kubernetes.objects import Entry, GpuNode, Mode
from gpupool.kubernetes.stretches import Stretches, stretches, too_many, untold

NODES = f"/apis/{names.API_VERSION}/gpunodes"


def over_committed(node: GpuNode) -> list[str]:
    """Cards of which more is held than there is, and entries on cards that the node never had.

    >>> over_committed(GpuNode("n"))
    []
    """
    free = node.free()
    return sorted(uuid for uuid, left in free.items() if left.gpu_milli < 0 or left.memory_bytes < 0)


def swap(node: GpuNode, then: Stretches, *, metered: bool = False, forget: bool = False) -> list[dict[str, Any]]:
    """The patch that makes this the node's ledger, if nobody wrote its spec since it was read.

    One that is metered does not go with its Node any more: it may keep what is not in the books (`orphans`).
    """
    found: list[dict[str, Any]] = [
        {"op": "test", "path": "/metadata/generation", "value": node.version},
        *([{"op": "test", "path": "/spec/ledgerNs", "value": node.ledger_ns}] if node.ledger_ns else []),
        {"op": "add", "path": "/spec/allocations", "value": node.written_as(then.entries)},
        {"op": "add", "path": "/spec/ledgerNs", "value": then.at_ns},
    ]
    if then.ended != node.ended:
        found.append({"op": "add", "path": "/spec/ended", "value": [one.to_json() for one in then.ended]})
    if forget and node.tracked:
        found.append({"op": "add", "path": "/metadata/managedFields", "value": tracking.FORGOTTEN})
    if metered and node.owned:
        found.append({"op": "add", "path": "/metadata/ownerReferences", "value": []})
    return found


async def write(
    api: KubeApi,
    node: GpuNode,
    entries: Sequence[Entry],
    now_ns: int,
    journal: Journal | None = None,
    *,
    forget: bool = False,
) -> GpuNode | None:
    """Swap the entries; the node as it is then, or None where somebody else wrote first. Twice is a conflict.

    The answer tells the new version alone: a whole ledger costs the API server to encode and us to read, and the watch
    tells it in any case, with what the agent reported since `node` was read.
    `now_ns` is the wall clock. What ends is kept where there is a journal for it, and forgotten where nobody meters.
    `forget` clears the record of who wrote which field (`tracking`).
    """
    then = stretches(node, entries, now_ns)
    if journal is None:
        then = replace(then, ended=())
    elif (before := _for_journal(node, then)) and await journal.put(node.name, before):
        then = replace(then, ended=then.ended[len(before) :])
    patch = swap(node, then, metered=journal is not None, forget=forget)
    try:
        found = await api.patch(f"{NODES}/{node.name}", patch, JSON_PATCH, METADATA)
    except ApiRefused as error:
        if error.conflict or error.gone:
            return None
        raise
    return _as_written(node, then, found["metadata"])


def _as_written(node: GpuNode, then: Stretches, meta: Mapping[str, Any]) -> GpuNode:
    return replace(
        node,
        entries=then.entries,
        ended=then.ended,
        ledger_ns=then.at_ns,
        version=meta["generation"],
        written=meta["resourceVersion"],
        owned=bool(meta.get("ownerReferences")),
        tracked=tracking.is_useless(meta),
        assumed=True,
    )


def same_entries(found: Mapping[str, Any], known: GpuNode | None) -> tuple[Entry, ...] | None:
    """The entries that are known, where the ledger as it was found has the same: only its agent has reported since."""
    spec = found.get("spec") or {}
    if known is None or not known.ledger_ns or found["metadata"].get("generation") != known.version:
        return None
    if known.assumed and spec.get("allocations") != known.written_as(known.entries):
        return None  # somebody's admission has changed what we wrote
    return known.entries if spec.get("ledgerNs") == known.ledger_ns else None


def _for_journal(node: GpuNode, then: Stretches) -> tuple[Ended, ...]:
    """What is too much for the ledger, where something ends now.

    So a ledger is never without an untold end while its journal has one: who reads it knows whether all is told.
    """
    before = untold(node)
    return before if too_many(then) and len(then.ended) > len(before) else ()


async def let_be(api: KubeApi, node: GpuNode) -> None:
    """Nothing is handed out by this ledger any more. Raises ApiRefused, as a conflict where somebody wrote first."""
    patch: list[dict[str, Any]] = [
        {"op": "test", "path": "/metadata/generation", "value": node.version},
        {"op": "add", "path": "/spec/mode", "value": Mode.OBSERVE.value},
    ]
    await api.patch(f"{NODES}/{node.name}", patch, JSON_PATCH)


async def remove(api: KubeApi, node: GpuNode) -> None:
    """Delete the ledger as it was read. Raises ApiRefused, as a conflict where anything of it has changed."""
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"resourceVersion": node.written}}
    await api.delete(f"{NODES}/{node.name}", options)


async def read(api: KubeApi, name: str) -> GpuNode | None:
    """The node's ledger as it is now."""
    found = await read_json(api, name)
    return None if found is None else GpuNode.from_json(found)


async def read_json(api: KubeApi, name: str) -> dict[str, Any] | None:
    """The same, as the API server writes it: never older than what anybody has read before."""
    try:
        return await api.get(f"{NODES}/{name}")
    except ApiRefused as error:
        if error.gone:
            return None
        raise


def new_node(name: str, owner: Mapping[str, Any], mode: Mode = Mode.OBSERVE) -> dict[str, Any]:
    """A ledger for a Node that has none; it goes with its Node, unless it is metered."""
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
