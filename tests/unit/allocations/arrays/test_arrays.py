"""An array is one row that yields its members as they are placed; whoever looks sees all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from gpupool.allocations import stopping
from gpupool.allocations.arrays.references import reference_of
from gpupool.allocations.job_pages import Filter
from gpupool.allocations.learnt import Learnt
from gpupool.allocations.tables import arrays, jobs, launches
from gpupool.base.errors import NameTaken, NotFound, NotOneJob, WrongState
from gpupool.model.job import ENDED
from gpupool.scheduling.knowledge import MOST_JOBS
from gpupool.scheduling.victims import PreemptionRules
from gpupool.store.tables import events
from gpupool.wire.jobs import JobOut
from tests.support.house import House
from tests.support.written_rows import written_rows

MILLION = 1_000_000


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path)
    yield made
    made.close()


def count(house: House, table: sa.Table) -> int:
    with house.store.read() as connection:
        return int(connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())


def array_row(house: House) -> sa.Row[tuple[object, ...]]:
    with house.store.read() as connection:
        return connection.execute(sa.select(arrays)).one()


def listed(house: House, **wanted: object) -> list[JobOut]:
    return house.allocations.list_jobs(house.admin, Filter(**wanted), None, 100).items


def test_an_array_of_a_million_costs_rows_only_for_what_runs(house: House) -> None:
    with written_rows(house.store.engine) as written:
        house.submit(1000, None, name="sweep", array=MILLION)
    assert max(written) < 30
    assert sum(written) < 60
    assert (count(house, jobs), count(house, arrays), count(house, launches)) == (2, 1, 0)
    assert house.allocations.mirror.waiting_count() == MILLION - 2
    with written_rows(house.store.engine) as written:
        house.finish("sweep.0")
        house.allocations.placer.run_once()
    assert sum(written) < 60
    assert [job.name for job in listed(house)] == ["sweep.[3-999999]", "sweep.2", "sweep.1", "sweep.0"]


def test_members_start_in_order_and_know_their_index_and_command(house: House) -> None:
    house.submit(1000, None, name="sweep", array=3)
    work = {item.job_name: item for item in house.work()}
    assert {name: item.env["GPUPOOL_ARRAY_INDEX"] for name, item in work.items()} == {"sweep.0": "0", "sweep.1": "1"}
    assert all((item.argv, item.env["SECRET"]) == (["true"], "x") for item in work.values())


def test_the_rest_of_an_array_is_one_line_and_its_last_member_is_itself(house: House) -> None:
    house.submit(1000, None, name="sweep", array=5)
    rest, *made = listed(house)
    assert (rest.name, rest.jobs, rest.state, rest.array) == ("sweep.[2-4]", 3, "pending", "sweep")
    assert [(job.name, job.jobs) for job in made] == [("sweep.1", 1), ("sweep.0", 1)]
    assert [job.name for job in listed(house, states=frozenset({"starting"}))] == ["sweep.1", "sweep.0"]
    assert [job.name for job in listed(house, states=frozenset({"pending"}), name="sweep")] == ["sweep.[2-4]"]
    for done in ("sweep.0", "sweep.1"):
        house.finish(done)
        house.allocations.placer.run_once()
    assert [job.name for job in listed(house, live=True)] == ["sweep.4", "sweep.3", "sweep.2"]
    last = listed(house, live=True)[0]
    assert (last.state, reference_of(last.id) is not None) == ("pending", True)


def test_pages_go_from_the_rests_of_arrays_to_live_jobs_to_ended_ones(house: House) -> None:
    for number in range(3):
        house.submit(1000, None, name=f"a{number}", array=2)
    house.submit(1000, None, name="single")
    house.finish("a0.0")
    seen, after = list[str](), None
    while True:
        page = house.allocations.list_jobs(house.admin, Filter(), after, 1)
        seen += [job.name for job in page.items]
        after = page.next
        if after is None:
            break
    everything = listed(house)
    assert seen == [job.name for job in everything]
    assert len(seen) == len(set(seen)) == 7


def test_the_name_of_an_array_is_never_its_first_member(house: House) -> None:
    house.submit(1000, None, name="sweep", array=100)
    for ask in (house.allocations.job, lambda name, who: house.allocations.saved(name, who)):
        with pytest.raises(NotOneJob, match="sweep is an array of 100 jobs, not one job") as caught:
            ask("sweep", house.admin)
        assert "gpupool logs sweep.1" in caught.value.hint
    with pytest.raises(NotOneJob):
        house.allocations.job("last", house.admin)
    shown = house.allocations.array("sweep", house.admin)
    assert (shown.size, shown.first, shown.last) == (100, "sweep.0", "sweep.99")
    assert shown.states == {"starting": 2, "pending": 98}
    assert house.allocations.array("last", house.admin).id == house.allocations.array(shown.id, house.admin).id
    told = house.allocations.explain("sweep", house.admin)
    assert told.array is not None
    assert (told.job, told.state, told.array.next) == ("sweep.2", "pending", f"{shown.id}.2")
    assert "free" in told.sentence or told.cards


def test_a_member_is_found_by_name_and_by_reference_before_it_is_a_job_and_after(house: House) -> None:
    house.submit(1000, None, name="sweep", array=4)
    before = house.job("sweep.3")
    assert (before.state, before.array_index, before.generation) == ("pending", 3, 0)
    assert before.reason
    assert house.job(before.id).name == "sweep.3"
    with pytest.raises(WrongState, match="never started"):
        house.allocations.saved("sweep.3", house.admin)
    for done in ("sweep.0", "sweep.1"):
        house.finish(done)
        house.allocations.placer.run_once()
    after = house.job(before.id)
    assert (after.name, after.state) == ("sweep.3", "starting")
    assert after.id != before.id
    with pytest.raises(NotFound):
        house.job("sweep.4")


def test_stopping_an_array_writes_its_row_and_starts_no_further_member(house: House) -> None:
    house.submit(1000, None, name="sweep", array=MILLION)
    with written_rows(house.store.engine) as written:
        told = house.allocations.stop("sweep", house.admin, 0)
    assert max(written) < 30
    assert [(job.name, job.state, job.jobs) for job in told] == [
        ("sweep.0", "starting", 1),
        ("sweep.1", "starting", 1),
        ("sweep.[2-999999]", "stopped", 999_998),
    ]
    for item in house.work():
        house.report(item, "ended", signal=15)
    house.allocations.placer.run_once()
    assert house.work() == []
    assert house.allocations.array("sweep", house.admin).states == {"stopped": MILLION}
    assert house.job("sweep.77").reason == "stopped by its user"
    assert (house.allocations.mirror.waiting_count(), count(house, jobs)) == (0, 2)
    with pytest.raises(WrongState, match="every job of array sweep has ended"):
        house.allocations.stop("sweep", house.admin, 0)
    house.submit(1000, None, name="sweep", array=2)


def test_an_array_whose_last_member_starts_meanwhile_is_stopped_as_its_jobs(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`gpupool down` waits for what it is told; a line for no job would be waited for in vain."""
    house.submit(1000, None, name="sweep", array=3)
    targets = stopping._targets

    def slow(*words: Any) -> Any:
        found = targets(*words)
        house.finish("sweep.0")
        house.allocations.placer.run_once()
        return found

    monkeypatch.setattr(stopping, "_targets", slow)
    told = house.allocations.stop("sweep", house.admin, 0)
    assert [job.name for job in told] == ["sweep.1", "sweep.2"]


