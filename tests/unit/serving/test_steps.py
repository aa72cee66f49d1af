"""A service has the replicas that it should have, whatever dies or is refused."""

from __future__ import annotations

import pytest

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.serving.replicas import DRAINING, READY, STARTING, WANTED
from gpupool.serving.sights import ReplicaHealth
from gpupool.wire.people import UserPatch
from gpupool.wire.serving.services import ServiceChange
from tests.support.killed import killed_at
from tests.support.shop import JOB, Shop


def test_a_service_starts_its_replicas_and_follows_the_load(shop: Shop) -> None:
    shop.add(max_replicas=3, down_seconds=0)
    shop.settle()
    assert shop.states() == [READY]
    job = shop.house.job("web-1")
    assert job.command == ["serve", "8000"]
    shop.settle(load=25)
    assert shop.states() == [READY] * 3
    assert {one.port for one in shop.sight().replicas} == {8000, 8001, 8002}
    assert shop.get().explain == "3 of 3 healthy"
    shop.settle(load=4)
    assert shop.states() == [READY]
    assert shop.live_jobs() == 1
    assert [one.number for one in shop.sight().replicas if one.state == READY] == [1]


def test_a_replica_ends_once_it_has_no_requests_or_its_time_is_over(shop: Shop) -> None:
    shop.add(min_replicas=1, max_replicas=2, down_seconds=0, drain_seconds=30)
    shop.settle(load=20)
    shop.look(load=1, requests={2: 1})
    shop.look(load=1, requests={2: 1})
    assert shop.states() == [READY, DRAINING]
    assert shop.house.job("web-2").state == "running"
    shop.ahead_ns += 31 * NANOS_PER_SECOND
    shop.settle(load=1, requests={2: 1})
    assert shop.states() == [READY]


def test_an_unhealthy_replica_is_replaced(shop: Shop) -> None:
    shop.add(check_failures=2)
    shop.settle()
    shop.look(health={1: ReplicaHealth("no answer", 1)})
    assert shop.states() == [READY]
    shop.look(health={1: ReplicaHealth("no answer", 2)})
    shop.settle()
    ended = next(one for one in shop.get().replicas if one.number == 1)
    assert (ended.state, ended.reason) == ("ended", "2 checks failed: no answer")
    # It served for less than a minute: the next start waits ten seconds.
    assert shop.states() == []
    shop.ahead_ns += 10 * NANOS_PER_SECOND
    shop.settle()
    assert shop.states() == [READY]
    assert shop.sight().service.failures == 1


def test_a_replica_that_ends_by_itself_is_replaced(shop: Shop) -> None:
    shop.add()
    shop.settle()
    shop.ahead_ns += 61 * NANOS_PER_SECOND
    shop.house.finish("web-1", exit_code=3)
    shop.settle()
    assert shop.states() == [READY]
    assert shop.house.job("web-2").state == "running"
    assert shop.sight().service.failures == 0


def test_a_replica_that_never_gets_healthy_is_replaced(shop: Shop) -> None:
    shop.add(start_seconds=5)
    sick = {number: ReplicaHealth("nothing listens", 1) for number in range(1, 9)}
    shop.settle(health=sick)
    assert shop.states() == [STARTING]
    assert shop.get().explain == "0 of 1 healthy; replica 1 is not healthy yet: nothing listens"
    shop.ahead_ns += 6 * NANOS_PER_SECOND
    shop.settle(health=sick)
    assert shop.states() == []
    assert shop.get().replicas[0].reason == "not healthy within 0:05: nothing listens"


def test_a_refused_job_is_the_state_of_the_service_and_tried_again(shop: Shop) -> None:
    shop.add()
    body = {**JOB, "shape": {"gpu_milli": 300, "memory_bytes": 1 << 50}}
    shop.set_body(body)
    shop.settle()
    assert shop.states() == [WANTED]
    assert shop.live_jobs() == 0
    explained = shop.get().explain
    assert explained.startswith("0 of 1 healthy; replica 1 waits: GP-2001: ")
    shop.set_body(JOB)
    shop.settle()
    assert shop.states() == [WANTED]
    shop.ahead_ns += 10 * NANOS_PER_SECOND
    shop.settle()
    assert (shop.states(), shop.get().explain) == ([READY], "1 of 1 healthy")


