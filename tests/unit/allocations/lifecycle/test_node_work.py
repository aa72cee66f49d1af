"""The work of an agent: what changed since its cursor, with all that a job needs."""

from __future__ import annotations

from gpupool.wire.submissions import GroupIn, RoleIn
from tests.support.house import House


def test_a_member_that_is_to_stop_is_not_told_of_the_others(house: House) -> None:
    house.submit(
        1, None, name="train", gang=GroupIn(name="all", parts=[RoleIn(name="worker", count=3)])
    )
    house.allocations.jobs.stop_job("train", house.admin, 0)
    assert [(one.want, "GPUPOOL_GANG_HOSTS" in one.env) for one in house.work()] == [
        ("stop", False)
    ] * 3
