"""Looks at idle jobs: each step once, in order, and back at the first use."""

from __future__ import annotations

import pytest

from gpupool.base.units import GIB
from gpupool.wire.billing.prices import PriceListIn
from gpupool.wire.submissions import GroupIn, JobIn, LaunchIn, RoleIn, ShapeIn
from tests.support.idle_house import IdleHouse
from tests.support.ledger_sums import used
from tests.support.resizing import resize, work_of


def test_the_ladder_warns_shrinks_and_stops_in_its_times(house: IdleHouse) -> None:
    house.set_policy()
    house.run_job()
    house.idle_until("job", 49, 49)
    assert house.list_kinds() == []
    house.idle_until("job", 1, 50)
    house.watch.look()
    assert house.list_kinds() == ["warned"]
    house.idle_until("job", 10, 60)
    assert house.list_kinds() == ["warned", "shrunk"]
    assert [card[0] for card in used(house)] == [50, 0]
    house.idle_until("job", 59, 119)
    house.idle_until("job", 1, 120)
    house.watch.look()
    assert house.list_kinds() == ["warned", "shrunk", "stopped"]
    house.finish("job", signal=15, exit_code=None)
    assert house.job("job").reason == "stopped by its idle policy: its share was not used"
    house.watch.look()
    with house.store.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM idle_states").scalar_one() == 0


def test_the_warning_says_what_comes_and_how_to_stay(house: IdleHouse) -> None:
    house.set_policy()
    house.run_job()
    house.idle_until("job", 50, 50)
    _, data = house.list_events()[0]
    assert data["idle_seconds"] == 3000
    assert (data["next_act"], data["next_seconds"]) == ("shrink", 600)
    assert data["command"] == "gpupool idle keep job"
    assert data["share"] == "0.50 GPU (50 % compute) + 8192 MiB"


def test_activity_begins_the_ladder_anew_and_the_share_grows_back(house: IdleHouse) -> None:
    house.set_policy()
    house.run_job()
    house.idle_until("job", 50, 50)
    house.idle_until("job", 10, 60)
    house.sample("job", None, launches=2)
    house.watch.look()
    assert house.list_kinds() == ["warned", "shrunk", "returned"]
    assert [card[0] for card in used(house)] == [500, 0]
    house.idle_until("job", 50, 50)
    assert house.list_kinds()[-1] == "warned"


def test_a_share_without_room_is_told_once_and_grows_when_there_is_room(house: IdleHouse) -> None:
    house.set_policy()
    house.run_job(milli=800)
    house.run_job("other", 1000)
    house.idle_until("job", 50, 50)
    house.idle_until("job", 10, 60)
    house.submit(900, 8, name="third")
    house.allocations.placer.run_cycle()
    assert house.job("third").state == "starting"
    house.sample("job", None, launches=2)
    house.watch.look()
    house.pass_minutes(1)
    house.sample("job", None, launches=3)
    house.watch.look()
    assert house.list_kinds() == ["warned", "shrunk", "return-waits"]
    _, data = house.list_events()[-1]
    assert "0.05 GPU free where 0.75 more would be needed" in data["reason"]
    assert house.read_state("job").waits_to_grow
    house.report(work_of(house, "third"), "running", started_ns=5)
    house.finish("third")
    house.pass_minutes(1)
    house.watch.look()
    assert house.list_kinds()[-1] == "returned"
    assert used(house)[0][0] == 800


def test_unknown_is_not_idle(house: IdleHouse) -> None:
    house.set_policy()
    house.run_job()
    # Its agent is away: an old sample says nothing.
    house.pass_minutes(300)
    house.watch.look()
    assert house.list_kinds() == []
    assert house.read_state("job").state == "unknown"


def test_a_stream_into_the_job_is_activity(house: IdleHouse) -> None:
    house.set_policy()
    house.run_job()
    house.idle_until("job", 50, 50)
    house.pass_minutes(5)
    house.watch.activity.note(house.job("job").id)
    house.idle_until("job", 5, 60)
    assert house.list_kinds() == ["warned"]
    house.idle_until("job", 45, 105)
    assert house.list_kinds() == ["warned", "warned"]


def test_bytes_of_the_terminal_of_a_job_are_activity(house: IdleHouse) -> None:
    house.set_policy()
    house.run_job()

    def pass_with_terminal(minutes: float, idle: float, rest: float) -> list[str]:
        house.pass_minutes(minutes)
        house.sample("job", idle, terminal_minutes=rest)
        house.watch.look()
        return house.list_kinds()

    assert pass_with_terminal(50, 50, 0) == []
    assert pass_with_terminal(50, 100, 50) == ["warned"]
    # The same bytes: this sample has come a little later.
    assert pass_with_terminal(1, 101, 50.99) == ["warned"]
    assert house.read_state("job").state == "idle"
    assert pass_with_terminal(9, 110, 59.99) == ["warned", "shrunk"]
    assert pass_with_terminal(5, 115, 0.5) == ["warned", "shrunk", "returned"]
    assert pass_with_terminal(49, 164, 49.5) == ["warned", "shrunk", "returned"]


