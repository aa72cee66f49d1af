"""What adopting and releasing a node changes, before anything is changed. Pure.

Of two that hand out the same card neither keeps a promise. So other plugins leave a node first, by
labels that they themselves look at, and its cards are ours when the node offers none by others'
names any more and no pod uses one. What labels were before is kept on the Node, for the way back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpupool.base import quantities
from gpupool.kubernetes.plugin.others import Plugin, offered_cards
from gpupool.kubernetes.resources import names, node_capacity
from gpupool.kubernetes.resources.gpu_node import GpuNode, Mode
from gpupool.kubernetes.resources.node_affinity import NodeConstraint

Json = Mapping[str, Any]
Labels = Mapping[str, str | None]


@dataclass(frozen=True)
class Adoption:
    """`labels`: what the Node's become (None: it goes). `staying`: plugins that no label takes
    away."""

    node: GpuNode
    mode: Mode
    labels: Labels
    had: Labels
    offered: Mapping[str, int]
    leaving: tuple[Plugin, ...] = ()
    staying: tuple[Plugin, ...] = ()

    def lines(self) -> list[str]:
        """Every change, in the order in which they are made."""
        name = self.node.name
        known = node_capacity.wanted_capacities(_in_mode(self.node, self.mode))
        sums = ", ".join(f"{key}={quantities.format_bytes(size)}" for key, size in known)
        return [
            *(_label_line(name, key, self.labels[key], self.had.get(key)) for key in self.labels),
            *(f"have {one.owner} ({one.namespace}/{one.name}) leave it" for one in self.leaving),
            *(
                [f"wait until it offers no {_format_amounts(self.offered)} any more"]
                if self.offered
                else []
            ),
            f"set spec.mode of GpuNode {name} to {self.mode} (now {self.node.mode})",
            f"have the kubelet tell {names.SLOT}={self.node.slot_count} in its status, by the plugin of its agent",
            f"have the controller tell {sums} in its status",
        ]

    def node_patch(self, found: Json) -> dict[str, Any] | None:
        """A merge patch of the Node as it is now; what an adoption before this one kept is kept."""
        if not self.labels:
            return None
        meta = found["metadata"]
        kept = {**self.had, **json.loads((meta.get("annotations") or {}).get(names.BEFORE, "{}"))}
        notes = {names.BEFORE: json.dumps(kept, sort_keys=True)}
        changed = {"labels": dict(self.labels), "annotations": notes}
        return {"metadata": {"resourceVersion": meta["resourceVersion"], **changed}}


def adoption(node: GpuNode, found: Json, plugins: Sequence[Plugin], mode: Mode) -> Adoption:
    """What it takes that `mode` holds on the node; `found` is its Node object."""
    labels = found["metadata"].get("labels") or {}
    here = []
    for plugin in plugins:
        if plugin.runs_on(node.name, labels):
            here.append(plugin)
    wanted: dict[str, str | None] = {names.MODE: mode.value}
    for plugin in here:
        if plugin.runs_on(node.name, _apply_labels(labels, wanted)):
            wanted |= plugin.switches()
    after = _apply_labels(labels, wanted)
    changed = {}
    for key, value in wanted.items():
        if labels.get(key) != value:
            changed[key] = value
    leaving = []
    for one in here:
        if not one.runs_on(node.name, after):
            leaving.append(one)
    return Adoption(
        node,
        mode,
        changed,
        {key: labels.get(key) for key in changed},
        offered_cards(found),
        tuple(leaving),
        tuple(one for one in here if one.runs_on(node.name, after)),
    )


def way_back(found: Json) -> Labels:
    """The labels that make the Node what it was before it was adopted."""
    meta = found["metadata"]
    before: dict[str, str | None] = json.loads(
        (meta.get("annotations") or {}).get(names.BEFORE, "{}")
    )
    labels = meta.get("labels") or {}
    restored = {}
    for key, value in {**before, names.MODE: None}.items():
        if labels.get(key) != value:
            restored[key] = value
    return restored


def restoring(found: Json) -> dict[str, Any] | None:
    """A merge patch of the Node; None where nothing has to be changed."""
    labels = way_back(found)
    if not labels and names.BEFORE not in (found["metadata"].get("annotations") or {}):
        return None
    meta = {"resourceVersion": found["metadata"]["resourceVersion"], "labels": dict(labels)}
    return {"metadata": {**meta, "annotations": {names.BEFORE: None}}}


def back_lines(name: str, found: Json) -> list[str]:
    labels = found["metadata"].get("labels") or {}
    lines = []
    for key, value in way_back(found).items():
        lines.append(_label_line(name, key, value, labels.get(key)))
    return lines


def waits_only_for(name: str, pod: Json, nodes: Sequence[Json]) -> bool:
    """Whether the pod may go to that node and, by what it says of nodes, to no other. Taints come
    and go, so no."""
    rule = NodeConstraint.of(pod["spec"])
    able = []
    for one in nodes:
        if rule.admits(one["metadata"]["name"], one["metadata"].get("labels") or {}, ()):
            able.append(one["metadata"]["name"])
    return able == [name]


def set_mode(node: GpuNode, mode: Mode) -> list[dict[str, Any]]:
    """Return a JSON patch that is refused if the ledger was written since it was read."""
    return [
        {"op": "test", "path": "/metadata/generation", "value": node.version},
        {"op": "replace", "path": "/spec/mode", "value": mode.value},
    ]


def _in_mode(node: GpuNode, mode: Mode) -> GpuNode:
    return GpuNode(node.name, mode, cards=node.cards)


def _apply_labels(labels: Mapping[str, str], changed: Labels) -> dict[str, str]:
    applied = {}
    for key, value in {**labels, **changed}.items():
        if value is not None:
            applied[key] = value
    return applied


def _label_line(node: str, key: str, value: str | None, had: str | None) -> str:
    was = "" if had is None else f" (now {had})"
    return (
        f"remove label {key} of node {node}{was}"
        if value is None
        else f"label node {node} {key}={value}{was}"
    )


def _format_amounts(amounts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ({amount} now)" for name, amount in amounts.items())
