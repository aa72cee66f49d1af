"""What a report costs does not grow with the gang: counted, not timed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpupool.wire.submissions import GroupIn, RoleIn
from tests.support.database_steps import database_steps
from tests.support.gang_sizes import FEW, MANY, REPORTS, told
from tests.support.house import House


def steps_of_reports(
    directory: Path, members: int, before: dict[str, Any] | None, **report: Any
) -> int:
    """Of reports of REPORTS members of a gang; `before` is what all told, or the one whose end is
    the gang's."""
    directory.mkdir()
    house = House(directory)
    try:
        house.submit(
            1, None, gang=GroupIn(name="all", parts=[RoleIn(name="worker", count=members)])
        )
        items = house.work()
        if before is not None:
            told(house, items[:1] if before["state"] == "ended" else items, **before)
        with database_steps(house.store.engine) as steps:
            told(house, items[1 : 1 + REPORTS], **report)
        return steps.count
    finally:
        house.close()


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
