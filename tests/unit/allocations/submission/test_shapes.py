"""Requested amounts per card: what makes sense for no card is refused with the numbers."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.allocations.submission.shapes import check_level, check_shape
from gpupool.base.errors import BadFraction, BadOption, BadQuantity, GpupoolError, UnknownProfile
from gpupool.base.units import GIB, MIB
from gpupool.model.claim import Shape, TopologyConstraint
from gpupool.model.isolation.claim_needs import ClaimGoal, ClaimNeeds, IsolationKind
from gpupool.wire.submissions import NeedsIn, ShapeIn
from tests.support.gang_builders import racked
from tests.support.scheduling_builders import cards


def test_check_shape_rounds_memory_up_to_mib_and_sorts_labels() -> None:
    asked = ShapeIn(
        gpu_milli=500, memory_bytes=MIB + 1, host_bytes=1, labels={"zone": "b", "disk": "fast"}
    )
    shape = check_shape(asked)
    assert (shape.memory_bytes, shape.host_bytes) == (2 * MIB, MIB)
    assert shape.labels == (("disk", "fast"), ("zone", "b"))
    assert check_shape(ShapeIn(gpu_milli=500)).memory_bytes is None


@pytest.mark.parametrize("amount", [1, 1000])
def test_check_shape_takes_the_smallest_and_the_whole_card(amount: int) -> None:
    assert check_shape(ShapeIn(gpu_milli=amount, count=100_000)).gpu_milli == amount


@pytest.mark.parametrize(
    ("asked", "error", "says"),
    [
        ({"gpu_milli": 0}, BadFraction, "0 of a card per card"),
        ({"gpu_milli": 1001}, BadFraction, "1.001 of a card per card"),
        ({"count": -1}, BadOption, "--count -1"),
        ({"count": 100_001}, BadOption, "--count 100001"),
        ({"memory_bytes": 0}, BadQuantity, "0 bytes of memory"),
        ({"cpu_milli": -1}, BadQuantity, "-0.001 processors"),
        ({"host_bytes": -1}, BadQuantity, "of main memory cannot be given"),
    ],
)
def test_check_shape_refuses_what_no_card_can_give(
    asked: dict[str, Any], error: type[GpupoolError], says: str
) -> None:
    with pytest.raises(error, match=says):
        check_shape(ShapeIn(**{"gpu_milli": 500, **asked}))


def test_check_shape_of_a_partition_needs_cards_that_can_be_cut() -> None:
    with pytest.raises(BadOption, match=r"a reservation holds cards and shares, no partitions"):
        check_shape(ShapeIn(profile="1g"))
    with pytest.raises(UnknownProfile, match="no H200 cards of this pool can be cut into"):
        check_shape(ShapeIn(profile="1g", model="H200"), cards("1x2xH200"))
    with pytest.raises(BadOption, match="has the compute and memory of its profile"):
        check_shape(ShapeIn(profile="1g", gpu_milli=1), cards("1x2xH200"))


def test_check_level_knows_links_and_labels_but_not_a_whole_system() -> None:
    pool = racked("2x1xH200", rack=(0, 1))
    for level in ("rack", "node"):
        check_level(Shape(500, within=TopologyConstraint(required=level)), pool)
    for level in ("row", "system"):
        wrong = Shape(500, within=TopologyConstraint(preferred=level))
        with pytest.raises(BadOption, match=f"knows the level '{level}'") as refused:
            check_level(wrong, pool)
        assert "rack" in refused.value.hint


def test_check_shape_keeps_what_is_demanded_of_the_mechanism() -> None:
    asked = ShapeIn(gpu_milli=500, needs=NeedsIn(isolation="hard", goal="latency"))
    shape = check_shape(asked, cards("1x2xH200"))
    assert shape.needs == ClaimNeeds(IsolationKind.HARD, ClaimGoal.LATENCY)
    with pytest.raises(BadOption, match="a reservation holds cards for any mechanism"):
        check_shape(asked)


def test_check_shape_without_a_card_has_processors_and_memory_of_a_node() -> None:
    pool = cards("1x2xH200")
    shape = check_shape(ShapeIn(count=0, cpu_milli=2000, host_bytes=GIB, sharing="fixed"), pool)
    assert shape == Shape(0, None, 0, cpu_milli=2000, host_bytes=GIB)
    assert str(shape) == "no GPU"


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"gpu_milli": 500, "cpu_milli": 1}, "without a card"),
        ({"memory_bytes": MIB, "cpu_milli": 1}, "without a card"),
        ({"model": "H200", "cpu_milli": 1}, "without a card"),
        ({"sharing": "mps", "cpu_milli": 1}, "without a card"),
        ({"needs": {"isolation": "hard"}, "cpu_milli": 1}, "without a card"),
        ({"within": {"required": "node"}, "cpu_milli": 1}, "without a card"),
        ({}, "needs processors or main memory"),
    ],
)
def test_check_shape_without_a_card_refuses_what_only_cards_have(
    asked: dict[str, Any], says: str
) -> None:
    with pytest.raises(BadOption, match=says):
        check_shape(ShapeIn.model_validate({"count": 0, **asked}), cards("1x2xH200"))


def test_check_shape_of_a_reservation_needs_a_card() -> None:
    with pytest.raises(BadOption, match="a reservation holds cards"):
        check_shape(ShapeIn(count=0, cpu_milli=1000))
