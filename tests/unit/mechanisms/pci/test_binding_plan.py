"""What a hand-over needs to know of a card: its nodes, its interrupts, its resets."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.mechanisms.pci.binding_plan import (
    describe_interrupts,
    describe_reset,
    find_binding_problem,
    list_card_nodes,
    plan_binding,
)
from gpupool.mechanisms.pci.sysfs import PciTree
from tests.support.handover_builders import AUDIO, CARD, build_card_machine
from tests.support.pci_kernel import FakeKernel, FunctionFacts, add_function


@pytest.fixture
def tree(tmp_path: Path) -> PciTree:
    return PciTree(build_card_machine(tmp_path / "root"))


def test_nodes_of_drm_and_of_the_probe_are_found(tree: PciTree) -> None:
    (tree.locate(CARD) / "drm/renderD128").mkdir(parents=True)
    (tree.root / "dev/dri").mkdir()
    (tree.root / "dev/dri/renderD128").touch()
    (tree.root / "dev/nvidia0").touch()
    nodes = list_card_nodes(tree, CARD, ("/dev/nvidia0", "/dev/nvidia9"))
    assert [node.name for node in nodes] == ["nvidia0", "renderD128"]


def test_interrupts_are_counted_and_arm_says_what_they_need(tree: PciTree) -> None:
    functions = [tree.describe(CARD), tree.describe(AUDIO)]
    assert describe_interrupts(tree, functions, "x86_64") == "interrupts: 12 vectors"
    assert describe_interrupts(tree, functions, "aarch64") == (
        "interrupts: 12 vectors, each of which needs a mapping in the ITS; "
        "with a reserved MSI window"
    )
    (tree.root / "sys/kernel/iommu_groups/10/reserved_regions").write_text("")
    assert "without a reserved MSI window" in describe_interrupts(tree, functions, "aarch64")


def test_resets_are_told_for_each_function(tree: PciTree) -> None:
    add_function(tree.root, FunctionFacts("0000:3b:00.0", 30, reset=""))
    functions = [tree.describe(CARD), tree.describe("0000:3b:00.0")]
    assert describe_reset(functions) == (f"reset: {CARD} by flr or bus, 0000:3b:00.0 by nothing")


def test_bridges_stay_and_functions_go_back_in_reverse(tree: PciTree) -> None:
    functions = [tree.describe(one) for one in (CARD, AUDIO, "0000:00:01.0")]
    plan = plan_binding(tree, functions)
    assert [one["address"] for one in plan.enter] == [CARD, AUDIO]
    assert [one["address"] for one in plan.leave] == [AUDIO, CARD]
    assert plan.leave[1]["driver"] == "nvidia"


def test_a_function_without_a_node_cannot_be_opened(tree: PciTree) -> None:
    plan = plan_binding(tree, [tree.describe(CARD)])
    assert "is on driver nvidia, expected vfio-pci" in find_binding_problem(tree, plan.functions)
    kernel = FakeKernel(tree.root)
    kernel.write(tree.locate(CARD) / "driver_override", "vfio-pci")
    kernel.write(tree.locate(CARD) / "driver/unbind", CARD)
    kernel.write(tree.root / "sys/bus/pci/drivers_probe", CARD)
    assert find_binding_problem(tree, plan.functions) == ""
    (tree.root / "dev/vfio/10").unlink()
    assert "has no device node" in find_binding_problem(tree, plan.functions)