def test_a_replica_without_room_says_what_it_waits_for(shop: Shop) -> None:
    shop.add(min_replicas=2, max_replicas=2, job={"shape": {"gpu_milli": 1000}})
    shop.settle()
    assert shop.states() == [READY, READY]
    shop.serving.change(
        "web", ServiceChange(rule={"min_replicas": 3, "max_replicas": 3}), shop.house.admin
    )
    shop.settle()
    # Two cards: the third one waits for room, and the service says so.
    assert shop.states() == [READY, READY, STARTING]
    assert shop.get().explain.startswith("2 of 3 healthy; replica 3 waits: ")
    assert shop.get().explain != "2 of 3 healthy; replica 3 waits: no room yet"


def test_a_service_that_is_removed_ends_its_replicas_first(shop: Shop) -> None:
    shop.add(min_replicas=2, max_replicas=2)
    shop.settle()
    shop.serving.remove("web", shop.house.admin)
    shop.look(requests={1: 1})
    shop.run_jobs()
    assert shop.get().explain == "is removed once its replicas have ended: 2 left"
    shop.look()
    shop.run_jobs()
    shop.look()
    assert shop.serving.list_services(shop.house.admin) == []
    assert shop.live_jobs() == 0


def test_a_service_of_an_owner_that_left_runs_nothing(shop: Shop) -> None:
    grace = shop.house.member("grace", "default")
    shop.add(who=grace)
    shop.settle()
    assert shop.states() == [READY]
    shop.house.tenancy.users.change(shop.house.admin, "grace", UserPatch(disabled=True))
    shop.settle()
    assert shop.states() == []
    assert "its owner grace has left" in shop.get().explain


def test_a_service_ends_with_its_owner(shop: Shop) -> None:
    house = shop.house
    shop.add(who=house.member("ivan", "default"), min_replicas=0, max_replicas=1)
    shop.settle(load=0)
    house.tenancy.users.delete(house.admin, "ivan")
    assert shop.get().state == "deleting"
    shop.look()
    assert shop.serving.list_services(house.admin) == []


def test_a_service_whose_owner_may_run_no_jobs_runs_nothing(shop: Shop) -> None:
    heidi = shop.house.member("heidi", "default")
    shop.add(who=heidi)
    shop.settle()
    assert shop.states() == [READY]
    shop.house.tenancy.users.change(shop.house.admin, "heidi", UserPatch(role="viewer"))
    shop.settle()
    assert (shop.states(), shop.live_jobs()) == ([], 0)
    told = "its owner heidi has the role viewer, which may not run jobs"
    assert told in shop.get().explain


def test_a_service_goes_to_zero_and_a_waiting_request_wakes_it(shop: Shop) -> None:
    shop.add(min_replicas=0, max_replicas=2, down_seconds=0)
    shop.settle(load=0)
    assert shop.states() == []
    assert shop.get().explain == "scaled to 0: the next request starts a replica"
    shop.look(load=0, waiting=1)
    shop.settle(load=1)
    assert shop.states() == [READY]
    shop.settle(load=0)
    assert shop.states() == []


@pytest.mark.sampled(18)
@pytest.mark.parametrize("step", range(1, 37))
def test_a_death_at_any_step_leaves_the_right_number(shop: Shop, step: int) -> None:
    shop.add(min_replicas=2, max_replicas=3, down_seconds=0)
    with killed_at(shop.house, step):
        shop.settle()
        shop.settle(load=30)
        shop.settle(load=1)
    shop.settle(load=30, looks=8)
    assert shop.states() == [READY] * 3
    assert shop.live_jobs() == 3
    shop.settle(load=1, looks=8)
    assert shop.states() == [READY] * 2
    assert shop.live_jobs() == 2
    numbers = [one.number for one in shop.sight().replicas]
    assert len(numbers) == len(set(numbers))
