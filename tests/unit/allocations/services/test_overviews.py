"""The overview: true numbers of the pool, the caller's own jobs, and sums of the day that are not
counted with each request."""

from __future__ import annotations

import pytest

from gpupool.allocations.services import overviews
from gpupool.base.units import GIB
from gpupool.metering.service import MeteringService
from gpupool.model.tenant import Principal
from gpupool.wire.samples import DeviceSample, UsageOut
from gpupool.wire.views.overviews import TodayOut
from tests.support.house import House


def test_capacity_held_and_free_add_up_over_states(house: House) -> None:
    house.register(2, "node-2")
    house.allocations.placer.refresh_cache()
    house.submit(300, 8, name="one")
    house.fleet.release_devices(["node-2:1"], drain=False, principal=house.admin)
    failed = DeviceSample(uuid="GPU-node-2-0", usage=UsageOut(), health="failed")
    house.fleet.record_observations("node-2", [failed.model_copy(update={"health_reason": "XID"})])
    found = house.allocations.overviews.describe_pool(house.admin)
    assert found.cards.model_dump() == {
        "total": 4,
        "open": 2,
        "draining": 0,
        "failed": 1,
        "observed": 1,
    }
    assert (found.capacity_milli, found.held_milli, found.free_milli) == (3000, 300, 1700)
    assert [(card.device, card.reason) for card in found.failing] == [("node-2:0", "XID")]
    assert found.failing_total == 1
    assert [(one.tenant, one.held_bytes) for one in found.tenants] == [("default", 8 * GIB)]
    assert found.simulated is True


def test_the_head_of_the_queue_and_the_callers_jobs_are_shown(house: House) -> None:
    house.submit(1000, None, name="one")
    house.submit(1000, None, name="two")
    house.submit(1000, None, name="three")
    found = house.allocations.overviews.describe_pool(house.admin)
    assert (found.waiting, [row.job for row in found.queue]) == (1, ["three"])
    assert (found.mine.starting, found.mine.pending) == (2, 1)
    assert [job.name for job in found.mine.recent] == ["three", "two", "one"]


def test_another_tenant_sees_numbers_and_no_names(house: House) -> None:
    house.tenancy.tenants.create(house.admin, "lab", None)
    guest = house.member("guest", "lab")
    for name in ("one", "two", "secret"):
        house.submit(1000, None, name=name)
    found = house.allocations.overviews.describe_pool(guest)
    assert (found.held_milli, found.waiting) == (2000, 1)
    assert [one.tenant for one in found.tenants] == ["lab"]
    assert [(row.job, row.count) for row in found.queue] == [(None, 1)]
    assert found.today.idle_card_milliseconds is None
    assert "secret" not in found.model_dump_json()


def test_the_sums_of_the_day_are_counted_once_for_a_while(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = []
    make_report = MeteringService.make_report

    def count(self: MeteringService, principal: Principal, *more: int) -> object:
        counted.append(principal.user)
        return make_report(self, principal, *more)

    monkeypatch.setattr(MeteringService, "make_report", count)
    for _ in range(3):
        house.allocations.overviews.describe_pool(house.admin)
    assert len(counted) == 1
    monkeypatch.setattr(overviews, "DAY_SECONDS", 0)
    house.allocations.overviews.describe_pool(house.admin)
    assert len(counted) == 2


def test_a_price_list_adds_the_cost_of_the_day(house: House) -> None:
    def add_cost(_principal: Principal, today: TodayOut) -> TodayOut:
        return today.model_copy(update={"cost_micro": 7, "currency": "EUR"})

    assert house.allocations.overviews.describe_pool(house.admin).today.cost_micro is None
    house.allocations.overviews.add_cost = add_cost
    house.restart()
    house.allocations.overviews.add_cost = add_cost
    assert house.allocations.overviews.describe_pool(house.admin).today.cost_micro == 7
