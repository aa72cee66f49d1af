"""What the controller measures, checks and publishes."""

from __future__ import annotations

import asyncio

import pytest

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.serving.controller import ServiceController
from gpupool.serving.replicas import DRAINING, READY, STARTING
from gpupool.wire.samples import JobSample
from tests.support.shop import Shop


def test_a_gpu_measure_is_the_use_of_the_own_share_while_it_is_fresh(shop: Shop) -> None:
    shop.add(max_replicas=3, measure="gpu", target=60)
    shop.settle()
    (replica,) = shop.sight().replicas
    controller = shop.serving.controller
    assert controller.read_load(shop.sight()) is None
    for seconds, used in ((0, 0), (10, 2700)):
        shop.ahead_ns += seconds * NANOS_PER_SECOND
        sample = JobSample(job=replica.job, gpu_milliseconds=used)
        shop.house.metering.note_samples([sample])
    # 27 % of a card are 90 % of a share of 0.3 GPU.
    assert controller.read_load(shop.sight()) == pytest.approx(90, abs=1)
    asyncio.run(controller.look())
    assert shop.sight().service.desired == 2
    shop.ahead_ns += 61 * NANOS_PER_SECOND
    assert controller.read_load(shop.sight()) is None


def test_a_replica_that_no_agent_reaches_is_not_healthy_and_gets_no_request(shop: Shop) -> None:
    shop.add()
    controller = shop.serving.controller
    assert asyncio.run(controller.look())
    shop.run_jobs()
    asyncio.run(controller.look())
    assert shop.states() == [STARTING]
    assert "is not connected" in shop.get().explain
    found = controller.book.find(shop.house.admin.tenant_id, "web", sees_all=False)
    assert found is not None
    assert found.replicas == ()


def test_a_server_that_begins_ends_no_replica_before_its_agent_is_back(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.add(check_failures=1)
    shop.settle()
    assert shop.states() == [READY]
    serving = shop.serving
    house = shop.house
    controller = ServiceController(house.store, serving.steps, serving.broker, house.metering)
    for _ in range(2):
        asyncio.run(controller.look())
    assert shop.states() == [READY]
    monkeypatch.setattr("gpupool.serving.controller.AGENT_SECONDS", 0.0)
    asyncio.run(controller.look())
    (replica,) = shop.sight().replicas
    assert replica.state == DRAINING
    assert replica.reason.endswith("is not connected")


def test_a_service_that_is_gone_is_published_no_more(shop: Shop) -> None:
    shop.add()
    shop.settle()
    assert shop.states() == [READY]
    controller = shop.serving.controller
    asyncio.run(controller.look())
    shop.serving.remove("web", shop.house.admin)
    shop.settle(looks=2)
    asyncio.run(controller.look())
    assert not asyncio.run(controller.look())
    assert controller.book.find(shop.house.admin.tenant_id, "web", sees_all=False) is None
