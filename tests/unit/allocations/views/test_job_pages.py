"""Pages of jobs: every job once, whatever the length of a page."""

from __future__ import annotations

from gpupool.allocations.views.job_pages import JobFilter
from tests.support.array_rows import listed
from tests.support.house import House


def test_pages_show_every_job_once_live_ones_first(house: House) -> None:
    for n in range(5):
        house.submit(100, 1, name=f"done-{n}")
        house.finish(f"done-{n}")
    for n in range(4):
        house.submit(100, 1, name=f"live-{n}")
    seen: list[str] = []
    after = None
    while True:
        page = house.allocations.jobs.list_jobs(house.admin, JobFilter(), after, 2)
        seen += [job.name for job in page.items]
        after = page.next
        if after is None:
            break
    assert seen == [f"live-{n}" for n in (3, 2, 1, 0)] + [f"done-{n}" for n in (4, 3, 2, 1, 0)]


def test_pages_go_from_the_rests_of_arrays_to_live_jobs_to_ended_ones(house: House) -> None:
    for number in range(3):
        house.submit(1000, None, name=f"a{number}", array=2)
    house.submit(1000, None, name="single")
    house.finish("a0.0")
    seen, after = list[str](), None
    while True:
        page = house.allocations.jobs.list_jobs(house.admin, JobFilter(), after, 1)
        seen += [job.name for job in page.items]
        after = page.next
        if after is None:
            break
    everything = listed(house)
    assert seen == [job.name for job in everything]
    assert len(seen) == len(set(seen)) == 7
