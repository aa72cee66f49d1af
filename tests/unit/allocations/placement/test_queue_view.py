"""The queue in the order of its turns, as far as the caller may see it."""

from __future__ import annotations

from gpupool.model.tenant import UserRole
from tests.support.house import House


def test_the_queue_is_shown_in_the_order_of_its_turns(house: House) -> None:
    house.submit(1000, None, name="holder", count=2)
    house.submit(1000, None, name="late")
    house.submit(1000, None, name="urgent", priority="high")
    house.submit(1000, None, name="many", array=3, priority="low")
    house.allocations.placer.run_cycle()
    rows = house.allocations.quotas.list_queue(house.admin, 10)
    assert [(row.place, row.job, row.count) for row in rows] == [
        (1, "urgent", 1), (2, "late", 1), (3, "many.0", 1), (4, "many.1", 1), (5, "many.2", 1),
    ]  # fmt: skip
    assert rows[0].reason == "not a whole card free"
    assert rows[0].waited_seconds is not None


def test_of_other_tenants_only_the_number_of_jobs_is_told(house: House) -> None:
    house.tenancy.tenants.create(house.admin, "team", None)
    house.allocations.placer.load()
    mate = house.member("mate", "team", UserRole.USER)
    house.submit(1000, None, name="holder", count=2)
    house.submit(1000, None, name="theirs", array=3)
    house.submit(1000, None, name="mine", principal=mate, priority="low")
    rows = house.allocations.quotas.list_queue(mate, 10)
    assert [(row.place, row.count, row.job, row.tenant) for row in rows] == [
        (1, 3, None, None), (4, 1, "mine", "team"),
    ]  # fmt: skip