def test_a_server_that_starts_again_goes_on_where_the_ladder_was(house: IdleHouse) -> None:
    house.set_policy()
    house.run_job()
    house.idle_until("job", 50, 50)
    house.restart()
    # The agent began anew with the server: it knows of a minute, the counters of all of them.
    house.idle_until("job", 10, 1)
    assert house.list_kinds() == ["warned", "shrunk"]
    house.restart()
    house.idle_until("job", 30, 1)
    house.sample("job", 1, launches=2)
    house.watch.look()
    assert house.list_kinds() == ["warned", "shrunk", "returned"]


def test_a_late_look_leaves_the_time_between_two_steps(house: IdleHouse) -> None:
    house.run_job()
    house.pass_minutes(600)
    house.set_policy()
    house.idle_until("job", 0, 600)
    house.idle_until("job", 9, 609)
    assert house.list_kinds() == ["warned"]
    house.idle_until("job", 1, 610)
    house.idle_until("job", 59, 669)
    assert house.list_kinds() == ["warned", "shrunk"]
    house.idle_until("job", 1, 670)
    assert house.list_kinds() == ["warned", "shrunk", "stopped"]


def test_a_dry_run_takes_nothing_and_counts_what_it_would_have(house: IdleHouse) -> None:
    rates = [{"model": "*", "price_micro": 2_000_000}]
    body = {"from_ns": 0, "currency": "EUR", "rates": rates}
    house.allocations.billing.prices.put("all", PriceListIn.model_validate(body))
    house.set_policy(mode="dry-run")
    house.run_job()
    begin_ns = house.time.wall_ns
    for minutes, total in ((50, 50), (10, 60), (60, 120), (60, 180)):
        house.idle_until("job", minutes, total)
    assert house.list_kinds() == ["dry-run"] * 3
    assert [card[0] for card in used(house)] == [500, 0]
    report = house.allocations.idleness.report(house.admin, begin_ns, house.time.wall_ns, None)
    rows = {row.act: row for row in report.rows}
    hour_ms = 3_600_000
    # 0.45 of a card for two hours, and the last 0.05 for one.
    assert rows["shrink"].card_milliseconds == pytest.approx(0.45 * 2 * hour_ms, rel=0.001)
    assert rows["stop"].card_milliseconds == pytest.approx(0.05 * hour_ms, rel=0.001)
    assert rows["shrink"].cost_micro == pytest.approx(0.45 * 2 * 2_000_000, rel=0.001)
    assert all(row.dry_run for row in report.rows)
    house.sample("job", None, launches=2)
    house.watch.look()
    house.pass_minutes(60)
    again = house.allocations.idleness.report(house.admin, begin_ns, house.time.wall_ns, None)
    assert [row.card_milliseconds for row in again.rows] == [
        row.card_milliseconds for row in report.rows
    ]


