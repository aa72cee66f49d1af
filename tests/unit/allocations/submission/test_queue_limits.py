"""What waits is bounded for each user and each tenant, also while submissions come at the same
time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.allocations.service import Allocations
from gpupool.allocations.submission.queue_limits import PendingLimits
from gpupool.base.errors import BadOption, TooMuchPending
from gpupool.host.settings.queue_limits import read_limits
from gpupool.model.tenant import Principal
from gpupool.wire.submissions import GroupIn, RoleIn
from tests.support.house import House


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """One card; three entries of the queue for a user, four for a tenant."""
    made = House(tmp_path, cards=1)
    limits = PendingLimits(per_user=3, per_tenant=4)
    made.allocations = Allocations(
        made.store, made.tenancy, made.fleet, made.metering, pending_limits=limits
    )
    made.allocations.placer.load()
    made.tenancy.tenants.create(made.admin, "nlp", None)
    made.submit(1000, None, name="holder")
    yield made
    made.close()


def submit(house: House, who: Principal, times: int, **options: object) -> None:
    for _ in range(times):
        house.submit(1000, None, principal=who, **options)


def test_a_user_has_so_many_entries_and_is_told_the_numbers(house: House) -> None:
    ann, bob = house.member("ann", "nlp"), house.member("bob", "nlp")
    submit(house, ann, 3)
    with pytest.raises(TooMuchPending) as caught:
        submit(house, ann, 1)
    assert (
        caught.value.message
        == "you have 3 entries in the queue, this submission adds 1, the limit is 3"
    )
    assert caught.value.details == {"waiting": 3, "adds": 1, "limit": 3}
    assert "--array" in caught.value.hint
    submit(house, bob, 1)
    with pytest.raises(TooMuchPending, match="tenant nlp has 4 entries in the queue"):
        submit(house, bob, 1)
    submit(house, house.admin, 9)


def test_the_rest_of_an_array_is_one_entry_whatever_its_size(house: House) -> None:
    ann = house.member("ann", "nlp")
    submit(house, ann, 1, array=1_000_000)
    assert house.allocations.cache.count_entries("nlp", ann.user_id) == 2
    with pytest.raises(
        TooMuchPending, match="you have 2 entries in the queue, this submission adds 2"
    ):
        submit(house, ann, 1, array=2)
    submit(house, ann, 1, array=1)


def test_members_of_a_gang_are_entries(house: House) -> None:
    house.register(4, "node-2")
    ann = house.member("ann", "nlp")
    whole = GroupIn(name="all", parts=[RoleIn(name="worker", count=4)])
    with pytest.raises(TooMuchPending, match="adds 4, the limit is 3"):
        submit(house, ann, 1, gang=whole)


def test_what_starts_or_is_stopped_counts_no_more_and_a_restart_changes_nothing(
    house: House,
) -> None:
    ann = house.member("ann", "nlp")
    submit(house, ann, 3)
    house.finish("holder")
    house.allocations.placer.run_cycle()
    assert house.allocations.cache.count_entries("nlp", ann.user_id) == 2
    house.allocations.placer.load()
    assert house.allocations.cache.count_entries("nlp", ann.user_id) == 2
    house.allocations.stops.stop_all(ann, "user", None)
    assert house.allocations.cache.count_entries("nlp") == 0
    submit(house, ann, 2)


def test_the_limits_come_from_the_environment_of_the_server() -> None:
    assert read_limits({}) == PendingLimits()
    assert read_limits({"GPUPOOL_MAX_PENDING_PER_USER": "7"}) == PendingLimits(per_user=7)
    with pytest.raises(BadOption, match="GPUPOOL_MAX_PENDING_PER_TENANT"):
        read_limits({"GPUPOOL_MAX_PENDING_PER_TENANT": "many"})
