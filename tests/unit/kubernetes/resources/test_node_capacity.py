"""A Node says how much of its cards gpupool hands out, and nothing once it hands out none."""

from __future__ import annotations

from gpupool.base.units import GIB
from gpupool.kubernetes.resources import names
from gpupool.kubernetes.resources.gpu_node import GpuNode
from gpupool.kubernetes.resources.node_capacity import (
    capacity_patch,
    read_capacities,
    wanted_capacities,
)
from tests.support.kube_builders import gpu_node

FOUR_CARDS = ((names.GPU_MILLI, 4000), (names.MEMORY, 4 * 48 * GIB))


def test_adopted_node_has_the_sum_of_its_cards() -> None:
    assert wanted_capacities(GpuNode.from_json(gpu_node())) == FOUR_CARDS


def test_node_that_hands_out_no_card_has_nothing() -> None:
    assert wanted_capacities(None) == ()
    assert wanted_capacities(GpuNode.from_json(gpu_node(mode="observe"))) == ()
    assert wanted_capacities(GpuNode.from_json(gpu_node(count=0))) == ()


def test_capacities_are_read_as_they_were_written() -> None:
    written = capacity_patch(FOUR_CARDS)["status"]
    assert written["capacity"] == written["allocatable"]
    assert read_capacities(written) == FOUR_CARDS
    assert read_capacities({"allocatable": {names.MEMORY: "2Gi", "cpu": "4"}}) == (
        (names.MEMORY, 2 * GIB),
    )
    assert read_capacities({}) == ()


def test_patch_removes_what_is_not_wanted() -> None:
    assert capacity_patch(())["status"]["capacity"] == {names.GPU_MILLI: None, names.MEMORY: None}
