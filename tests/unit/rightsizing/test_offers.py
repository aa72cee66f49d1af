"""The smallest partition, and models by memory."""

from __future__ import annotations

from gpupool.base.units import GIB
from gpupool.model.partition import PartitionProfile
from gpupool.rightsizing.offers import CardOffer, choose_partition, find_offer, list_models

H200 = CardOffer(
    "H200",
    141 * GIB,
    (
        PartitionProfile("1g.18gb", 1, 17 * GIB, tuple(range(7)), 7, 142),
        PartitionProfile("1g.18gb+me", 1, 17 * GIB, tuple(range(7)), 1, 142, media=True),
        PartitionProfile("1g.35gb", 2, 34 * GIB, (0, 2, 4, 6), 4, 142),
        PartitionProfile("3g.71gb", 4, 70 * GIB, (0, 4), 2, 428),
        PartitionProfile("7g.141gb", 8, 140 * GIB, (0,), 1, 1000),
    ),
)
T4 = CardOffer("T4", 15 * GIB)


def test_the_smallest_plain_partition_with_enough_of_both_is_chosen() -> None:
    small = choose_partition(H200, 100, 10 * GIB)
    by_memory = choose_partition(H200, 100, 20 * GIB)
    by_compute = choose_partition(H200, 300, 10 * GIB)

    assert small is not None
    assert (small.profile, small.per_card) == ("1g.18gb", 7)
    assert by_memory is not None
    assert by_memory.profile == "1g.35gb"
    assert by_compute is not None
    assert by_compute.profile == "3g.71gb"


def test_no_partition_has_more_than_its_card() -> None:
    assert choose_partition(H200, 100, 141 * GIB) is None
    assert choose_partition(T4, 100, GIB) is None


def test_models_are_listed_by_memory() -> None:
    assert list_models([H200, T4], 10 * GIB) == ["T4", "H200"]
    assert list_models([H200, T4], 16 * GIB) == ["H200"]
    assert find_offer([H200, T4], "T4") is T4
    assert find_offer([H200, T4], "A100") is None
