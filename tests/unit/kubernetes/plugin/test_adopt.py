"""Nodes are not adopted while containers hold their cards without an entry."""

from __future__ import annotations

from dataclasses import replace

from gpupool.kubernetes.plugin.adopt import list_unaccounted
from gpupool.kubernetes.resources.gpu_node import GpuNode
from gpupool.kubernetes.resources.gpu_node_status import SlotUse
from tests.support.kube_builders import gpu_node, pod

LEDGER = GpuNode.from_json(gpu_node(mode="observe"))


def test_a_node_whose_cards_are_held_without_an_entry_is_not_adopted() -> None:
    held = replace(
        LEDGER, slots=(SlotUse("uid-a", "main"), SlotUse("uid-a", "side"), SlotUse("gone", "main"))
    )
    refused = list_unaccounted(held, [pod("a")])
    assert refused.code == "GP-2036"
    assert (
        refused.message == "2 pods hold cards of n0 and are not in its ledger: default/a, pod gone"
    )
