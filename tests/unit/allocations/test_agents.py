"""What an agent tells at once is taken in part by part: counted in rows, and told again after a
kill at any step."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
import sqlalchemy as sa

from gpupool.allocations.store.tables import allocations, jobs
from gpupool.fleet.tables import devices
from gpupool.metering.tables import delivered, intervals
from gpupool.store.tables import events, idempotency
from gpupool.tenancy.tables import tenants
from gpupool.wire.fleet import ReportIn, ReportsIn, WorkOut
from gpupool.wire.samples import JobSample
from gpupool.wire.submissions import GroupIn, RoleIn
from tests.support.house import House
from tests.support.keyed import with_a_key
from tests.support.killed import killed_at
from tests.support.resizing import rows, running, work_of
from tests.support.written_rows import written_rows

PART = 5
ROWS_A_REPORT = 6
ROWS_BESIDE = 8


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpupool.allocations.agents.REPORTS_AT_ONCE", PART)


def gang(house: House, members: int, name: str = "train") -> list[WorkOut]:
    house.submit(
        1, None, name=name, gang=GroupIn(name="all", parts=[RoleIn(name="worker", count=members)])
    )
    return [item for item in house.work() if item.job_name.startswith(name)]


def report(item: WorkOut, state: str, **more: Any) -> ReportIn:
    return ReportIn(allocation=item.allocation, generation=item.generation, state=state, **more)


def tell(house: House, *reports: ReportIn) -> list[str]:
    return house.allocations.agents.apply_reports("node-1", ReportsIn(reports=list(reports))).stale


def left(house: House) -> dict[str, Any]:
    """What the ledger says when all is over: states, what is held, and how often each end was
    told."""
    with house.store.read() as connection:
        ends = (
            connection.execute(sa.select(events.c.subject).where(events.c.kind == "job.ended"))
            .scalars()
            .all()
        )
        states = connection.execute(
            sa.select(jobs.c.name, jobs.c.state, jobs.c.reason).order_by(jobs.c.id)
        ).all()
        held = [
            connection.execute(sa.select(sa.func.sum(column))).scalar_one()
            for column in (devices.c.used_milli, tenants.c.held_milli)
        ]
        query = sa.select(sa.func.count()).where(intervals.c.end_s.is_(None))
        open_intervals = connection.execute(query).scalar_one()
        live = connection.execute(
            sa.select(sa.func.count()).where(allocations.c.state != "released")
        ).scalar_one()
    assert len(ends) == len(set(ends))
    return {
        "states": [tuple(row) for row in states],
        "held": held,
        "open": open_intervals,
        "live": live,
    }


def test_reports_are_taken_in_by_transactions_of_a_bounded_size(house: House) -> None:
    items = gang(house, 23)
    with written_rows(house.store.engine) as written:
        assert tell(house, *(report(item, "running", started_ns=5) for item in items)) == []
        assert tell(house, *(report(item, "ended", exit_code=0) for item in items)) == []
    assert max(written) <= PART * ROWS_A_REPORT + ROWS_BESIDE
    assert {state for _, state, _ in left(house)["states"]} == {"done"}


def test_what_is_stale_is_answered_from_every_part(house: House) -> None:
    items = gang(house, 12)
    stale = [item.allocation for item in items[::4]]
    reports = [
        ReportIn(
            allocation=item.allocation,
            generation=item.generation + (item.allocation in stale),
            state="running",
            started_ns=5,
        )
        for item in items
    ]
    assert tell(house, *reports) == stale


@pytest.mark.parametrize(("code", "state"), [(0, "done"), (3, "failed")])
def test_reports_killed_between_parts_are_told_again_and_taken_in_once(
    house: House, code: int, state: str
) -> None:
    for number in count(1):
        items = gang(house, 12, name=f"train{number}")
        with killed_at(house, number) as seen:
            tell(house, *(report(item, "ended", reason="exited", exit_code=code) for item in items))
        assert (
            tell(house, *(report(item, "ended", reason="exited", exit_code=code) for item in items))
            == []
        )
        found = left(house)
        assert (found["held"], found["open"], found["live"]) == ([0, 0], 0, 0)
        assert {one for _, one, _ in found["states"]} == {state}
        if len(seen) < number:
            break
    assert number > 6  # three parts of two steps each


def test_the_key_of_reports_is_recorded_with_the_last_part(house: House) -> None:
    """With an earlier one, a repetition after a kill would be told that all of it was carried
    out."""

    def keys() -> int:
        with house.store.read() as connection:
            return int(
                connection.execute(sa.select(sa.func.count()).select_from(idempotency)).scalar_one()
            )

    reports = [report(item, "running", started_ns=5) for item in gang(house, 12)]
    for number in range(1, 6):
        with killed_at(house, number), with_a_key(house):
            tell(house, *reports)
        assert keys() == 0
    with with_a_key(house):
        tell(house, *reports)
    assert keys() == 1
    assert {state for _, state, _ in left(house)["states"]} == {"running"}


@pytest.mark.parametrize("first", ["ended", "not_started"])
def test_members_of_one_gang_in_two_parts_end_as_they_would_in_one(
    house: House, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """A member fails and others were not started, which alone would let the gang wait again."""
    told = dict[int, list[str]]()
    for size in (1, 2, 1000):
        monkeypatch.setattr("gpupool.allocations.agents.REPORTS_AT_ONCE", size)
        items = gang(house, 4, name=f"train{size}")
        fails = report(items[0], "ended", reason="exited", exit_code=3)
        others = [report(item, "not_started") for item in items[1:]]
        tell(house, *([fails, *others] if first == "ended" else [*others, fails]))
        found = left(house)
        assert (found["held"], found["open"], found["live"]) == ([0, 0], 0, 0)
        told[size] = [
            state for name, state, _ in found["states"] if name.startswith(f"train{size}.")
        ]
    assert told[1] == told[2] == told[1000] == ["failed", "stopped", "stopped", "stopped"]


@pytest.mark.parametrize("node", ["node-1", "node-2"])
def test_a_sample_that_comes_again_after_a_new_start_counts_once(house: House, node: str) -> None:
    """The answer to the report of an end was lost, and the job runs again, perhaps elsewhere."""

    def sum_books() -> int:
        return sum(row.gpu_milliseconds for row in rows(house, delivered))

    running(house, "train", 1000, None, requeue=True)
    item = work_of(house, "train")
    body = ReportsIn(
        reports=[report(item, "lost")], jobs=[JobSample(job=item.job, gpu_milliseconds=777)]
    )
    for _ in range(2):
        house.allocations.agents.apply_reports("node-1", body)
        assert sum_books() == 777
    if node == "node-2":
        house.submit(1000, None, name="wall", priority="high", count=2)
        house.register(1, "node-2")
    house.allocations.placer.run_cycle()
    assert house.job("train").seats[0].device.partition(":")[0] == node
    house.allocations.agents.apply_reports("node-1", body)
    assert sum_books() == 777
    again = next(one for one in house.work(node=node) if one.job == item.job)
    last = ReportsIn(
        reports=[report(again, "ended", exit_code=0)],
        jobs=[JobSample(job=item.job, gpu_milliseconds=100)],
    )
    for _ in range(2):
        house.allocations.agents.apply_reports(node, last)
        assert sum_books() == 877
