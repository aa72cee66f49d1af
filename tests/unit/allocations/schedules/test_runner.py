"""Each instant of a schedule submits one job, whatever dies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.allocations.schedules.rows import Row
from gpupool.base.errors import (
    BadSchedule,
    NameTaken,
    NoPermission,
    StaleGeneration,
    TooManySchedules,
    UnknownSchedule,
    WrongState,
)
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.model.tenant import Principal, UserRole
from gpupool.wire.chains.schedules import (
    ScheduleChangeIn,
    ScheduleIn,
    ScheduleOut,
    ScheduleRunOut,
)
from gpupool.wire.fleet import RunAs
from gpupool.wire.people import UserPatch
from tests.support.house import House
from tests.support.killed import killed_at

MINUTE = 60 * NANOS_PER_SECOND
DAY = 24 * 60 * MINUTE


class Calendar:
    """A house whose clock the test sets ahead."""

    def __init__(self, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
        self.house = house
        self.ahead_ns = 0
        real = house.store.clock.now_ns
        monkeypatch.setattr(house.store.clock, "now_ns", lambda: real() + self.ahead_ns)

    def add(
        self,
        name: str = "nightly",
        who: Principal | None = None,
        run_as: RunAs | None = None,
        **more: object,
    ) -> ScheduleOut:
        job = {
            "shape": {"gpu_milli": 300, "memory_bytes": 1 << 30},
            "launch": {"argv": ["true"], "env": {"SECRET": "x"}},
        }
        body = {"name": name, "cron": "0 2 * * *", "job": job, **more}
        service = self.house.allocations.schedules
        return service.add(ScheduleIn.model_validate(body), who or self.house.admin, run_as)

    def go_to(self, at_ns: int) -> None:
        self.ahead_ns += at_ns - self.house.store.clock.now_ns()

    def look(self) -> None:
        self.house.allocations.schedules.runner.look()

    def come(self, name: str = "nightly") -> None:
        """Go to the next instant, and look."""
        next_ns = self.house.allocations.schedules.get(name, self.house.admin).next_ns
        assert next_ns is not None
        self.go_to(next_ns)
        self.look()

    def outcomes(self, name: str = "nightly") -> list[str]:
        runs = self.house.allocations.schedules.list_runs(name, self.house.admin, 50)
        return [run.outcome for run in reversed(runs)]

    def place(self) -> None:
        while self.house.allocations.placer.run_cycle().more:
            pass

    def last_job(self, name: str = "nightly") -> str:
        last = self.house.allocations.schedules.get(name, self.house.admin).last_job
        assert last is not None
        return last


@pytest.fixture
def calendar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Calendar]:
    house = House(tmp_path)
    yield Calendar(house, monkeypatch)
    house.close()


def test_an_instant_submits_one_job_and_goes_on(calendar: Calendar) -> None:
    made = calendar.add()
    assert made.next_ns is not None
    calendar.look()
    assert calendar.outcomes() == []
    calendar.come()
    calendar.look()
    assert calendar.outcomes() == ["submitted"]
    job = calendar.house.job(calendar.last_job())
    assert job.name.startswith("nightly-20")
    assert job.command == ["true"]
    after = calendar.house.allocations.schedules.get("nightly", calendar.house.admin)
    assert after.next_ns == made.next_ns + DAY


@pytest.mark.parametrize("step", range(1, 6))
def test_a_death_at_any_step_submits_one_job(calendar: Calendar, step: int) -> None:
    calendar.add()
    with killed_at(calendar.house, step):
        calendar.come()
    calendar.look()
    assert calendar.outcomes() == ["submitted"]
    assert calendar.house.count_jobs()["pending"] + calendar.house.count_jobs()["starting"] == 1


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_schedule_that_is_removed_while_it_submits_is_gone(
    calendar: Calendar, monkeypatch: pytest.MonkeyPatch, by_hand: bool
) -> None:
    schedules = calendar.house.allocations.schedules
    submit = schedules.runner.submit_run

    def submit_before_the_removal(row: Row, due_ns: int, now_ns: int) -> ScheduleRunOut:
        run = submit(row, due_ns, now_ns)
        if row.name == "nightly":
            schedules.remove("nightly", calendar.house.admin)
        return run

    monkeypatch.setattr(schedules.runner, "submit_run", submit_before_the_removal)
    calendar.add()
    calendar.add("other")
    if by_hand:
        run = schedules.run_now("nightly", calendar.house.admin)
        assert (run.outcome, run.job is None) == ("submitted", False)
    calendar.come("other")
    # Those of others go on, and what was submitted does too.
    assert calendar.outcomes("other") == ["submitted"]
    assert sum(calendar.house.count_jobs().values()) == 2
    with pytest.raises(UnknownSchedule):
        schedules.get("nightly", calendar.house.admin)


def test_a_restart_makes_up_for_the_last_instant_alone(calendar: Calendar) -> None:
    made = calendar.add()
    assert made.next_ns is not None
    calendar.go_to(made.next_ns + 3 * DAY + 10 * MINUTE)
    calendar.look()
    runs = calendar.house.allocations.schedules.list_runs("nightly", calendar.house.admin, 9)
    assert [(run.outcome, run.due_ns, run.text) for run in runs] == [
        ("submitted", made.next_ns + 3 * DAY, "3 instants before it were missed")
    ]


def test_an_instant_beyond_its_deadline_is_missed(calendar: Calendar) -> None:
    made = calendar.add(deadline_seconds=600)
    assert made.next_ns is not None
    calendar.go_to(made.next_ns + 11 * MINUTE)
    calendar.look()
    assert calendar.outcomes() == ["missed"]
    assert calendar.house.count_jobs()["pending"] == 0


def test_overlap_skip_leaves_the_instant_out(calendar: Calendar) -> None:
    calendar.add()
    calendar.come()
    calendar.place()
    calendar.come()
    assert calendar.outcomes() == ["submitted", "skipped"]
    calendar.house.finish(calendar.last_job())
    calendar.come()
    assert calendar.outcomes() == ["submitted", "skipped", "submitted"]


def test_overlap_queue_waits_for_the_last_job(calendar: Calendar) -> None:
    calendar.add(overlap="queue")
    calendar.come()
    calendar.place()
    first = calendar.last_job()
    calendar.come()
    second = calendar.house.job(calendar.last_job())
    assert second.reason.startswith("waits for job nightly-")
    calendar.house.finish(first)
    calendar.place()
    assert calendar.house.job(second.id).state == "starting"


def test_overlap_replace_stops_the_last_job(calendar: Calendar) -> None:
    calendar.add(overlap="replace")
    calendar.come()
    calendar.place()
    first = calendar.last_job()
    calendar.come()
    item = next(item for item in calendar.house.work() if item.job == first)
    assert item.want == "stop"
    calendar.house.report(item, "ended", reason="stopped", signal=15)
    calendar.place()
    assert calendar.house.job(calendar.last_job()).state == "starting"


def test_a_refused_job_replaces_nothing(
    calendar: Calendar, monkeypatch: pytest.MonkeyPatch
) -> None:
    calendar.add(overlap="replace")
    calendar.come()
    calendar.place()
    first = calendar.last_job()
    monkeypatch.setattr("gpupool.allocations.submission.validate.PRIORITIES", {})
    with calendar.house.store.engine.begin() as connection:
        row = "UPDATE schedules SET body = json_set(body, '$.priority', 'high-2')"
        connection.exec_driver_sql(row)
    calendar.come()
    assert calendar.outcomes() == ["submitted", "refused"]
    assert [item.want for item in calendar.house.work() if item.job == first] == ["run"]


@pytest.mark.nightly
@pytest.mark.parametrize("step", range(1, 8))
def test_a_death_at_any_step_replaces_the_last_job_once(calendar: Calendar, step: int) -> None:
    calendar.add(overlap="replace")
    calendar.come()
    calendar.place()
    first = calendar.last_job()
    with killed_at(calendar.house, step):
        calendar.come()
    calendar.look()
    assert calendar.outcomes() == ["submitted", "submitted"]
    assert [item.want for item in calendar.house.work() if item.job == first] == ["stop"]
    assert calendar.house.count_jobs()["pending"] == 1


def test_a_refused_job_is_recorded_and_the_next_instant_comes(
    calendar: Calendar, monkeypatch: pytest.MonkeyPatch
) -> None:
    calendar.add()
    monkeypatch.setattr("gpupool.allocations.submission.validate.PRIORITIES", {})
    row = "UPDATE schedules SET body = json_set(body, '$.priority', 'high-2')"
    with calendar.house.store.engine.begin() as connection:
        connection.exec_driver_sql(row)
    calendar.come()
    calendar.come()
    assert calendar.outcomes() == ["refused", "refused"]


def test_a_schedule_whose_owner_has_left_pauses_and_says_so(calendar: Calendar) -> None:
    house = calendar.house
    house.tenancy.tenants.create(house.admin, "nlp", None)
    ada = house.member("ada", "nlp")
    calendar.add(who=ada)
    house.tenancy.users.change(house.admin, "ada", UserPatch(disabled=True))
    calendar.come()
    after = house.allocations.schedules.get("nightly", house.admin)
    assert (after.state, after.reason) == ("paused", "its owner ada has left")
    assert calendar.outcomes() == []


def test_a_schedule_of_a_zone_that_is_gone_pauses_and_holds_up_no_other(calendar: Calendar) -> None:
    calendar.add()
    calendar.add("other")
    lost = "UPDATE schedules SET time_zone = 'Mars/Olympus', next_ns = next_ns - 1"
    with calendar.house.store.engine.begin() as connection:
        connection.exec_driver_sql(f"{lost} WHERE name = 'nightly'")
    calendar.come("other")
    assert calendar.outcomes("other") == ["submitted"]
    schedules = calendar.house.allocations.schedules
    after = schedules.get("nightly", calendar.house.admin)
    assert (after.state, after.reason) == (
        "paused",
        "its time zone Mars/Olympus is not known on this server",
    )
    with pytest.raises(BadSchedule, match="Mars/Olympus"):
        schedules.resume("nightly", calendar.house.admin)


def test_a_schedule_whose_owner_may_run_no_jobs_pauses_and_says_so(calendar: Calendar) -> None:
    house = calendar.house
    house.tenancy.tenants.create(house.admin, "nlp", None)
    ada = house.member("ada", "nlp")
    calendar.add(who=ada)
    house.tenancy.users.change(house.admin, "ada", UserPatch(role="viewer"))
    calendar.come()
    after = house.allocations.schedules.get("nightly", house.admin)
    assert (after.state, after.reason) == (
        "paused",
        "its owner ada has the role viewer, which may not run jobs",
    )
    assert calendar.outcomes() == []


@pytest.mark.parametrize(
    "change",
    [{"disabled": True}, pytest.param({"role": "viewer"}, marks=pytest.mark.nightly)],
)
def test_a_schedule_never_runs_as_an_owner_without_rights(
    calendar: Calendar, change: dict[str, object]
) -> None:
    house = calendar.house
    house.tenancy.tenants.create(house.admin, "nlp", None)
    ada = house.member("ada", "nlp")
    bob = house.member("bob", "nlp", UserRole.TENANT_ADMIN)
    calendar.add(who=ada)
    house.allocations.schedules.pause("nightly", bob)
    house.tenancy.users.change(house.admin, "ada", UserPatch.model_validate(change))
    for act in (house.allocations.schedules.run_now, house.allocations.schedules.resume):
        with pytest.raises(WrongState, match="its owner ada has ") as refused:
            act("nightly", bob)
        assert refused.value.hint.endswith("gpupool user handover ada --to USER")
    assert calendar.outcomes() == []
    assert house.count_jobs()["pending"] == 0


def test_a_schedule_ends_with_its_owner_and_does_not_come_back_with_the_name(
    calendar: Calendar,
) -> None:
    house = calendar.house
    house.tenancy.tenants.create(house.admin, "nlp", None)
    calendar.add(who=house.member("ada", "nlp"))
    calendar.add("kept", who=house.member("bob", "nlp"))
    house.tenancy.users.delete(house.admin, "ada")
    assert house.member("ada", "nlp").user_id
    found = house.allocations.schedules.list_schedules(house.admin)
    assert [one.name for one in found] == ["kept"]


def test_pause_lets_instants_pass_and_resume_goes_on_from_now(calendar: Calendar) -> None:
    schedules = calendar.house.allocations.schedules
    made = calendar.add()
    assert made.next_ns is not None
    assert schedules.pause("nightly", calendar.house.admin).next_ns is None
    calendar.go_to(made.next_ns + 10 * MINUTE)
    calendar.look()
    assert calendar.outcomes() == []
    assert schedules.resume("nightly", calendar.house.admin).next_ns == made.next_ns + DAY
    assert schedules.run_now("nightly", calendar.house.admin).outcome == "submitted"
    schedules.remove("nightly", calendar.house.admin)
    with pytest.raises(UnknownSchedule):
        schedules.get("nightly", calendar.house.admin)


def test_schedules_are_of_a_tenant(calendar: Calendar, monkeypatch: pytest.MonkeyPatch) -> None:
    house = calendar.house
    for tenant in ("nlp", "vision"):
        house.tenancy.tenants.create(house.admin, tenant, None)
    ada, bob, eve = (
        house.member("ada", "nlp"),
        house.member("bob", "nlp"),
        house.member("eve", "vision"),
    )
    calendar.add(who=ada)
    with pytest.raises(NameTaken):
        calendar.add(who=bob)
    with pytest.raises(UnknownSchedule):
        house.allocations.schedules.get("nightly", eve)
    with pytest.raises(NoPermission):
        house.allocations.schedules.pause("nightly", bob)
    assert house.allocations.schedules.get("nightly", bob).command == []
    monkeypatch.setattr("gpupool.allocations.schedules.service.MOST_SCHEDULES", 1)
    with pytest.raises(TooManySchedules):
        calendar.add("second", who=bob)


@pytest.mark.parametrize("more", [{"name": "x"}, {"after": [{"job": "x"}]}, {"attached": True}])
def test_a_job_of_a_schedule_is_its_own(calendar: Calendar, more: dict[str, object]) -> None:
    job = {"shape": {"gpu_milli": 300}, "launch": {"argv": ["true"]}, **more}
    with pytest.raises(BadSchedule):
        calendar.add(job=job)


def change_of(made: ScheduleOut, **more: object) -> ScheduleChangeIn:
    names = ("cron", "time_zone", "overlap", "deadline_seconds")
    return ScheduleChangeIn.model_validate({name: getattr(made, name) for name in names} | more)


def test_a_change_of_what_was_read_moves_the_next_instant(calendar: Calendar) -> None:
    schedules = calendar.house.allocations.schedules
    admin = calendar.house.admin
    calendar.add()
    made, tag = schedules.get_tagged("nightly", admin)
    assert made.job is not None
    assert made.job["launch"]["env"] == {"SECRET": "x"}
    later = change_of(made, cron="0 5 * * *")
    changed, next_tag = schedules.change("nightly", later, admin, None, tag)
    assert (changed.cron, changed.id) == ("0 5 * * *", made.id)
    assert changed.job == made.job
    assert changed.next_ns is not None
    assert (changed.next_ns - (made.next_ns or 0)) % DAY == 3 * 60 * MINUTE
    with pytest.raises(StaleGeneration):
        schedules.change("nightly", change_of(made), admin, None, tag)
    assert schedules.change("nightly", later, admin, None, next_tag) == (changed, next_tag)
    calendar.come()
    assert calendar.outcomes() == ["submitted"]


def test_the_job_of_a_schedule_is_changed_by_its_owner_alone(calendar: Calendar) -> None:
    house = calendar.house
    house.tenancy.tenants.create(house.admin, "nlp", None)
    ada = house.member("ada", "nlp")
    calendar.add(who=ada)
    schedules = house.allocations.schedules
    made, _ = schedules.get_tagged("nightly", house.admin)
    assert made.job is None
    own = schedules.get("nightly", ada).job
    assert own is not None
    with pytest.raises(NoPermission):
        schedules.change("nightly", change_of(made, job=own), house.admin, None, None)
    other = own | {"launch": own["launch"] | {"argv": ["false"]}}
    assert schedules.change("nightly", change_of(made, job=other), ada, None, None)[0].command == [
        "false"
    ]
    slow, _ = schedules.change("nightly", change_of(made, overlap="queue"), house.admin, None, None)
    assert (slow.overlap, slow.user) == ("queue", "ada")
