"""What a report, or the work of a node, costs does not grow with the gang: counted, not timed."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gpupool.allocations.gangs import Meeting, shape_of
from gpupool.model.claim import Shape
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


def test_the_shape_of_a_role_is_made_once_for_all_members_that_are_placed(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A placement made it 2,000 times, and hashed each one anew, while every other write waited."""
    made = list[int]()

    def counted(row: Any) -> Shape:
        made.append(row.id)
        return shape_of(row)

    monkeypatch.setattr("gpupool.allocations.held.shape_of", counted)
    parts = [RoleIn(name="head", count=1), RoleIn(name="worker", count=FEW)]
    house.submit(1, None, name="train", gang=GroupIn(name="all", parts=parts))
    assert len(house.work()) == 1 + FEW
    assert len(made) == len(set(made)) == 2
    made.clear()
    house.restart()
    assert len(made) == len(set(made)) == 2


def test_values_of_a_transaction_are_written_as_json_by_one_encoder(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoders = Counter[str]()
    begin = json.JSONEncoder.__init__

    def counted(encoder: json.JSONEncoder, *args: Any, **options: Any) -> None:
        encoders["made"] += 1
        begin(encoder, *args, **options)

    monkeypatch.setattr(json.JSONEncoder, "__init__", counted)
    house.submit(1, None, name="train", gang=GroupIn(name="all", parts=[RoleIn(name="worker", count=FEW)]))
    assert encoders["made"] < FEW
