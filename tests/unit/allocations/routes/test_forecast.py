"""`whatif` on a real pool: its present state, what the asker may see of it, and changes it cannot
have."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from gpupool.allocations.routes import forecast
from gpupool.allocations.routes.forecast import answer_question
from gpupool.allocations.service import Allocations
from gpupool.base.errors import (
    NotFound,
    RequestRejection,
    ServiceUnavailable,
    UnknownModel,
    UnknownPolicy,
    UnknownTenant,
)
from gpupool.billing.prices.service import PriceListService
from gpupool.model.tenant import Principal
from gpupool.simulation.forecast_worker import ForecastQuestion
from gpupool.store.tables import events
from gpupool.wire.billing.prices import PriceListIn, RateIn
from gpupool.wire.planning import WhatIfIn, WhatIfOut
from tests.support.house import House


def whatif(body: WhatIfIn, allocations: Allocations, who: Principal) -> WhatIfOut:
    return asyncio.run(answer_question(body, allocations, who))


def ask(house: House, **change: object) -> WhatIfOut:
    return whatif(WhatIfIn.model_validate(change), house.allocations, house.admin)


def full(house: House) -> None:
    """Two cards, three whole-card jobs of which the first ends in an hour and the last waits."""
    house.submit(1000, None, name="a", max_seconds=3600)
    house.submit(1000, None, name="b")
    house.submit(1000, None, name="c", max_seconds=60)


def test_the_pools_own_state_is_played_forward_with_the_change_and_without(house: House) -> None:
    full(house)
    told = ask(house, add=[{"model": "H200", "cards": 2}])
    before, after = told.before, told.after
    assert (before.cards, after.cards) == (2, 4)
    assert (before.queue.waiting, before.queue.start_now, before.queue.start_later) == (1, 0, 1)
    assert before.queue.wait_p50_seconds == pytest.approx(3600, abs=5)
    assert (after.queue.start_now, after.queue.start_later) == (1, 0)
    assert (before.largest_milli, after.largest_milli) == (0, 1000)
    assert before.no_end == 1  # b names no limit


def test_asking_writes_nothing_and_places_nothing(house: House) -> None:
    full(house)
    with house.store.read() as connection:
        first = connection.execute(sa.select(sa.func.count()).select_from(events)).scalar_one()
    told = ask(house, add=[{"model": "h200", "cards": 8, "nodes": 2}], policy="spread")
    assert told.after.nodes == 3
    with house.store.read() as connection:
        assert (
            connection.execute(sa.select(sa.func.count()).select_from(events)).scalar_one() == first
        )
    assert house.job("c").state == "pending"


def test_another_sharing_and_the_cost_are_told_side_by_side(house: House) -> None:
    house.submit(300, 8, name="a")
    bare = ask(house)
    assert (bare.after.sharing, bare.after.cost_month_micro, bare.after.currency) == (None,) * 3
    day = RateIn(model="*", price_micro=2_000_000)
    night = RateIn(model="*", price_micro=1_000_000, from_hour=0, until_hour=12)
    prices = PriceListIn(from_ns=0, currency="EUR", timezone="UTC", rates=[day, night])
    PriceListService(house.store).put("now", prices)
    told = ask(house, sharing="burst", add=[{"model": "H200", "cards": 2}])
    assert (told.before.sharing, told.before.sharing_changed) == (None, 0)
    assert (told.after.sharing, told.after.sharing_changed) == ("burst", 1)
    # Two cards at 1.50 EUR an hour in the mean of the day, 730 hours.
    assert (told.before.cost_month_micro, told.before.currency) == (2190_000_000, "EUR")
    assert told.after.cost_month_micro == 2 * 2190_000_000


def test_a_node_less_makes_its_jobs_wait_again(house: House) -> None:
    house.register(2, "node-2")
    full(house)
    told = ask(house, remove=["node-1"])
    assert (told.before.nodes, told.after.nodes) == (2, 1)
    assert told.after.moved + told.before.queue.waiting == told.after.queue.waiting


def test_a_user_sees_the_totals_and_its_own_tenant_alone(house: House) -> None:
    house.tenancy.tenants.create(house.admin, "nlp", None)
    bob = house.member("bob", "nlp")
    full(house)
    house.submit(1000, None, name="mine", principal=bob)
    seen = whatif(WhatIfIn(), house.allocations, bob).before
    assert seen.queue.waiting == 2
    assert {name: queue.waiting for name, queue in seen.tenants.items()} == {"nlp": 1}
    assert set(ask(house).before.tenants) == {"default", "nlp"}


def test_another_tenants_quota_is_not_found_and_ones_own_is_tried(house: House) -> None:
    house.tenancy.tenants.create(house.admin, "nlp", None)
    bob = house.member("bob", "nlp")
    with pytest.raises(UnknownTenant):
        whatif(WhatIfIn(nominal_milli={"default": 1000}), house.allocations, bob)
    with pytest.raises(UnknownTenant):
        whatif(WhatIfIn(nominal_milli={"nobody": 1000}), house.allocations, house.admin)
    house.submit(1000, None, name="mine", principal=bob, max_seconds=60)
    assert whatif(WhatIfIn(nominal_milli={"nlp": 0}), house.allocations, bob).after.cards == 2


def test_a_change_the_pool_cannot_have_is_refused_with_the_numbers(house: House) -> None:
    with pytest.raises(NotFound) as missing:
        ask(house, remove=["node-9"])
    assert missing.value.message == "there is no node node-9 in this pool"
    assert missing.value.hint == "it has: node-1"
    with pytest.raises(RequestRejection, match="without its 1 nodes the pool has no card left"):
        ask(house, remove=["node-1"])
    with pytest.raises(UnknownModel) as model:
        ask(house, add=[{"model": "L40X"}])
    assert "did you mean L40" in model.value.hint
    with pytest.raises(UnknownPolicy):
        ask(house, policy="binpak")


def children() -> set[int]:
    found = set[int]()
    for task in Path(f"/proc/{os.getpid()}/task").iterdir():
        with contextlib.suppress(FileNotFoundError):  # a thread that ended meanwhile
            found |= set(map(int, (task / "children").read_text().split()))
    return found


@contextlib.asynccontextmanager
async def foretelling(house: House) -> AsyncIterator[tuple[asyncio.Task[WhatIfOut], int]]:
    """A forecast under way, stopped in the middle, and its process."""
    before = children()
    task = asyncio.create_task(answer_question(WhatIfIn(), house.allocations, house.admin))
    while not (made := children() - before):
        await asyncio.sleep(0.001)
    (process,) = made
    os.kill(process, signal.SIGSTOP)
    try:
        yield task, process
    finally:
        task.cancel()
        await asyncio.wait({task})


def test_a_forecast_of_more_than_it_can_hold_is_refused_with_the_numbers(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    full(house)
    with pytest.raises(
        RequestRejection, match="128000 cards are added, and a forecast adds 100000 at most"
    ):
        ask(house, add=[{"model": "H200", "cards": 128, "nodes": 1000}])
    for name in ("x", "y", "z"):
        house.submit(1000, None, name=name, array=1_000_000)
    with pytest.raises(
        RequestRejection, match=r"300000\d jobs wait, and a forecast looks at 2000000 at most"
    ) as refused:
        ask(house)
    assert "gpupool queue" in refused.value.hint
    assert house.job("c").state == "pending"


def test_a_user_who_asks_for_many_forecasts_has_one_question_made_at_a_time(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    bob = house.member("bob", "default")
    askers = list[Principal]()
    question = forecast._build_question

    def noted(body: WhatIfIn, allocations: Allocations, caller: Principal) -> ForecastQuestion:
        askers.append(caller)
        return question(body, allocations, caller)

    async def asked_at_once() -> None:
        async with foretelling(house):
            monkeypatch.setattr(forecast, "_build_question", noted)
            admins = [
                asyncio.create_task(answer_question(WhatIfIn(), house.allocations, house.admin))
                for _ in range(8)
            ]
            others = asyncio.create_task(answer_question(WhatIfIn(), house.allocations, bob))
            while bob not in askers:
                await asyncio.sleep(0.001)
            for task in (*admins, others):
                task.cancel()
            await asyncio.gather(*admins, others, return_exceptions=True)

    asyncio.run(asked_at_once())
    assert askers == [bob], "the admin's first forecast is still being computed"


def test_jobs_are_placed_while_a_forecast_is_computed(house: House) -> None:
    async def both() -> tuple[WhatIfOut, list[str]]:
        async with foretelling(house) as (task, process):
            states = [house.submit(100, 1, name=f"beside-{n}").state for n in range(10)]
            assert not task.done()
            os.kill(process, signal.SIGCONT)
            return await task, states

    told, states = asyncio.run(both())
    assert states == ["starting"] * 10
    assert told.before.queue.waiting == 0, "the pool as it was when it was asked"


def test_a_forecast_ends_with_whoever_waits_for_it(house: House) -> None:
    async def left() -> int:
        async with foretelling(house) as (_, process):
            return process

    assert asyncio.run(left()) not in children()


def test_a_forecast_that_takes_too_long_is_ended_and_said_so(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forecast, "MOST_SECONDS", 0.0)
    before = children()
    with pytest.raises(ServiceUnavailable, match="no forecast within"):
        ask(house)
    assert children() <= before
