from __future__ import annotations

from gpupool.base.units import GIB
from gpupool.model.claim import Shape
from gpupool.model.power import PROCESSOR
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.scoring.cost_terms.power_term import PowerTerm
from tests.support.cost_builders import SHARE, WHOLE_CARDS, cost_of, place
from tests.support.scheduling_builders import cards


def test_a_share_on_a_used_card_adds_no_power() -> None:
    free = FreeCapacity(cards("2x1xT4+1x1xH200"))
    place(free, SHARE, 0, [0])
    assert cost_of(PowerTerm(free), free, SHARE) == [0, 60, 630]


def test_whole_cards_add_what_each_of_them_draws_more() -> None:
    free = FreeCapacity(cards("1x2xT4+1x4xL40S"))
    assert cost_of(PowerTerm(free), free, WHOLE_CARDS) == [120, 630]


def test_of_a_mixed_node_the_cards_that_add_least_count() -> None:
    free = FreeCapacity(cards("mixed:H200,T4,T4"))
    assert cost_of(PowerTerm(free), free, WHOLE_CARDS) == [120]


def test_processors_add_power_by_the_package() -> None:
    free = FreeCapacity(cards("1x1xT4", hosts=(96_000, 64 * GIB)))
    term, claim = PowerTerm(free), Shape(0, 0, 0, cpu_milli=20_000)
    assert cost_of(term, free, claim) == [PROCESSOR.swing]
    place(free, claim, 0, [])
    assert cost_of(term, free, Shape(0, 0, 0, cpu_milli=12_000)) == [0], (
        "the package has room for 12 more"
    )
    assert cost_of(term, free, Shape(0, 0, 0, cpu_milli=12_001)) == [PROCESSOR.swing]


def test_the_pool_draws_what_its_claims_added() -> None:
    free = FreeCapacity(cards("2x2xT4", hosts=(64_000, 64 * GIB)))
    term, claim = PowerTerm(free), Shape(400, GIB, 2, cpu_milli=40_000)
    idle = term.compute_pool_watts()
    assert idle == 4 * 10 + 4 * PROCESSOR.idle
    added = cost_of(term, free, claim)[0]
    place(free, claim, 0, [0, 1])
    assert term.compute_pool_watts() == idle + added


def test_a_pool_without_cards_has_a_power() -> None:
    assert PowerTerm(FreeCapacity(cards(""))).compute_pool_watts() == 0
