"""The filter: a reason per card, counts per node, and what is looked at again."""

from dataclasses import replace

import numpy as np
import pytest

from gpupool.base.units import GIB
from gpupool.model.claim import CardSelector, RejectionReason, Shape, SharingKind
from gpupool.scheduling.filtering.feasibility import (
    CODE,
    FITS,
    ORDER,
    ClaimFit,
    compute_needed_bytes,
    is_model_match,
    list_model_vendors,
)
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.snapshot.cards import CardStatus, CardTable
from tests.support.scheduling_builders import cards, shape, whole


def reasons(want: Shape, pool: CardTable) -> list[RejectionReason | None]:
    why = ClaimFit(want, FreeCapacity(pool)).why
    return [None if code == FITS else ORDER[code - 1] for code in why.tolist()]


@pytest.mark.parametrize(
    ("asked", "model", "matches"),
    [
        ("H200", "H200", True),
        ("h200", "H200", True),
        ("A100", "A100-40G", True),
        ("a100-40g", "A100-40G", True),
        ("A100-40G", "A100-80G", False),
        ("A10", "A100-40G", False),
        ("A100-", "A100-40G", False),
        ("H20", "H200", False),
        ("", "H200", False),
    ],
)
def test_models_match_exactly_or_up_to_a_dash(asked: str, model: str, *, matches: bool) -> None:
    assert is_model_match(asked, model) is matches


def test_a_card_has_the_first_reason_that_holds() -> None:
    status = {
        "node-1/3": CardStatus.DRAINING,
        "node-1/4": CardStatus.NOT_ADOPTED,
        "node-1/5": CardStatus.UNHEALTHY,
    }
    used = {"node-1/1": (900, 14 * GIB), "node-1/2": (0, 14 * GIB), "node-1/3": (900, 14 * GIB)}
    pool = cards("6xT4+1xH200", used=used, status=status)
    assert reasons(shape(model="T4"), pool) == [
        None,
        RejectionReason.COMPUTE,
        RejectionReason.MEMORY,
        RejectionReason.DRAINING,
        RejectionReason.NOT_ADOPTED,
        RejectionReason.UNHEALTHY,
        RejectionReason.MODEL,
    ]


def test_a_card_that_is_too_small_is_so_whatever_its_status() -> None:
    pool = cards("1xT4", status={"node-1/0": CardStatus.DRAINING})
    assert reasons(shape(100, 20 * GIB), pool) == [RejectionReason.CARD_TOO_SMALL]


def test_a_whole_card_is_one_on_which_nothing_is_held() -> None:
    pool = cards("3xT4", used={"node-1/1": (1, 0), "node-1/2": (0, 1)})
    assert reasons(whole(), pool) == [None, RejectionReason.NOT_WHOLE, RejectionReason.NOT_WHOLE]
    assert reasons(shape(1000, GIB), pool) == [
        None,
        RejectionReason.NOT_WHOLE,
        RejectionReason.NOT_WHOLE,
    ]


def test_best_effort_needs_no_compute_but_its_memory() -> None:
    pool = cards("2xT4", used={"node-1/0": (1000, 0), "node-1/1": (0, 14 * GIB)})
    assert reasons(shape(1000, 8 * GIB, sharing=SharingKind.BEST_EFFORT), pool) == [
        None,
        RejectionReason.MEMORY,
    ]


def test_the_memory_column_is_what_the_shape_says_of_each_card() -> None:
    pool = cards("mixed:T4,H200,A100-40G")
    for want in (Shape(333), Shape(1000), shape(100, GIB)):
        scalar = [want.memory_on(int(size)) for size in pool.memory_bytes]
        assert compute_needed_bytes(want, FreeCapacity(pool)).tolist() == scalar


def test_only_nodes_in_which_something_was_taken_are_looked_at_again() -> None:
    free = FreeCapacity(cards("50x8xT4"))
    fit = ClaimFit(shape(600), free)
    assert free.examined_cards == 400
    free.take_seats(7, free.get_node_rows(7)[:2], 600, np.array([GIB, GIB]))
    fit.refresh(free)
    assert free.examined_cards == 408
    assert (int(fit.fitting[7]), int(fit.fitting.sum())) == (6, 398)
    assert fit.why[56:58].tolist() == [CODE[RejectionReason.COMPUTE]] * 2


def test_cards_in_any_order_belong_to_their_nodes() -> None:
    pool = cards("2x2xT4", used={"node-1/1": (600, GIB), "node-2/1": (700, GIB)})
    shuffled = np.array([3, 0, 2, 1])
    mixed = CardTable(
        uuids=tuple(pool.uuids[row] for row in shuffled),
        models=pool.models,
        nodes=pool.nodes,
        node_labels=pool.node_labels,
        model=pool.model[shuffled],
        node=pool.node[shuffled],
        status=pool.status[shuffled],
        memory_bytes=pool.memory_bytes[shuffled],
        free_milli=pool.free_milli[shuffled],
        free_bytes=pool.free_bytes[shuffled],
        generation=pool.generation[shuffled],
    )
    free = FreeCapacity(mixed)
    assert [[mixed.uuids[row] for row in free.get_node_rows(node)] for node in (0, 1)] == [
        ["node-1/0", "node-1/1"],
        ["node-2/1", "node-2/0"],
    ]
    assert free.get_compute_grid(np.array([0, 1])).tolist() == [[1000, 400], [300, 1000]]


