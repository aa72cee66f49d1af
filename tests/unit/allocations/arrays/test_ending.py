"""Ends of arrays: the rest is stopped in one row, ended members are counted."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from gpupool.allocations import stop
from gpupool.allocations.store.tables import jobs
from gpupool.base.errors import WrongState
from gpupool.store.tables import events
from tests.support.array_rows import MILLION, array_row, count
from tests.support.house import House
from tests.support.written_rows import written_rows


def test_stopping_an_array_writes_its_row_and_starts_no_further_member(house: House) -> None:
    house.submit(1000, None, name="sweep", array=MILLION)
    with written_rows(house.store.engine) as written:
        told = house.allocations.jobs.stop_job("sweep", house.admin, 0)
    assert max(written) < 30
    assert [(job.name, job.state, job.jobs) for job in told] == [
        ("sweep.0", "starting", 1),
        ("sweep.1", "starting", 1),
        ("sweep.[2-999999]", "stopped", 999_998),
    ]
    for item in house.work():
        house.report(item, "ended", signal=15)
    house.allocations.placer.run_cycle()
    assert house.work() == []
    assert house.allocations.jobs.get_array("sweep", house.admin).states == {"stopped": MILLION}
    assert house.job("sweep.77").reason == "stopped by its user"
    assert (house.allocations.cache.count_waiting(), count(house, jobs)) == (0, 2)
    with pytest.raises(WrongState, match="every job of array sweep has ended"):
        house.allocations.jobs.stop_job("sweep", house.admin, 0)
    house.submit(1000, None, name="sweep", array=2)


def test_an_array_whose_last_member_starts_meanwhile_is_stopped_as_its_jobs(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`gpupool down` waits for what it is told; a line for no job would be waited for in vain."""
    house.submit(1000, None, name="sweep", array=3)
    targets = stop._find_targets

    def slow(*words: Any) -> Any:
        found = targets(*words)
        house.finish("sweep.0")
        house.allocations.placer.run_cycle()
        return found

    monkeypatch.setattr(stop, "_find_targets", slow)
    told = house.allocations.jobs.stop_job("sweep", house.admin, 0)
    assert [job.name for job in told] == ["sweep.1", "sweep.2"]


def test_how_to_start_the_members_is_kept_until_the_last_has_ended(house: House) -> None:
    house.submit(1000, None, name="sweep", array=3)
    house.finish("sweep.0")
    house.allocations.placer.run_cycle()
    house.finish("sweep.1", exit_code=3)
    assert array_row(house).launch["env"] == {"SECRET": "x"}
    house.finish("sweep.2")
    row = array_row(house)
    assert (row.launch, row.done, row.failed) == (None, 2, 1)


def test_the_log_says_what_was_asked_and_what_was_given_up(house: House) -> None:
    house.submit(1000, None, name="sweep", array=MILLION)
    house.allocations.jobs.stop_job("sweep", house.admin, 0)
    with house.store.read() as connection:
        told = {row.kind: row.data for row in connection.execute(sa.select(events))}
    assert (told["job.submitted"]["count"], told["array.stopped"]["count"]) == (
        MILLION,
        MILLION - 2,
    )
    assert (
        told["job.submitted"]["array"] == house.allocations.jobs.get_array("sweep", house.admin).id
    )
    assert house.count_jobs()["pending"] == 0
