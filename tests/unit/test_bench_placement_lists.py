"""What stands in for the openb trace has the proportions that are published of it."""

from collections import Counter

import numpy as np

from bench.placement_lists import (
    CPU_ONLY,
    OPENB_NODES,
    PODS,
    SHARED,
    SINGLE,
    cluster_like_openb,
    list_like_openb,
)


def test_the_cluster_has_openbs_nodes_cards_and_cores() -> None:
    cards = cluster_like_openb(OPENB_NODES)
    assert (len(cards.nodes), len(cards)) == (1_213, 6_212)
    assert cards.hosts is not None
    assert abs(int(cards.hosts.cpu_milli.sum()) / 107_018_000 - 1) < 0.01
    widths = Counter(np.bincount(cards.node).tolist())
    assert widths[8] == 549 + 39 + 21


def test_another_number_of_nodes_keeps_the_proportions() -> None:
    cards = cluster_like_openb(3_000)
    assert abs(len(cards) / 3_000 - 6_212 / 1_213) < 0.1
    assert len(cluster_like_openb(100, widest=True)) == 800


def test_the_list_has_its_kinds_of_claims_and_comes_again_with_its_seed() -> None:
    pods = list_like_openb()
    counts = [pods.shapes[number].count for number in pods.shape_numbers]
    shared = sum(0 < pods.shapes[number].gpu_milli < 1000 for number in pods.shape_numbers)
    assert abs(counts.count(0) / PODS - CPU_ONLY) < 0.01
    assert abs(shared / PODS - SHARED) < 0.01
    assert abs((counts.count(1) - shared) / PODS - SINGLE) < 0.02
    assert sum(count > 1 for count in counts) > 0
    again = list_like_openb()
    assert (again.shapes, again.shape_numbers.tolist()) == (
        pods.shapes,
        pods.shape_numbers.tolist(),
    )
    assert list_like_openb(seed=2).shape_numbers.tolist() != pods.shape_numbers.tolist()
