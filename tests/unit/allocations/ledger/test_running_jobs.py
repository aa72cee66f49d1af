"""Jobs that hold seats, as rows of the ledger and as the scheduler sees them."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.allocations.store.gangs import read_shape
from gpupool.model.claim import Shape
from gpupool.wire.submissions import GroupIn, RoleIn
from tests.support.gang_sizes import FEW
from tests.support.house import House


def test_the_shape_of_a_role_is_made_once_for_all_members_that_are_placed(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A placement made it 2,000 times, and hashed each one anew, while every other write waited."""
    made = list[int]()

    def counted(row: Any) -> Shape:
        made.append(row.id)
        return read_shape(row)

    monkeypatch.setattr("gpupool.allocations.ledger.running_jobs.read_shape", counted)
    parts = [RoleIn(name="head", count=1), RoleIn(name="worker", count=FEW)]
    house.submit(1, None, name="train", gang=GroupIn(name="all", parts=parts))
    assert len(house.work()) == 1 + FEW
    assert len(made) == len(set(made)) == 2
    made.clear()
    house.restart()
    assert len(made) == len(set(made)) == 2