def test_a_report_says_how_many_steps_it_leaves_out(
    house: IdleHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.set_policy(mode="dry-run")
    house.run_job()
    begin_ns = house.time.wall_ns
    for minutes, total in ((50, 50), (10, 60), (60, 120), (60, 180)):
        house.idle_until("job", minutes, total)

    def count(most: int) -> tuple[int, int | None]:
        monkeypatch.setattr("gpupool.allocations.idleness.service.MOST_SPANS", most)
        found = house.allocations.idleness.report(house.admin, begin_ns, house.time.wall_ns, None)
        return sum(row.steps for row in found.rows), found.left_out

    assert [count(most) for most in (3, 2, 1)] == [(2, 0), (2, 0), (1, 1)]


def test_a_policy_that_turns_from_dry_run_to_on_warns_first(house: IdleHouse) -> None:
    house.set_policy(mode="dry-run")
    house.run_job()
    for minutes, total in ((50, 50), (10, 60), (60, 120), (60, 180)):
        house.idle_until("job", minutes, total)
    house.set_policy()
    house.idle_until("job", 1, 121)
    house.idle_until("job", 0, 121)
    assert house.list_kinds() == ["dry-run"] * 3 + ["warned"]


def test_a_policy_that_is_removed_gives_back_what_it_took(house: IdleHouse) -> None:
    policy = house.set_policy()
    house.run_job()
    house.idle_until("job", 50, 50)
    house.idle_until("job", 10, 60)
    house.allocations.idleness.policies.delete(house.admin, policy.id)
    house.watch.look()
    assert used(house)[0][0] == 500
    assert house.list_kinds()[-1] == "returned"


def test_a_job_that_agreed_is_suspended_and_stays_so_until_it_wakes(house: IdleHouse) -> None:
    house.set_policy(("warn", 50, None), ("suspend", 60, None), ("stop", 600, None))
    house.run_job(host_bytes=4 * GIB, idle_seconds=60)
    house.idle_until("job", 50, 50)
    house.idle_until("job", 10, 60)
    assert house.list_kinds() == ["warned", "suspended"]
    assert work_of(house, "job").only_idle
    house.report(work_of(house, "job"), "suspended", gpu_memory_bytes=GIB)
    # Room is free and no claim waits: an idle policy gives the share back all the same.
    house.allocations.idle_suspension.look()
    assert [card[0] for card in used(house)] == [0, 0]
    house.report(work_of(house, "job"), "woken")
    house.watch.look()
    house.allocations.idle_suspension.look()
    house.report(work_of(house, "job"), "resumed")
    house.watch.look()
    assert used(house)[0][0] == 500
    assert house.list_kinds() == ["warned", "suspended", "returned"]


def test_a_key_in_the_terminal_of_a_suspended_job_brings_it_back(house: IdleHouse) -> None:
    house.set_policy(("warn", 50, None), ("suspend", 60, None))
    house.run_job(idle_seconds=60, cpu_milli=1000, host_bytes=GIB)
    house.idle_until("job", 50, 50)
    house.idle_until("job", 10, 60)
    house.report(work_of(house, "job"), "suspended", gpu_memory_bytes=GIB)
    house.pass_minutes(10)
    house.sample("job", 70, terminal_minutes=70)
    house.watch.look()
    assert house.list_kinds() == ["warned", "suspended"]
    house.sample("job", 70, terminal_minutes=0)
    seen = house.read_state("job")
    assert (seen.last_ns or 0) >= house.time.wall_ns


def test_a_job_that_cannot_be_suspended_goes_on_to_the_next_step(house: IdleHouse) -> None:
    house.set_policy(("warn", 50, None), ("suspend", 60, None), ("stop", 120, None))
    house.run_job()
    house.idle_until("job", 50, 50)
    house.idle_until("job", 10, 60)
    assert house.list_events()[-1] == (
        "job.idle-skipped",
        {
            "name": "job",
            "act": "suspend",
            "reason": "it was not submitted with --when-idle suspend",
        },
    )
    house.idle_until("job", 60, 120)
    assert house.list_kinds()[-1] == "stopped"


def test_a_resize_of_the_user_is_not_undone(house: IdleHouse) -> None:
    house.set_policy()
    house.run_job()
    house.idle_until("job", 50, 50)
    house.idle_until("job", 10, 60)
    resize(house, "job", 200)
    house.sample("job", None, launches=2)
    house.watch.look()
    assert used(house)[0][0] == 200


def test_a_gang_is_one_unit_and_as_active_as_its_most_active_member(house: IdleHouse) -> None:
    house.set_policy()
    parts = [RoleIn(name="worker", count=2)]
    house.submit(300, 8, name="train", gang=GroupIn(name="all", parts=parts))
    house.allocations.placer.run_cycle()
    for item in house.work():
        house.report(item, "running", started_ns=5)
    names = [item.job for item in house.work()]
    house.pass_minutes(50)
    for name, idle in zip(names, (50, 20), strict=True):
        house.sample(name, idle)
    house.watch.look()
    assert house.list_kinds() == []
    house.pass_minutes(30)
    for name, idle in zip(names, (80, 50), strict=True):
        house.sample(name, idle)
    house.watch.look()
    assert house.list_kinds() == ["warned"]
    for minutes in (10, 60):
        house.pass_minutes(minutes)
        for name, idle in zip(names, (80 + minutes, 50 + minutes), strict=True):
            house.sample(name, idle if minutes == 10 else idle + 10)
        house.watch.look()
    assert house.list_kinds() == ["warned", "skipped", "stopped"]
    assert house.list_events()[-1][1]["jobs"] == 2
    assert {item.want for item in house.work()} == {"stop"}


def test_a_notebook_is_asked_for_its_kernels_before_each_step(house: IdleHouse) -> None:
    house.set_policy(kind="notebook")
    launch = LaunchIn(argv=["sh", "-c", "true", "gpupool-notebook", "/home"])
    body = JobIn(name="nb", shape=ShapeIn(gpu_milli=300, memory_bytes=8 * GIB), launch=launch)
    house.allocations.jobs.submit_job(body, house.admin, None)
    house.report(work_of(house, "nb"), "running", started_ns=5)
    begin_ns = house.time.wall_ns
    answers: list[int | None] = [None, begin_ns + 30 * 60 * 10**9, 0, 0]
    house.watch.ask_kernels = lambda _job: answers.pop(0)
    # One that does not answer is not known, and so not idle.
    house.idle_until("nb", 50, 50)
    house.idle_until("nb", 0, 50)
    house.idle_until("nb", 0, 50)
    assert house.list_kinds() == []
    assert house.read_state("nb").idle_seconds == 20 * 60
    house.idle_until("nb", 30, 80)
    assert house.list_kinds() == ["warned"]
    assert answers == [0]
