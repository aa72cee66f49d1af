"""What a write of a ledger names, so that it is refused where somebody else wrote since."""

from __future__ import annotations

import pytest

from gpupool.kubernetes.ledger import swap
from gpupool.kubernetes.objects import GpuNode
from gpupool.kubernetes.stretches import stretches
from tests.support.kube_builders import gpu_node


def named(node: GpuNode) -> dict[str, int]:
    patch = swap(node, stretches(node, (), now_ns=9))
    return {step["path"]: step["value"] for step in patch if step["op"] == "test"}


def paths(node: GpuNode, *, metered: bool = False, forget: bool = False) -> set[str]:
    return {step["path"] for step in swap(node, stretches(node, (), now_ns=9), metered=metered, forget=forget)}


def test_a_write_names_the_generation_and_the_clock_of_what_was_read() -> None:
    assert named(GpuNode("n", version=3, ledger_ns=7)) == {"/metadata/generation": 3, "/spec/ledgerNs": 7}


def test_a_ledger_that_was_never_written_has_no_clock() -> None:
    assert named(GpuNode("n", version=1)) == {"/metadata/generation": 1}


def test_a_ledger_that_is_metered_does_not_go_with_its_node() -> None:
    owners = "/metadata/ownerReferences"
    assert owners in paths(GpuNode("n", owned=True), metered=True)
    assert owners not in paths(GpuNode("n", owned=True), metered=False) | paths(GpuNode("n"), metered=True)


@pytest.mark.parametrize(("operations", "forgotten"), [((), False), (("Update",), True), (("Update", "Apply"), False)])
def test_who_wrote_which_field_is_forgotten_on_request_unless_somebody_applied_the_ledger(
    operations: tuple[str, ...], forgotten: bool
) -> None:
    made = gpu_node()
    made["metadata"]["managedFields"] = [{"manager": "m", "operation": one} for one in operations]
    node = GpuNode.from_json(made)
    assert "/metadata/managedFields" not in paths(node)
    assert ("/metadata/managedFields" in paths(node, forget=True)) is forgotten