def test_a_member_that_is_stopped_before_its_turn_is_passed_over(house: House) -> None:
    house.submit(1000, None, name="sweep", array=5)
    (told,) = house.allocations.stop("sweep.2", house.admin, None)
    assert (told.name, told.state) == ("sweep.2", "stopped")
    with pytest.raises(WrongState):
        house.allocations.stop("sweep.2", house.admin, None)
    house.finish("sweep.0")
    house.allocations.placer.run_once()
    assert house.job("sweep.3").state == "starting"
    assert house.allocations.array("sweep", house.admin).states == {
        "done": 1,
        "stopped": 1,
        "starting": 2,
        "pending": 1,
    }
    assert array_row(house).next_index == 4


@pytest.mark.parametrize("restarted", [False, True])
def test_a_restarted_server_goes_on_where_the_array_stood(house: House, restarted: bool) -> None:
    house.submit(1000, None, name="sweep", array=6)
    house.allocations.stop("sweep.4", house.admin, None)
    house.submit(1000, None, name="later")
    if restarted:
        house.restart()
    assert house.allocations.mirror.waiting_count() == 4
    turns = house.allocations.queue(house.admin, 10)
    assert [turn.job for turn in turns] == ["sweep.2", "sweep.3", "sweep.5", "later"]
    assert [turn.user for turn in turns] == [house.admin.user] * 4


def test_how_to_start_the_members_is_kept_until_the_last_has_ended(house: House) -> None:
    house.submit(1000, None, name="sweep", array=3)
    house.finish("sweep.0")
    house.allocations.placer.run_once()
    house.finish("sweep.1", exit_code=3)
    assert array_row(house).launch["env"] == {"SECRET": "x"}
    house.finish("sweep.2")
    row = array_row(house)
    assert (row.launch, row.done, row.failed) == (None, 2, 1)


