from gpupool.scheduling.quota.eviction_units import list_eviction_units
from gpupool.scheduling.snapshot.claims import RunningJob
from tests.support.gang_builders import running
from tests.support.scheduling_builders import cards, whole

POOL = cards("8xH200")


def job(
    number: int, gang: str = "", role: str = "", least: int | None = None, leaving_for: str = ""
) -> RunningJob:
    card = POOL.uuids[number]
    return running(
        POOL,
        f"j{number}",
        card,
        want=whole(),
        since=number,
        gang=gang,
        role=role,
        least=least,
        leaving_for=leaving_for,
    )


def split(*jobs: RunningJob) -> list[tuple[str, str]]:
    """Per unit, its jobs and those that leave with it."""
    return [
        ("".join(one.job for one in unit.jobs), "".join(one.job for one in unit.spare))
        for unit in list_eviction_units(jobs)
    ]


def test_a_job_is_a_unit_and_a_gang_of_unknown_minimum_is_one() -> None:
    assert split(job(0), job(1, "g"), job(2, "g")) == [("j0", ""), ("j1j2", "")]


def test_members_beyond_the_minimum_are_units_of_their_own_and_leave_with_the_rest() -> None:
    members = [job(n, "g", "w", 2) for n in range(4)]
    assert split(*members) == [("j0j1", "j2j3"), ("j2", ""), ("j3", "")]


def test_each_role_has_its_own_minimum() -> None:
    jobs = [job(0, "g", "a", 1), job(1, "g", "a", 1), job(2, "g", "b", 1)]
    assert split(*jobs) == [("j0j2", "j1"), ("j1", "")]


def test_a_member_that_is_leaving_counts_no_more() -> None:
    jobs = [job(n, "g", "w", 2, "x" if n == 1 else "") for n in range(4)]
    assert split(*jobs) == [("j0j2", "j3"), ("j3", ""), ("j1", "")]


def test_a_gang_below_its_minimum_is_one_unit() -> None:
    jobs = [job(n, "g", "w", 2, "x" if n else "") for n in range(2)]
    assert split(*jobs) == [("j0j1", "")]


def test_a_gang_that_needs_nobody_is_members_alone() -> None:
    assert split(job(0, "g", "w", 0), job(1, "g", "w", 0)) == [("j0", ""), ("j1", "")]
