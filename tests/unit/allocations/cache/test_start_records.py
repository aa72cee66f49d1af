"""Promised starts in the ledger: they outlive a restart, and what came of them is counted."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from gpupool.allocations.store.hold_tables import estimates, promises
from gpupool.allocations.views.job_pages import JobFilter
from gpupool.base.units import format_instant
from gpupool.metering.starts import read_starts
from gpupool.metering.tables import start_tallies
from gpupool.model.tenant import UserRole
from gpupool.wire.jobs import ExplainOut
from gpupool.wire.report import StartsOut
from gpupool.wire.submissions import GroupIn, RoleIn
from tests.support.house import House


@pytest.fixture
def promised(house: House) -> House:
    """A job waits for both cards, and has a promise."""
    house.submit(1000, None, name="holder", count=2, max_seconds=3600)
    house.submit(1000, None, name="next", count=2, max_seconds=60)
    house.allocations.placer.run_cycle()
    return house


def explained(house: House, name: str = "next") -> ExplainOut:
    return house.allocations.jobs.explain_job(name, house.admin)


def standing(house: House) -> list[str]:
    with house.store.read() as connection:
        return [row.claim for row in connection.execute(sa.select(promises))]


def counted(house: House) -> tuple[int, int]:
    with house.store.read() as connection:
        found = read_starts(connection)
    return found.promises_kept, found.promises_broken


def wait_for_higher(house: House) -> None:
    house.tenancy.tenants.create(house.admin, "vision", None)
    rival = house.member("eve", "vision", UserRole.TENANT_ADMIN)
    house.submit(1000, None, name="urgent", count=2, priority="high", principal=rival)
    house.allocations.placer.run_cycle()


def test_a_promise_holds_over_a_restart_against_a_claim_of_higher_priority(promised: House) -> None:
    before = explained(promised)
    promised.restart()
    wait_for_higher(promised)
    after = explained(promised)
    assert (after.start_ns, after.start_promised) == (before.start_ns, True)
    promised.finish("holder")
    promised.allocations.placer.run_cycle()
    assert (promised.job("next").state, promised.job("urgent").state) == ("starting", "pending")


def test_a_kept_promise_is_counted_in_the_transaction_that_places_its_claim(
    promised: House,
) -> None:
    assert (standing(promised), counted(promised)) == ([promised.job("next").id], (0, 0))
    promised.finish("holder")
    promised.allocations.placer.run_cycle()
    assert promised.job("next").state == "starting"
    assert (standing(promised), counted(promised)) == ([], (1, 0))
    promised.restart()
    assert counted(promised) == (1, 0)


def test_a_broken_promise_is_counted_once_and_at_once(promised: House) -> None:
    with promised.store.write() as write:
        write.execute(sa.update(promises).values(at_ns=1))
    promised.restart()
    for _ in range(2):
        promised.allocations.placer.run_cycle()
        assert counted(promised) == (0, 1)
    promised.finish("holder")
    promised.allocations.placer.run_cycle()
    assert counted(promised)[1] == 1


def test_nothing_comes_of_the_promise_of_a_claim_that_was_stopped(promised: House) -> None:
    promised.allocations.jobs.stop_job("next", promised.admin, None)
    promised.restart()
    promised.submit(100, 1, name="small", preemptible=True)
    promised.finish("holder")
    promised.allocations.placer.run_cycle()
    assert (standing(promised), counted(promised)) == ([], (0, 0))


def test_an_estimate_is_told_with_how_many_of_a_hundred_came_true(house: House) -> None:
    with house.store.write() as write:
        write.execute(
            sa.insert(start_tallies).values(sort="head preemptible hour", kept=8, missed=12)
        )
    house.restart()
    house.submit(1000, None, name="holder", count=2, max_seconds=1800)
    house.submit(1000, None, name="next", max_seconds=60, preemptible=True)
    house.allocations.placer.run_cycle()
    answer = explained(house)
    assert (answer.start_promised, answer.start_chance_pct) == (False, 40)
    words = f"about {format_instant(answer.start_ns or 0)}, 4 of 10 start by then"
    assert (answer.start, answer.hints[-1]) == (words, f"wait: it starts {words}")
    (row,) = house.allocations.quotas.list_queue(house.admin, 10)
    assert (row.start, row.start_promised, row.start_chance_pct) == (words, False, 40)
    assert listed(house)["next"] == (words, answer.start_ns, False, 40)
    assert listed(house)["holder"] == (None, None, False, None)


def test_a_promise_is_told_alike_everywhere_and_of_its_own_claim_alone(promised: House) -> None:
    promised.submit(1000, None, name="behind", count=2, max_seconds=60)
    promised.allocations.placer.run_cycle()
    answer = explained(promised)
    words = f"by {format_instant(answer.start_ns or 0)}"
    assert (answer.start, answer.start_promised, answer.start_chance_pct) == (words, True, None)
    assert listed(promised)["next"] == (words, answer.start_ns, True, None)
    first, second = promised.allocations.quotas.list_queue(promised.admin, 10)
    assert ((first.job, first.start), (second.job, second.start)) == (
        ("next", words),
        ("behind", None),
    )
    behind = explained(promised, "behind")
    assert (behind.start, behind.start_ns, listed(promised)["behind"][0]) == (None, None, None)
    assert behind.hints[-1] == f"wait: the first claim like it starts {words}"


def test_the_line_of_an_array_has_the_start_of_its_next_member(house: House) -> None:
    house.submit(1000, None, name="holder", count=2, max_seconds=3600)
    house.submit(1000, None, name="sweep", count=2, max_seconds=60, array=3)
    house.finish("holder")
    for _ in range(2):
        house.allocations.placer.run_cycle()
    start = listed(house)["sweep.[1-2]"]
    assert (house.job("sweep.0").state, start[2]) == ("starting", True)
    answer = explained(house, "sweep.1")
    assert start == (answer.start, answer.start_ns, answer.start_promised, answer.start_chance_pct)


def test_every_member_of_a_gang_has_the_start_of_the_gang(house: House) -> None:
    house.submit(1000, None, name="holder", count=2, max_seconds=3600)
    gang = GroupIn(name="train", parts=[RoleIn(name="worker", count=2)])
    house.submit(1000, None, name="train", max_seconds=60, gang=gang)
    house.allocations.placer.run_cycle()
    starts = {told for name, told in listed(house).items() if name.startswith("train")}
    (row,) = house.allocations.quotas.list_queue(house.admin, 10)
    assert starts == {(row.start, row.start_ns, True, None)}


def listed(house: House) -> dict[str, tuple[str | None, int | None, bool, int | None]]:
    """By name what `ps` is told of starts."""
    page = house.allocations.jobs.list_jobs(house.admin, JobFilter(), None, 100)
    return {
        job.name: (job.start, job.start_ns, job.start_promised, job.start_chance_pct)
        for job in page.items
    }


@pytest.fixture
def estimated(house: House) -> House:
    """A job waits for both cards, and has an estimate: it may be preempted."""
    house.submit(1000, None, name="holder", count=2, max_seconds=3600)
    house.submit(1000, None, name="next", count=2, max_seconds=60, preemptible=True)
    house.allocations.placer.run_cycle()
    return house


def guesses(house: House) -> list[tuple[str, str]]:
    with house.store.read() as connection:
        return [(row.claim, row.sort) for row in connection.execute(sa.select(estimates))]


def tallies(house: House) -> dict[str, tuple[int, int]]:
    with house.store.read() as connection:
        return {
            row.sort: (row.kept, row.missed) for row in connection.execute(sa.select(start_tallies))
        }


def test_an_estimate_outlives_a_restart_and_counts_when_its_claim_starts(estimated: House) -> None:
    (guess,) = guesses(estimated)
    assert guess == (estimated.job("next").id, guess[1])
    estimated.restart()
    estimated.finish("holder")
    estimated.allocations.placer.run_cycle()
    assert (guesses(estimated), tallies(estimated)) == ([], {guess[1]: (1, 0)})


def test_an_estimate_that_passed_while_nothing_ran_is_missed_once(estimated: House) -> None:
    (guess,) = guesses(estimated)
    with estimated.store.write() as write:
        write.execute(sa.update(estimates).values(at_ns=1))
    for _ in range(2):
        estimated.restart()
        for _ in range(2):
            estimated.allocations.placer.run_cycle()
            assert (guesses(estimated), tallies(estimated)) == ([guess], {guess[1]: (0, 1)})
    estimated.finish("holder")
    estimated.allocations.placer.run_cycle()
    assert (guesses(estimated), tallies(estimated)) == ([], {guess[1]: (1, 1)})


def test_an_estimate_of_a_claim_that_was_stopped_is_forgotten(estimated: House) -> None:
    estimated.allocations.jobs.stop_job("next", estimated.admin, None)
    estimated.restart()
    estimated.finish("holder")
    estimated.submit(1000, None, name="another", count=2)
    estimated.allocations.placer.run_cycle()
    assert (guesses(estimated), tallies(estimated)) == ([], {})


def test_totals_are_told_by_kind(house: House) -> None:
    rows = (("promise", 7, 1), ("head normal hour", 3, 2), ("head high days", 1, 0))
    with house.store.write() as write:
        for sort, kept, missed in rows:
            write.execute(sa.insert(start_tallies).values(sort=sort, kept=kept, missed=missed))
    with house.store.read() as connection:
        found = read_starts(connection)
    assert found == StartsOut(
        promises_kept=7, promises_broken=1, estimates_true=4, estimates_false=2
    )
