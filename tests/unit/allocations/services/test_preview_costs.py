"""The cost of a submission is what the books would charge for it."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.base.units import GIB
from gpupool.wire.billing.prices import PriceListIn, RateIn
from gpupool.wire.submissions import JobIn, LaunchIn, ShapeIn
from gpupool.wire.views.previews import PreviewCost
from tests.support.house import House


def preview(house: House, **more: Any) -> PreviewCost | None:
    shape = ShapeIn(
        gpu_milli=more.pop("gpu_milli", 500),
        memory_bytes=more.pop("memory_bytes", None),
        count=more.pop("count", 1),
        model=more.pop("model", None),
    )
    body = JobIn(shape=shape, launch=LaunchIn(argv=["true"]), **more)
    return house.allocations.previews.preview_job(body, house.admin, None).cost


@pytest.fixture
def priced(house: House) -> House:
    rates = [RateIn(model="*", price_micro=2_000_000)]
    body = PriceListIn(
        from_ns=0,
        currency="EUR",
        timezone="UTC",
        rates=rates,
        preemptible_discount_milli=250,
    )
    house.allocations.billing.prices.put("now", body)
    return house


def test_without_a_price_list_there_is_no_cost(house: House) -> None:
    assert preview(house) is None


@pytest.mark.parametrize(
    ("fields", "micro"),
    [
        ({}, 1_000_000),
        ({"array": 4}, 4_000_000),
        ({"gpu_milli": 1000, "count": 2}, 4_000_000),
        ({"preemptible": True}, 750_000),
    ],
)
def test_an_hour_costs_its_part_of_the_card(
    priced: House, fields: dict[str, Any], micro: int
) -> None:
    found = preview(priced, **fields)
    assert found == PreviewCost(currency="EUR", per_hour_micro=micro, total_micro=None)


def test_a_claim_for_either_of_two_models_has_a_price_while_it_waits(priced: House) -> None:
    """The models that a claim names are looked up, as it has no card yet."""
    priced.submit(1000, None, name="first", count=2)
    for model in ("H200", "H100|H200"):
        found = preview(priced, model=model)
        assert found == PreviewCost(currency="EUR", per_hour_micro=1_000_000, total_micro=None)


def test_the_larger_of_compute_and_memory_is_charged_until_the_time_limit(priced: House) -> None:
    found = preview(priced, gpu_milli=10, memory_bytes=70 * GIB, max_seconds=1800)
    assert found is not None
    assert found.per_hour_micro > 20_000 * 10
    assert found.total_micro == pytest.approx(found.per_hour_micro / 2, abs=1)
