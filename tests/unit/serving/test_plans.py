"""What a change would do to replicas, what they hold and cost, and what happened to them."""

from __future__ import annotations

import pytest

from gpupool.base.errors import BadService, NoPermission, UnknownService
from gpupool.billing.prices.service import PriceListService
from gpupool.wire.billing.prices import PriceListIn
from gpupool.wire.serving.services import ServiceChange, ServicePlanOut
from tests.support.shop import Shop


def plan(shop: Shop, **rule: int) -> ServicePlanOut:
    return shop.serving.plan("web", ServiceChange(rule=dict(rule)), shop.house.admin)


def test_a_plan_names_the_replicas_that_the_change_then_ends(shop: Shop) -> None:
    shop.add(min_replicas=2, max_replicas=2)
    shop.settle()
    before = shop.get()
    load = shop.serving.controller.load
    service = shop.sight().service.id
    load.begin_replica(service, 2)
    planned = plan(shop, min_replicas=1, max_replicas=1)
    load.end_replica(service, 2)
    assert (planned.desired_before, planned.desired, planned.starts) == (2, 1, 0)
    assert [(one.number, one.requests) for one in planned.ends] == [(2, 1)]
    assert shop.get() == before
    change = ServiceChange(rule={"min_replicas": 1, "max_replicas": 1})
    shop.serving.change("web", change, shop.house.admin)
    shop.settle()
    assert [one.number for one in shop.get().replicas if one.state == "ended"] == [2]


def test_a_plan_counts_the_replicas_that_start_within_the_new_bounds(shop: Shop) -> None:
    shop.add(min_replicas=0, max_replicas=1)
    assert (plan(shop, min_replicas=3, max_replicas=8).starts, plan(shop, target=3).starts) == (
        3,
        0,
    )
    with pytest.raises(BadService, match="min_replicas is 2 and max_replicas 1"):
        plan(shop, min_replicas=2)
    shop.serving.remove("web", shop.house.admin)
    assert plan(shop, min_replicas=3, max_replicas=8).starts == 0


def test_plans_and_events_are_for_the_same_people_as_changes(shop: Shop) -> None:
    house = shop.house
    house.tenancy.tenants.create(house.admin, "plans", None)
    ada = house.member("planner", "plans")
    bob = house.member("reader", "plans")
    eve = house.member("stranger", "default")
    shop.add(who=ada)
    change = ServiceChange(rule={"max_replicas": 2})
    assert shop.serving.plan("web", change, ada).rule.max_replicas == 2
    for who, refusal in ((bob, NoPermission), (eve, UnknownService)):
        with pytest.raises(refusal):
            shop.serving.plan("web", change, who)
    assert [one.kind for one in shop.serving.list_events("web", bob, 9)] == ["service.created"]
    with pytest.raises(UnknownService):
        shop.serving.list_events("web", eve, 9)


def test_events_are_those_of_this_service_alone_the_newest_first(shop: Shop) -> None:
    shop.add()
    shop.clear()
    shop.add()
    shop.add("other")
    change = ServiceChange(rule={"max_replicas": 3})
    shop.serving.change("web", change, shop.house.admin)
    found = shop.serving.list_events("web", shop.house.admin, 9)
    assert [one.kind for one in found] == ["service.changed", "service.created"]
    assert found[0].data["max_replicas"] == 3
    assert len(shop.serving.list_events("web", shop.house.admin, 1)) == 1


def test_what_replicas_hold_has_a_price_by_the_list_of_now(shop: Shop) -> None:
    prices = PriceListService(shop.house.store)
    shop.add(min_replicas=2, max_replicas=2)
    shop.settle()
    held = shop.get()
    assert (held.gpu_milli, held.cost_per_hour_micro, held.currency) == (600, None, "")
    hour_ns = 3600 * 10**9
    now_ns = shop.house.store.clock.now_ns()
    rates = [{"model": "*", "price_micro": 2_000_000}]
    body = {"from_ns": now_ns - now_ns % hour_ns, "currency": "EUR", "rates": rates}
    prices.put("services", PriceListIn.model_validate(body))
    held = shop.get()
    # 0.3 of a card each, more than their part of its memory.
    assert (held.cost_per_hour_micro, held.currency) == (1_200_000, "EUR")
    (listed,) = shop.serving.list_services(shop.house.admin)
    assert listed.cost_per_hour_micro == 1_200_000
    shop.clear()
    shop.add(min_replicas=0)
    assert (shop.get().gpu_milli, shop.get().cost_per_hour_micro) == (0, 0)
    prices.delete("services")
