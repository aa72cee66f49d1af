from dataclasses import replace

import numpy as np

from gpupool.base.units import GIB
from gpupool.model.claim import Shape, SharingKind
from gpupool.scheduling.scoring.expected_demand import NodeKinds, build_classes, select_typical
from gpupool.scheduling.scoring.node_types import find_node_types
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from tests.support.scheduling_builders import cards


def test_shapes_that_differ_in_memory_or_labels_alone_are_one_class() -> None:
    shapes = (
        Shape(500, GIB, cpu_milli=2000),
        Shape(500, 2 * GIB, cpu_milli=2000, host_bytes=GIB),
        Shape(500, None, labels=(("zone", "a"),), cpu_milli=2000),
        Shape(1000, None, 2, "T4"),
    )
    classes = build_classes(ExpectedDemand(shapes, (1, 2, 3, 5)))
    assert classes.weight.tolist() == [6, 5]
    assert (classes.milli.tolist(), classes.count.tolist(), classes.models) == (
        [500, 1000],
        [1, 2],
        ("", "T4"),
    )


def test_equal_counts_follow_each_other_larger_first() -> None:
    shapes = (
        Shape(500, 0, cpu_milli=1),
        Shape(600, 0, cpu_milli=1),
        Shape(100, 0, cpu_milli=2),
        Shape(0, 0, 0),
    )
    classes = build_classes(ExpectedDemand(shapes, (1, 1, 1, 1)))
    assert classes.milli.tolist() == [100, 600, 500, 0]


def test_best_effort_holds_no_compute_and_so_counts_as_a_claim_without_cards() -> None:
    classes = build_classes(ExpectedDemand((Shape(500, 0, sharing=SharingKind.BEST_EFFORT),), (1,)))
    assert (classes.count.tolist(), classes.milli.tolist()) == ([0], [0])


def test_typical_classes_are_the_fewest_that_cover_most() -> None:
    shapes = tuple(Shape(milli, 0) for milli in (100, 200, 300, 400))
    classes = build_classes(ExpectedDemand(shapes, (50, 40, 5, 5)))
    assert select_typical(classes, 90).weight.tolist() == [50, 40]
    assert select_typical(classes, 91).weight.tolist() == [50, 40, 5]
    assert len(select_typical(build_classes(ExpectedDemand()))) == 0


def test_weights_of_a_fading_memory_are_whole_numbers_too() -> None:
    classes = build_classes(ExpectedDemand((Shape(100, 0), Shape(200, 0)), (0.5, 1.5)))
    assert classes.weight.tolist() == [750_000, 250_000]


def test_hosts_of_another_size_are_another_make_and_another_kind_where_large_claims_tell_them_apart() -> (
    None
):
    pool = cards("3x2xT4", hosts=(64_000, 1))
    assert pool.hosts is not None
    pool = replace(pool, hosts=replace(pool.hosts, cpu_milli=np.array([64_000, 32_000, 64_000])))
    large = build_classes(ExpectedDemand((Shape(1000, 0, 2, cpu_milli=48_000),), (1,)))
    assert find_node_types(pool).of_node.tolist() == [0, 1, 0]
    assert NodeKinds(pool, large).of_node.tolist() == [0, 1, 0]
    assert NodeKinds(pool).of_node.tolist() == [0, 0, 0]


def test_nodes_of_the_same_models_are_one_kind() -> None:
    kinds = NodeKinds(cards("mixed:T4,H200+1x2xT4+mixed:H200,T4"))
    assert kinds.of_node.tolist() == [0, 1, 0]
    assert kinds.find_allowed(["", "H200", "T4|L40S", "A100"]).tolist() == [
        [1, 1],
        [1, 0],
        [1, 1],
        [0, 0],
    ]
    assert NodeKinds(cards("")).find_allowed([""]).shape == (1, 0)
    assert np.array_equal(
        NodeKinds(cards("1xT4")).find_allowed([]), np.zeros((0, 1), dtype=np.bool_)
    )
