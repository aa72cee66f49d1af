"""Routes of jobs: who renews a lease, and when a request that waits is answered."""

from __future__ import annotations

import asyncio

import pytest

from gpupool.allocations.routes.jobs import get_job, resize, stop
from gpupool.model.tenant import Principal
from gpupool.wire.jobs import JobOut, ResizeIn, StopIn
from tests.support.house import House
from tests.support.resizing import running
from tests.support.route_requests import make_request

LONG = 30.0


def ask(house: House, caller: Principal, *, lease: bool, generation: int = 0) -> JobOut:
    return asyncio.run(
        get_job(
            make_request(house),
            "a",
            house.allocations,
            caller,
            generation=generation,
            wait_seconds=LONG if generation else 0,
            lease=lease,
        )
    )


def is_leased(house: House, job: str) -> bool:
    return job in house.allocations.leases._until


@pytest.mark.parametrize("lease", [True, False])
def test_only_the_users_own_client_renews_the_lease_of_a_job(house: House, lease: bool) -> None:
    job = house.submit(name="a", attached=True).id
    colleague = house.member("bob", "default")
    assert is_leased(house, job)
    house.allocations.leases.drop_leases([job])
    ask(house, colleague, lease=True)
    assert not is_leased(house, job)
    ask(house, house.admin, lease=lease)
    assert is_leased(house, job) is lease


def test_a_job_that_nobody_attached_to_gets_no_lease(house: House) -> None:
    job = house.submit(name="a").id
    ask(house, house.admin, lease=True)
    assert not is_leased(house, job)


def test_a_job_that_has_ended_is_answered_and_keeps_no_lease(house: House) -> None:
    job = house.submit(name="a", attached=True).id
    house.finish("a")
    assert ask(house, house.admin, lease=True, generation=2**40).state == "done"
    assert not is_leased(house, job)


def test_a_request_that_waits_is_answered_by_the_next_generation(house: House) -> None:
    before = house.submit(name="a")
    (item,) = house.work()

    async def scene() -> JobOut:
        waiting = asyncio.create_task(
            get_job(
                make_request(house),
                "a",
                house.allocations,
                house.admin,
                generation=before.generation,
                wait_seconds=LONG,
            )
        )
        while ("job", before.id) not in house.store.notifier._subscriptions:
            await asyncio.sleep(0)
        await asyncio.to_thread(house.report, item, "running", started_ns=5)
        return await waiting

    found = asyncio.run(asyncio.wait_for(scene(), LONG))
    assert (found.state, found.generation > before.generation) == ("running", True)


def test_a_resize_that_waits_says_how_long_its_node_took(house: House) -> None:
    job = running(house, "a")
    body = ResizeIn(gpu_milli=500)

    async def scene(wait_seconds: float) -> float | None:
        request = make_request(house)
        asking = resize(request, "a", body, house.allocations, house.admin, wait_seconds)
        waiting = asyncio.create_task(asking)
        while wait_seconds and ("job", job.id) not in house.store.notifier._subscriptions:
            await asyncio.sleep(0)
        if wait_seconds:
            (item,) = house.work()
            await asyncio.to_thread(house.report, item, "resized")
        return (await waiting).applied_milliseconds

    assert asyncio.run(scene(0)) is None, "the node has not answered yet"
    body = ResizeIn(gpu_milli=400)
    took = asyncio.run(asyncio.wait_for(scene(LONG), LONG))
    assert took is not None
    assert 0 <= took < LONG * 1000


def test_stop_passes_the_grace_to_the_node(house: House) -> None:
    house.submit(name="a")
    stop("a", StopIn(grace_seconds=3), house.allocations, house.admin)
    assert [(item.want, item.grace_seconds) for item in house.work()] == [("stop", 3)]