def test_a_node_without_cards_fits_nothing_and_breaks_nothing() -> None:
    pool = cards("2x1xT4")
    bare = CardTable(
        **{
            **vars(pool),
            "nodes": ("bare", *pool.nodes),
            "node_labels": ({}, {}, {}),
            "node": pool.node + 1,
        }
    )
    free = FreeCapacity(bare)
    assert ClaimFit(shape(), free).fitting.tolist() == [0, 1, 1]
    assert free.find_highest_by_node(np.array([3, 5], dtype=np.int8)).tolist() == [0, 3, 5]


def test_a_node_without_processors_or_main_memory_for_it_has_no_fitting_card() -> None:
    free = FreeCapacity(cards("3x2xT4", hosts=(8000, 32 * GIB), used={"node-1/0": (900, 0)}))
    free.set_hosts(np.arange(3), np.array([3000, 8000, 8000]), np.array([32, 32, 4]) * GIB)
    want = Shape(500, GIB, cpu_milli=4000, host_bytes=8 * GIB)
    fit = ClaimFit(want, free)
    compute, cpu, host = (
        CODE[RejectionReason.COMPUTE],
        CODE[RejectionReason.CPU],
        CODE[RejectionReason.HOST_MEMORY],
    )
    assert fit.why.tolist() == [compute, cpu, 0, 0, host, host]
    assert (fit.fitting.tolist(), fit.roomy.tolist()) == ([0, 2, 0], [False, True, False])
    free.take_seats(1, free.get_node_rows(1)[:1], 500, np.array([GIB]), 4001, GIB)
    assert fit.refresh(free).roomy.tolist() == [False, False, False]
    free.release_seats(1, free.get_node_rows(1)[:1], 500, np.array([GIB]), 4001, GIB)
    assert fit.refresh(free).roomy.tolist() == [False, True, False]


def test_a_claim_to_processors_alone_asks_nothing_of_cards() -> None:
    free = FreeCapacity(cards("2x1xT4", hosts=(8000, GIB), used={"node-1/0": (1000, 15 * GIB)}))
    free.set_hosts(np.array([1]), np.array([100]), np.array([GIB]))
    assert ClaimFit(Shape(0, 0, 0, cpu_milli=500), free).roomy.tolist() == [True, False]


def test_any_of_several_models_will_do() -> None:
    fit = ClaimFit(
        Shape(500, GIB, model="t4|A100"), FreeCapacity(cards("1x1xH200+1x1xA100-40G+1x1xT4"))
    )
    assert fit.why.tolist() == [CODE[RejectionReason.MODEL], 0, 0]


def test_cards_of_another_vendor_do_not_fit_and_are_counted_as_such() -> None:
    pool = replace(cards("mixed:T4,H200,A100-40G"), vendors=("nvidia", "amd", "nvidia"))
    want = Shape(1000, selector=CardSelector("amd"))
    assert reasons(want, pool) == [RejectionReason.VENDOR, None, RejectionReason.VENDOR]
    assert reasons(replace(want, model="T4"), pool) == [
        RejectionReason.VENDOR,
        RejectionReason.MODEL,
        RejectionReason.VENDOR,
    ]


def test_without_a_word_of_vendors_the_catalogue_tells_them() -> None:
    assert list_model_vendors(replace(cards("mixed:T4,H200"), models=("T4", "MI300X"))) == (
        "nvidia",
        "amd",
    )
    assert reasons(Shape(1000, selector=CardSelector("nvidia")), cards("2xT4")) == [None, None]


def test_cards_are_chosen_and_excluded_by_uuid_and_by_model() -> None:
    pool, named, excluded = (
        cards("mixed:T4,T4,H200"),
        RejectionReason.EXCLUDED,
        RejectionReason.MODEL,
    )
    chosen = CardSelector(uuids=("node-1/1", "node-1/2", "elsewhere"), not_uuids=("node-1/1",))
    assert reasons(Shape(1000, selector=chosen), pool) == [named, named, None]
    assert reasons(Shape(1000, selector=CardSelector(not_models=("t4",))), pool) == [
        excluded,
        excluded,
        None,
    ]


def test_a_part_of_the_memory_is_of_the_card_and_not_of_the_compute() -> None:
    pool = cards("mixed:T4,H200", used={"node-1/0": (0, 12 * GIB)})
    want = Shape(100, memory_milli=500)
    assert compute_needed_bytes(want, FreeCapacity(pool)).tolist() == [int(7.5 * GIB), 70 * GIB]
    assert reasons(want, pool) == [RejectionReason.MEMORY, None]
