"""Gangs in the ledger: what members are told, and that they end and wait again as a whole."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from gpupool.allocations.store.tables import allocations, jobs
from gpupool.base.errors import BadOption, GpupoolError, NotFound, WrongState
from gpupool.base.units import GIB
from gpupool.fleet.tables import devices
from gpupool.wire.fleet import ReportIn, ReportsIn, WorkOut
from gpupool.wire.submissions import GroupIn, RoleIn, ShapeIn, WithinIn
from tests.support.house import House

SMALL = ShapeIn(gpu_milli=100, memory_bytes=GIB)


def gang(house: House, *roles: RoleIn, **options: Any) -> list[WorkOut]:
    """A gang called `train`, placed; the work of its members by rank."""
    group = GroupIn(name="all", parts=list(roles or (RoleIn(name="worker", count=3),)))
    house.submit(name="train", gang=group, **options)
    return work(house)


def work(house: House) -> list[WorkOut]:
    return sorted(house.work(), key=lambda item: item.job_name)


def states(house: House) -> dict[str, str]:
    with house.store.read() as connection:
        query = sa.select(jobs.c.name, jobs.c.state).order_by(jobs.c.gang_rank)
        return {row.name.removeprefix("train."): row.state for row in connection.execute(query)}


def held(house: House) -> int:
    with house.store.read() as connection:
        return int(connection.execute(sa.select(sa.func.sum(devices.c.used_milli))).scalar_one())


def run_all(house: House) -> list[WorkOut]:
    items = work(house)
    for item in items:
        house.report(item, "running", started_ns=5)
    return items


def test_members_are_jobs_with_ranks_and_find_each_other(house: House) -> None:
    items = gang(house)
    assert [item.job_name for item in items] == ["train.0", "train.1", "train.2"]
    told = items[1].env
    assert {key: told[key] for key in told if key.startswith("GPUPOOL_GANG")} == {
        "GPUPOOL_GANG": "train",
        "GPUPOOL_GANG_SIZE": "3",
        "GPUPOOL_GANG_RANK": "1",
        "GPUPOOL_GANG_ROLE": "worker",
        "GPUPOOL_GANG_HOSTS": "127.0.0.1,127.0.0.1,127.0.0.1",
        "GPUPOOL_GANG_SLOTS": "1,1,1",
    }
    assert (told["MASTER_ADDR"], told["RANK"], told["WORLD_SIZE"], told["LOCAL_RANK"]) == (
        "127.0.0.1",
        "1",
        "3",
        "0",
    )
    assert told["SECRET"] == "x"
    assert "GPUPOOL_ARRAY_INDEX" not in told
    assert len({item.env["MASTER_PORT"] for item in items}) == 1


def test_two_gangs_have_two_ports(house: House) -> None:
    first = gang(house, RoleIn(name="worker", count=1))
    house.submit(name="other", gang=GroupIn(name="all", parts=[RoleIn(name="worker", count=1)]))
    second = next(item for item in house.work() if item.job_name == "other.0")
    assert first[0].env["MASTER_PORT"] != second.env["MASTER_PORT"]


def test_members_with_several_cards_are_given_no_rank_of_a_process(house: House) -> None:
    (item,) = gang(house, RoleIn(name="worker", count=1), count=2)
    assert "RANK" not in item.env
    assert item.env["GPUPOOL_GANG_RANK"] == "0"


def test_roles_have_shares_and_commands_of_their_own(house: House) -> None:
    parts = RoleIn(name="ps", count=1, shape=SMALL, argv=["serve"]), RoleIn(name="worker", count=2)
    items = gang(house, *parts)
    found = [(item.env["GPUPOOL_GANG_ROLE"], item.argv, item.seats[0].gpu_milli) for item in items]
    assert found == [("ps", ["serve"], 100), ("worker", ["true"], 300), ("worker", ["true"], 300)]
    assert [house.job(item.job).gang_role for item in items] == ["ps", "worker", "worker"]


def test_a_launcher_holds_its_place_and_starts_when_the_others_run(house: House) -> None:
    parts = (
        RoleIn(name="launcher", count=1, launcher=True, shape=SMALL, argv=["mpirun"]),
        RoleIn(name="w", count=2),
    )
    workers = gang(house, *parts)
    assert [item.job_name for item in workers] == ["train.1", "train.2"]
    assert held(house) == 700
    house.report(workers[0], "running", started_ns=5)
    assert len(house.work()) == 2
    house.report(workers[1], "running", started_ns=5)
    launcher = work(house)[0]
    assert (launcher.job_name, launcher.argv) == ("train.0", ["mpirun"])
    assert launcher.env["GPUPOOL_GANG_SIZE"] == "2"
    assert "RANK" not in launcher.env


def test_a_launcher_starts_when_nobody_heard_of_the_others_before_they_were_done(
    house: House,
) -> None:
    """A server that was away while a short worker ran is told its end alone."""
    gang(
        house,
        RoleIn(name="launcher", count=1, launcher=True, shape=SMALL),
        RoleIn(name="w", count=1),
    )
    (worker,) = work(house)
    house.report(worker, "ended", exit_code=0, started_ns=5)
    assert house.job("train.1").state == "done"
    assert [item.job_name for item in work(house)] == ["train.0"]


def test_when_the_launcher_is_done_the_others_are_stopped(house: House) -> None:
    gang(
        house,
        RoleIn(name="launcher", count=1, launcher=True, shape=SMALL),
        RoleIn(name="w", count=1),
    )
    run_all(house)
    launcher, worker = run_all(house)
    house.report(launcher, "ended", exit_code=0)
    stopped = next(item for item in house.work() if item.job == worker.job)
    assert (stopped.want, stopped.stop_reason) == ("stop", "launcher")
    house.report(stopped, "ended", reason="stopped", signal=15)
    assert states(house) == {"0": "done", "1": "stopped"}
    assert house.job("train.1").reason == "its gang's launcher is done"
    assert held(house) == 0


@pytest.mark.parametrize(("end", "last"), [({"exit_code": 3}, "failed"), ({"signal": 9}, "failed")])
def test_a_member_that_fails_ends_the_gang(house: House, end: dict[str, int], last: str) -> None:
    gang(house)
    items = run_all(house)
    house.report(items[1], "ended", **end)
    assert [item.want for item in house.work()] == ["stop", "stop"]
    for item in house.work():
        house.report(item, "ended", reason="stopped", signal=15)
    assert states(house) == {"0": "stopped", "1": last, "2": "stopped"}
    assert house.job("train.0").reason == "its gang ended with another member"


def test_a_member_that_is_done_ends_nobody(house: House) -> None:
    gang(house)
    items = run_all(house)
    house.report(items[0], "ended", exit_code=0)
    assert states(house) == {"0": "done", "1": "running", "2": "running"}


def test_stopping_the_gang_or_one_member_stops_all(house: House) -> None:
    gang(house)
    run_all(house)
    house.allocations.jobs.stop_job("train.1", house.admin, None)
    assert [item.want for item in house.work()] == ["stop"] * 3
    assert {item.stop_reason for item in house.work()} == {"user"}


def test_a_gang_that_waits_is_stopped_by_its_name(house: House) -> None:
    house.submit(1000, None, name="holder", count=2)
    gang(house)
    assert len(house.allocations.jobs.stop_job("train", house.admin, None)) == 3
    assert house.allocations.cache.count_waiting() == 0
    with pytest.raises(WrongState):
        house.allocations.jobs.stop_job("train", house.admin, None)


def test_a_gang_s_name_is_its_first_member_to_show_and_logs(house: House) -> None:
    gang(house)
    found = house.job("train")
    assert (found.name, found.array, found.gang_rank) == ("train.0", "train", 0)
    with pytest.raises(NotFound):
        house.job("trai")


def test_a_member_that_never_started_takes_the_gang_back_to_wait_as_a_whole(house: House) -> None:
    gang(house)
    items = work(house)
    house.report(items[0], "running", started_ns=5)
    house.report(items[1], "not_started", reason="prepare failed")
    assert house.allocations.cache.count_waiting() == 0, "not while the others hold cards"
    left = [item for item in house.work() if item.want == "stop"]
    assert [item.job_name for item in left] == ["train.0", "train.2"]
    house.report(left[0], "ended", reason="stopped", signal=15)
    house.report(left[1], "not_started")
    assert states(house) == {"0": "pending", "1": "pending", "2": "pending"}
    assert house.allocations.cache.count_waiting() == 3
    assert held(house) == 0
    house.allocations.placer.run_cycle()
    assert {item.want for item in house.work()} == {"run"}
    assert len(house.work()) == 3


@pytest.mark.parametrize(
    ("end", "after"),
    [
        ({"state": "ended", "exit_code": 3}, {"0": "failed", "1": "stopped", "2": "stopped"}),
        ({"state": "not_started"}, {"0": "pending", "1": "pending", "2": "pending"}),
    ],
)
@pytest.mark.parametrize("word", ["prepared", "running"])
def test_who_is_stopped_with_its_gang_stays_so_whatever_is_told_of_it_in_one_breath(
    house: House, word: str, end: dict[str, Any], after: dict[str, str]
) -> None:
    """The node was asked to prepare both, and tells of both together."""
    gang(house)
    first, second, third = work(house)
    told = [
        ReportIn(allocation=first.allocation, generation=first.generation, **end),
        *(
            ReportIn(allocation=one.allocation, generation=one.generation, state=word, started_ns=5)
            for one in (second, third)
        ),
    ]
    house.allocations.agents.apply_reports("node-1", ReportsIn(reports=told))
    assert [item.want for item in house.work()] == ["stop", "stop"]
    for item in house.work():
        house.report(item, "ended", reason="stopped", signal=15)
    assert states(house) == after
    assert held(house) == 0


def test_a_lost_member_ends_the_gang_unless_it_may_start_again(house: House) -> None:
    gang(house)
    items = run_all(house)
    house.report(items[0], "lost")
    assert states(house)["0"] == "lost"
    assert [item.want for item in house.work()] == ["stop", "stop"]


def test_a_lost_member_of_a_gang_with_requeue_starts_the_gang_anew(house: House) -> None:
    gang(house, requeue=True)
    items = run_all(house)
    house.report(items[0], "lost")
    for item in house.work():
        house.report(item, "ended", reason="stopped", signal=15)
    assert states(house) == {"0": "pending", "1": "pending", "2": "pending"}
    assert [house.job(f"train.{n}").preemptions for n in range(3)] == [1, 1, 1]


def test_a_gang_of_which_a_member_is_done_cannot_start_anew_and_ends(house: House) -> None:
    gang(house, requeue=True)
    items = run_all(house)
    house.report(items[2], "ended", exit_code=0)
    house.report(items[0], "lost")
    (left,) = house.work()
    assert (left.want, left.stop_reason) == ("stop", "gang")
    house.report(left, "ended", reason="stopped", signal=15)
    assert states(house) == {"0": "lost", "1": "stopped", "2": "done"}


def test_a_server_that_starts_finds_the_gang_as_it_was(house: House) -> None:
    house.submit(1000, None, name="holder", count=2)
    gang(house, RoleIn(name="a", count=1, shape=SMALL), RoleIn(name="b", count=2, minimum=1))
    before = house.allocations.cache.build_snapshot().waiting
    house.allocations.placer.load()
    after = house.allocations.cache.build_snapshot().waiting
    assert [item.gang for item in before] == [item.gang for item in after]
    (waiting,) = after
    assert waiting.gang is not None
    assert (waiting.gang.minimum, len(waiting.job_ids)) == (2, 3)
    assert [role.name for role in waiting.gang.root.iterate_roles()] == ["a", "b"]


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        (
            [RoleIn(name="a", count=1), RoleIn(name="a", count=1)],
            "two roles of the gang are called a",
        ),
        ([RoleIn(name="a", count=1, launcher=True)], "every role of the gang is a launcher"),
        ([RoleIn(name="a", count=2, minimum=3)], "role a: 3 of 2 members"),
        ([RoleIn(name="a", count=9999), RoleIn(name="b", count=9999)], "a gang of 19998 members"),
    ],
)
def test_a_gang_that_makes_no_sense_is_refused(
    house: House, roles: list[RoleIn], message: str
) -> None:
    with pytest.raises(BadOption, match=message):
        gang(house, *roles)
    with house.store.read() as connection:
        assert (
            connection.execute(sa.select(sa.func.count()).select_from(allocations)).scalar_one()
            == 0
        )


def test_a_gang_is_no_array_and_waits(house: House) -> None:
    with pytest.raises(BadOption, match="an array of gangs"):
        gang(house, array=2)
    with pytest.raises(BadOption, match="--no-wait is for one job, not for a gang"):
        gang(house, wait=False)


@pytest.mark.parametrize(
    ("roles", "options", "message"),
    [
        (
            [RoleIn(name="w", count=7)],
            {"gpu_milli": 300},
            "7 of role w must start together; with every card",
        ),
        (
            [RoleIn(name="w", count=3, minimum=3)],
            {"gpu_milli": 1000},
            "3 of role w must start together",
        ),
    ],
)
def test_a_gang_larger_than_the_pool_is_refused_with_the_numbers(
    house: House, roles: list[RoleIn], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(GpupoolError, match=message) as found:
        gang(house, *roles, memory_gib=None, **options)
    assert found.value.exit_code == 3
    assert house.allocations.cache.count_waiting() == 0


def test_a_gang_that_would_grow_beyond_the_pool_starts_with_its_minimum(house: House) -> None:
    items = gang(house, RoleIn(name="w", count=9, minimum=4), gpu_milli=500, memory_gib=None)
    assert len(items) == 4
    assert [items[0].env[key] for key in ("GPUPOOL_GANG_SIZE", "WORLD_SIZE")] == ["4", "4"]
    assert sorted(states(house).values()) == ["pending"] * 5 + ["starting"] * 4


def test_a_level_that_no_node_names_is_refused(house: House) -> None:
    with pytest.raises(GpupoolError, match=r"no node of this pool says which .rack. it is in"):
        house.submit(
            name="t",
            gang=GroupIn(
                name="g", within=WithinIn(required="rack"), parts=[RoleIn(name="w", count=2)]
            ),
        )