def test_a_member_that_waits_again_goes_before_the_rest(house: House) -> None:
    house.submit(1000, None, name="sweep", array=9, requeue=True)
    (first, _) = house.work()
    house.report(first, "not_started")
    assert [turn.job for turn in house.allocations.queue(house.admin, 2)] == [first.job_name, "sweep.2"]
    house.restart()
    assert [turn.job for turn in house.allocations.queue(house.admin, 2)] == [first.job_name, "sweep.2"]


def test_a_name_that_a_waiting_array_or_its_member_has_is_taken(house: House) -> None:
    house.submit(1000, None, name="sweep", array=9)
    for name in ("sweep", "sweep.8"):
        with pytest.raises(NameTaken, match=f"a job named {name} is"):
            house.submit(1000, None, name=name)
    house.submit(1000, None, name="sweep.9")


def test_another_tenants_array_is_not_found(house: House) -> None:
    for name in ("nlp", "vision"):
        house.tenancy.tenants.create(house.admin, name, None)
    ann, bob = house.member("ann", "nlp"), house.member("bob", "vision")
    house.submit(1000, None, name="secret", array=10, principal=ann)
    shown = house.allocations.array("secret", ann)
    for name in ("secret", "secret.7", shown.id, f"{shown.id}.7"):
        for action in (house.allocations.job, house.allocations.array, house.allocations.explain):
            with pytest.raises(NotFound):
                action(name, bob)
        with pytest.raises(NotFound):
            house.allocations.stop(name, bob, None)
    assert house.allocations.list_jobs(bob, Filter(), None, 10).items == []


def test_a_colleague_may_not_stop_an_array_or_one_of_its_waiting_members(house: House) -> None:
    house.tenancy.tenants.create(house.admin, "nlp", None)
    ann, bob = house.member("ann", "nlp"), house.member("bob", "nlp")
    house.submit(1000, None, name="ours", array=10, principal=ann)
    from gpupool.base.errors import NotAllowed

    for name in ("ours", "ours.7"):
        with pytest.raises(NotAllowed):
            house.allocations.stop(name, bob, None)
    assert house.allocations.stop_all(bob, "down", None) == 0
    assert house.allocations.stop_all(ann, "down", None) == 10
    assert house.allocations.array("ours", ann).not_made == 8
    assert house.job("ours.7").state in ENDED


def test_who_is_asked_to_leave_for_a_member_does_so_for_a_job_that_is_written_down(tmp_path: Path) -> None:
    house = House(tmp_path, cards=1, rules=PreemptionRules(protected_s=0, grace_s=7))
    try:
        house.submit(1000, None, name="low", preemptible=True)
        house.report(house.work()[0], "running", started_ns=5)
        house.submit(1000, None, name="urgent", array=5, priority="high")
        house.submit(1000, None, name="rival", priority="high")
        first = house.job("urgent.0")
        with house.store.read() as connection:
            left = connection.execute(sa.select(jobs.c.leaving_for).where(jobs.c.name == "low")).scalar_one()
        assert left == first.id
        house.restart()
        house.finish("low", reason="stopped", signal=15, exit_code=None)
        house.allocations.placer.run_once()
        assert house.job("urgent.0").state == "starting"
        house.finish("urgent.0")
        house.allocations.placer.run_once()
        house.report(next(item for item in house.work() if item.job_name == "urgent.1"), "running", started_ns=6)
    finally:
        house.close()


def test_an_array_is_expected_as_often_as_it_has_jobs_but_256_at_most_after_a_restart_too(house: House) -> None:
    house.submit(250, 8, name="sweep", array=1000)
    house.submit(1000, None, name="small", array=20)
    for number in range(6):
        house.submit(500, 8, name=f"one{number}")
    live = house.allocations.mirror.snapshot().expected
    learnt = Learnt()
    with house.store.read() as connection:
        learnt.load(connection, house.store.clock.now_ns())
    for expected in (live, learnt.expected):
        weights = dict(zip((shape.gpu_milli for shape in expected.shapes), expected.counts, strict=True))
        assert 254 < weights[250] <= MOST_JOBS
        assert 19 < weights[1000] <= 20
        assert 5.9 < weights[500] <= 6


def test_the_log_says_what_was_asked_and_what_was_given_up(house: House) -> None:
    house.submit(1000, None, name="sweep", array=MILLION)
    house.allocations.stop("sweep", house.admin, 0)
    with house.store.read() as connection:
        told = {row.kind: row.data for row in connection.execute(sa.select(events))}
    assert (told["job.submitted"]["count"], told["array.stopped"]["count"]) == (MILLION, MILLION - 2)
    assert told["job.submitted"]["array"] == house.allocations.array("sweep", house.admin).id
    assert house.allocations.queue_counts()["pending"] == 0
