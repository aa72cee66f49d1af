"""What a report, or the work of a node, costs does not grow with the gang: counted, not timed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gpupool.allocations.gangs import Meeting
from gpupool.wire.fleet import ReportIn, ReportsIn, WorkOut
from gpupool.wire.jobs import GroupIn, RoleIn
from tests.support.database_steps import database_steps
from tests.support.house import House

FEW, MANY, REPORTS = 60, 600, 20


def steps_of_reports(directory: Path, members: int, before: dict[str, Any] | None, **report: Any) -> int:
    """Of reports of REPORTS members of a gang; `before` is what all told, or the one whose end is the gang's."""
    directory.mkdir()
    house = House(directory)
    try:
        house.submit(1, None, gang=GroupIn(name="all", parts=[RoleIn(name="worker", count=members)]))
        items = house.work()
        if before is not None:
            told(house, items[:1] if before["state"] == "ended" else items, **before)
        with database_steps(house.store.engine) as steps:
            told(house, items[1 : 1 + REPORTS], **report)
        return steps.count
    finally:
        house.close()


def told(house: House, items: list[WorkOut], **report: Any) -> None:
    reports = [ReportIn(allocation=one.allocation, generation=one.generation, **report) for one in items]
    assert house.allocations.agents.reports("node-1", ReportsIn(reports=reports)).stale == []


@pytest.mark.parametrize(
    ("before", "report"),
    [
        (None, {"state": "running", "started_ns": 5}),
        ({"state": "running", "started_ns": 5}, {"state": "ended", "exit_code": 0}),
        ({"state": "ended", "exit_code": 3}, {"state": "ended", "reason": "stopped", "signal": 15}),
    ],
    ids=["running", "done", "stopped"],
)
def test_reports_of_members_hardly_cost_more_in_a_gang_of_ten_times_the_size(
    tmp_path: Path, before: dict[str, Any] | None, report: dict[str, Any]
) -> None:
    few = steps_of_reports(tmp_path / "few", FEW, before, **report)
    many = steps_of_reports(tmp_path / "many", MANY, before, **report)
    assert many < 3 * few  # the meter looks at every open interval, once for each batch of reports


def test_the_variables_of_a_gang_are_worked_out_once_for_all_members() -> None:
    """Each member was told of all others by looking at all others: 20 s for 2,000."""
    looks = Counter[str]()

    class Member:
        launcher, cards, node, agent = False, 1, "node-1", "agent-1"

        def __init__(self, rank: int) -> None:
            self.gang_role, self._rank = "worker", rank

        @property
        def gang_rank(self) -> int:
            looks["rank"] += 1
            return self._rank

    class Gang:
        id, name = 7, "train"

    members = [Member(rank) for rank in range(MANY)]
    meeting = Meeting(Gang(), members, {})
    told = [meeting.environment(member) for member in members]
    assert looks["rank"] <= 4 * MANY
    assert [one["RANK"] for one in told] == [str(rank) for rank in range(MANY)]


def test_a_member_that_is_to_stop_is_not_told_of_the_others(house: House) -> None:
    house.submit(1, None, name="train", gang=GroupIn(name="all", parts=[RoleIn(name="worker", count=3)]))
    house.allocations.stop("train", house.admin, 0)
    assert [(one.want, "GPUPOOL_GANG_HOSTS" in one.env) for one in house.work()] == [("stop", False)] * 3
