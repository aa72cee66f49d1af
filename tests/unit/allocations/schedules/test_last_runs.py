"""A schedule knows its own run, whoever owns it, and takes no job of the same name for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.model.tenant import Principal, UserRole
from gpupool.wire.leavers.handover import HandoverIn
from gpupool.wire.submissions import JobIn
from tests.support.house import House
from tests.unit.allocations.schedules.test_runner import Calendar

JOB = {
    "shape": {"gpu_milli": 300, "memory_bytes": 1 << 30},
    "launch": {"argv": ["true"]},
}
ROLE = {"name": "worker", "count": 2}
GANG = {"gang": {"name": "pair", "parts": [ROLE]}}


class Tenants(Calendar):
    """A calendar with tenant `nlp`, and in it the users ann and bob."""

    def __init__(self, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(house, monkeypatch)
        house.tenancy.tenants.create(house.admin, "nlp", None)
        self.ann = house.member("ann", "nlp")
        self.bob = house.member("bob", "nlp")

    def hand_schedule_over(self) -> None:
        body = HandoverIn(to="bob", only=["nightly"])
        assert self.house.allocations.handovers.hand_over(self.house.admin, "ann", body).handed == 1

    def submit_named(self, name: str, who: Principal, **more: object) -> None:
        body = JobIn.model_validate(JOB | {"name": name} | more)
        self.house.allocations.jobs.submit_job(body, who, None)

    def read_wants(self, who: Principal) -> set[str]:
        """Return what the node is to do with the jobs of a user."""
        return {
            item.want for item in self.house.work() if self.house.job(item.job).user == who.user
        }

    def read_texts(self, who: Principal) -> list[tuple[str, str]]:
        runs = self.house.allocations.schedules.list_runs("nightly", who, 9)
        return [(run.outcome, run.text) for run in reversed(runs)]


@pytest.fixture
def calendar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tenants]:
    house = House(tmp_path)
    yield Tenants(house, monkeypatch)
    house.close()


@pytest.mark.parametrize("more", [{}, {"array": 2}, GANG], ids=["job", "array", "gang"])
def test_a_schedule_that_was_handed_over_replaces_the_run_of_its_former_owner(
    calendar: Tenants, more: dict[str, object]
) -> None:
    calendar.add(who=calendar.ann, overlap="replace", job=JOB | more)
    calendar.come()
    calendar.place()
    calendar.submit_named("other", calendar.ann)
    calendar.place()
    calendar.hand_schedule_over()
    calendar.come()
    assert calendar.read_texts(calendar.bob) == [("submitted", ""), ("submitted", "")]
    work = {calendar.house.job(item.job).name: item.want for item in calendar.house.work()}
    assert work.pop("other") == "run"
    assert set(work.values()) == {"stop"}
    assert len(work) == (1 if not more else 2)
    assert calendar.house.job("other").user == "ann"


@pytest.mark.parametrize("overlap", ["skip", "replace", "queue"])
def test_an_admins_schedule_leaves_runs_of_the_same_name_in_other_tenants_alone(
    calendar: Tenants, overlap: str
) -> None:
    admin = calendar.house.admin
    calendar.add(who=admin, overlap=overlap, job=JOB | {"array": 2})
    calendar.come()
    calendar.place()
    calendar.submit_named(calendar.last_job(), calendar.ann, array=2)
    calendar.place()
    calendar.come()
    assert calendar.read_wants(calendar.ann) == {"run"}
    assert calendar.outcomes() == ["submitted", "skipped" if overlap == "skip" else "submitted"]
    assert calendar.read_wants(admin) == {"stop" if overlap == "replace" else "run"}


@pytest.mark.parametrize("more", [{}, {"array": 2}], ids=["job", "array"])
def test_a_job_of_the_name_of_an_ended_run_is_no_run(
    calendar: Tenants, more: dict[str, object]
) -> None:
    boss = calendar.house.member("boss", "nlp", UserRole.TENANT_ADMIN)
    calendar.add(who=boss, overlap="replace", job=JOB | {"array": 2})
    calendar.come()
    calendar.place()
    name = calendar.last_job()
    for index in range(2):
        calendar.house.finish(f"{name}.{index}")
    calendar.submit_named(name, calendar.ann, **more)
    calendar.place()
    calendar.come()
    assert calendar.read_wants(calendar.ann) == {"run"}
    calendar.place()
    assert calendar.house.job(f"{calendar.last_job()}.0").state == "starting"
