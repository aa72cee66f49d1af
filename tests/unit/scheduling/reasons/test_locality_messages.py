"""Sentences about cards, processors and memory that are not near enough to each other."""

from __future__ import annotations

from gpupool.base.units import GIB
from gpupool.model.claim import Shape
from gpupool.scheduling.reasons.locality_messages import (
    NumaNodeAmounts,
    describe_never_joined,
    describe_not_in_one,
    describe_not_joined,
)

SHAPE = Shape(1000, None, 2, "H200", cpu_milli=16_000, host_bytes=64 * GIB)
NEEDS = "needs 2 H200 cards, 16 processors and 65536 MiB of one NUMA node"


def test_the_nearest_numa_node_is_named_with_what_it_has() -> None:
    nearest = NumaNodeAmounts("a", 1, 1, 3500, GIB)
    has = "nearest is NUMA node 1 of a with 1 H200 card, 3.5 processors and 1024 MiB"
    assert describe_not_in_one(SHAPE, nearest, now=False) == f"{NEEDS}; {has}"
    assert describe_not_in_one(SHAPE, nearest, now=True) == f"{NEEDS}; {has} free"


def test_a_pool_without_a_known_numa_node_says_so() -> None:
    now = describe_not_in_one(SHAPE, None, now=True)
    ever = describe_not_in_one(SHAPE, None, now=False)
    assert now == f"{NEEDS}; no such card is free on a NUMA node of which anything is known"
    assert ever == f"{NEEDS}; no such card is on a NUMA node of which anything is known"


def test_nodes_with_enough_cards_apart_have_the_right_plural() -> None:
    assert describe_not_joined(SHAPE, "nvlink", 1) == (
        "needs 2 H200 cards in one nvlink domain; 1 node has as many free, none in one nvlink domain"
    )
    assert "; 3 nodes have as many free" in describe_not_joined(SHAPE, "nvlink", 3)
    assert describe_never_joined(SHAPE, "nvlink") == (
        "no node of this pool has 2 H200 cards in one nvlink domain"
    )
