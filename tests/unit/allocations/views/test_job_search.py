"""Search of jobs: every job once in its order, and as many rows read however long the history is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from gpupool.allocations.views import job_search
from gpupool.allocations.views.job_pages import JobFilter
from gpupool.allocations.views.job_search import ORDERS, JobSearch, check_order, search_jobs
from gpupool.base.errors import BadOption, InvalidBody
from gpupool.model.tenant import Principal, UserRole
from gpupool.server.schema import metadata
from gpupool.store.database import connect, sqlite_url
from gpupool.wire.jobs import JobOut
from tests.support.database_steps import database_steps
from tests.support.house import House
from tests.support.many_jobs import EVERY_FAILED, EVERY_IMAGE, fill_history

ADMIN = Principal(0, "root", 0, "default", UserRole.ADMIN)
SMALL = 1200
LARGE = 3600
PAGE = 20


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, sa.Engine]]:
    made = {}
    for count in (SMALL, LARGE):
        made[count] = _open(sqlite_url(tmp_path_factory.mktemp("many") / f"{count}.db"), count)
    yield made
    for engine in made.values():
        engine.dispose()


def _open(url: str, count: int) -> sa.Engine:
    engine = connect(url)
    metadata.create_all(engine)
    with engine.begin() as connection:
        fill_history(connection, count)
        connection.exec_driver_sql("ANALYZE")
    return engine


def search(
    engine: sa.Engine, wanted: JobSearch, cursor: str | None = None, limit: int = PAGE
) -> Any:
    with engine.connect() as connection:
        return search_jobs(connection, ADMIN, wanted, cursor, limit, lambda _job: "")


def read_all(engine: sa.Engine, wanted: JobSearch, limit: int) -> list[JobOut]:
    found: list[JobOut] = []
    cursor = None
    while True:
        page = search(engine, wanted, cursor, limit)
        found += page.items
        cursor = page.next
        if cursor is None:
            return found


def read_value(job: JobOut, order: str) -> Any:
    word = order.removeprefix("-")
    if word == "name":
        return job.name
    if word == "gpu":
        return None
    return getattr(job, f"{word}_ns")


@pytest.mark.parametrize("order", [*ORDERS, *(f"-{word}" for word in ORDERS)])
def test_pages_have_every_job_once_in_the_order_and_gaps_last(
    order: str, engines: dict[int, sa.Engine]
) -> None:
    found = read_all(engines[SMALL], JobSearch(order=order), 400)
    assert len({job.id for job in found}) == len(found) == SMALL
    values = [read_value(job, order) for job in found if read_value(job, order) is not None]
    assert values == sorted(values, reverse=order.startswith("-"))
    if order.endswith("ended"):
        assert {job.state for job in found[-10:]} == {"running"}
        assert len(values) == SMALL - 10


def test_the_order_by_compute_is_that_of_what_was_asked_for(house: House) -> None:
    house.submit(1000, None, name="whole")
    house.submit(100, 1, name="small")
    house.submit(1000, None, name="two", count=2)
    house.submit(1000, None, name="rows", array=3)
    found = house.allocations.jobs.search_jobs(house.admin, JobSearch(order="-gpu"), None, 10)
    # The rest of an array is one line, before the jobs.
    assert [job.name for job in found.items] == ["rows.[1-2]", "two", "rows.0", "whole", "small"]


@pytest.mark.parametrize("order", ["-submitted", "name", "-gpu", "-started", "ended"])
@pytest.mark.parametrize("tenant", [None, "team-1"])
def test_a_page_is_read_along_an_index_and_sorts_nothing(
    order: str, tenant: str | None, engines: dict[int, sa.Engine]
) -> None:
    wanted = JobSearch(JobFilter(tenant=tenant), order)
    with engines[LARGE].connect() as connection:
        prefix = job_search._build_prefix(connection, ADMIN, wanted)
        position = job_search._Position("values", 100, "train-0000100" if order == "name" else 100)
        query = job_search._select_examined(wanted, prefix, position, PAGE)
        text = query.compile(connection, compile_kwargs={"literal_binds": True})
        rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}").all()
    plan = "\n".join(row[-1] for row in rows)
    assert "INDEX ix_jobs_" in plan
    assert "TEMP B-TREE" not in plan
    assert "SCAN jobs\n" not in f"{plan}\n"


@pytest.mark.parametrize(
    "wanted",
    [
        JobSearch(),
        JobSearch(order="name"),
        JobSearch(order="-gpu"),
        JobSearch(JobFilter(tenant="team-2"), "-ended"),
        JobSearch(JobFilter(user="person-3")),
        JobSearch(JobFilter(states=frozenset({"failed"}))),
        JobSearch(JobFilter(text="no such thing")),
        JobSearch(JobFilter(text="llama"), "-started"),
        JobSearch(JobFilter(live=True), "name"),
    ],
    ids=str,
)
def test_a_page_of_a_long_history_reads_as_much_as_of_a_short_one(
    wanted: JobSearch, engines: dict[int, sa.Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Bounds that both histories reach.
    monkeypatch.setattr(job_search, "EXAMINED", (40, 80))
    monkeypatch.setattr(job_search, "COUNTED", 100)
    steps = {}
    for count, engine in engines.items():
        with database_steps(engine) as found:
            search(engine, wanted)
        steps[count] = found.count
    # Steps differ by where the matching rows happen to be, and by the depth of the trees.
    assert steps[LARGE] < 1.5 * steps[SMALL] + 500


def test_a_rare_match_is_found_over_short_pages(
    engines: dict[int, sa.Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_search, "EXAMINED", (50, 200))
    wanted = JobSearch(JobFilter(text="j-00000011"))
    pages = 0
    found: list[JobOut] = []
    cursor = None
    while True:
        page = search(engines[SMALL], wanted, cursor)
        pages += 1
        found += page.items
        cursor = page.next
        if cursor is None:
            break
    assert [job.id for job in found] == ["j-00000011"]
    assert pages >= SMALL // 200


@pytest.mark.parametrize(
    ("wanted", "count"),
    [
        (JobFilter(text="LLAMA"), len(range(7, SMALL, EVERY_IMAGE))),
        (JobFilter(text="person-11"), SMALL // 12),
        (JobFilter(states=frozenset({"failed"})), SMALL // EVERY_FAILED),
        (JobFilter(states=frozenset({"failed", "running"})), SMALL // EVERY_FAILED + 10),
        (JobFilter(live=True), 10),
        (JobFilter(tenant="team-1"), SMALL // 4),
        (JobFilter(user="person-1"), SMALL // 12),
        (JobFilter(user="person-1", tenant="team-2"), 0),
        (JobFilter(user="none-such"), 0),
        (JobFilter(project="default", tenant="team-0"), SMALL // 4),
        (JobFilter(project="other"), 0),
        (JobFilter(text="%"), 0),
    ],
)
def test_filters_and_totals_agree(
    wanted: JobFilter, count: int, engines: dict[int, sa.Engine]
) -> None:
    found = read_all(engines[SMALL], JobSearch(wanted), 100)
    assert len(found) == count
    first = search(engines[SMALL], JobSearch(wanted))
    assert (first.total_estimate, first.total_exact) == (count, True)


def test_the_total_of_a_long_history_is_an_estimate(
    engines: dict[int, sa.Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_search, "COUNTED", 500)
    everything = search(engines[LARGE], JobSearch())
    assert (everything.total_estimate, everything.total_exact) == (LARGE, False)
    failed = search(engines[LARGE], JobSearch(JobFilter(states=frozenset({"failed"}))))
    assert abs(failed.total_estimate - LARGE // EVERY_FAILED) <= LARGE // EVERY_FAILED // 10
    later = search(engines[LARGE], JobSearch(), everything.next)
    assert later.total_estimate is None


def test_a_search_stays_in_the_callers_tenant(house: House) -> None:
    house.tenancy.tenants.create(house.admin, "lab", None)
    guest = house.member("guest", "lab")
    house.submit(100, 1, name="secret")
    house.submit(100, 1, name="mine", principal=guest)
    jobs = house.allocations.jobs
    for wanted in (
        JobFilter(),
        JobFilter(user="admin"),
        JobFilter(text="secret"),
        JobFilter(tenant="default"),
    ):
        found = jobs.search_jobs(guest, JobSearch(wanted), None, 10)
        assert {job.name for job in found.items} <= {"mine"}, wanted


def test_waiting_rests_of_arrays_come_before_the_jobs_page_by_page(house: House) -> None:
    for number in range(3):
        house.submit(1000, None, name=f"sweep-{number}", array=3)
    names: list[str] = []
    cursor = None
    while True:
        page = house.allocations.jobs.search_jobs(house.admin, JobSearch(order="name"), cursor, 2)
        names += [job.name for job in page.items]
        cursor = page.next
        if cursor is None:
            break
    # Of the first array two members run on the two cards.
    rests = ["sweep-2.[1-2]", "sweep-1.[1-2]", "sweep-0.2"]
    assert names == [*rests, "sweep-0.0", "sweep-0.1", "sweep-1.0", "sweep-2.0"]


@pytest.mark.parametrize(
    "cursor", ["", "x", "name:values:1:a", "-submitted:values:1:a", "-submitted:other:1:1"]
)
def test_a_cursor_of_another_list_is_refused(cursor: str, engines: dict[int, sa.Engine]) -> None:
    with pytest.raises(InvalidBody):
        search(engines[SMALL], JobSearch(), cursor)


def test_an_unknown_order_is_refused() -> None:
    with pytest.raises(BadOption):
        check_order("-color")


def test_postgresql_reads_a_page_along_an_index(postgres_url: str, tmp_path: Path) -> None:
    engine = _open(postgres_url, LARGE)
    try:
        for order, tenant in (("-submitted", None), ("name", "team-1"), ("-gpu", None)):
            wanted = JobSearch(JobFilter(tenant=tenant), order)
            with engine.connect() as connection:
                prefix = job_search._build_prefix(connection, ADMIN, wanted)
                position = job_search._Position("values")
                query = job_search._select_examined(wanted, prefix, position, PAGE)
                text = query.compile(connection, compile_kwargs={"literal_binds": True})
                explained = connection.exec_driver_sql(
                    f"EXPLAIN (ANALYZE, FORMAT JSON) {text}"
                ).scalar_one()
            nodes = list(_walk(explained[0]["Plan"]))
            assert all(node["Node Type"] != "Seq Scan" for node in nodes), order
            # The index by tenant and name has no id: equal names are sorted, a few rows at a time.
            assert all(node["Node Type"] != "Sort" for node in nodes), order
            assert max(node["Actual Rows"] for node in nodes) <= PAGE + 1
        assert len(read_all(engine, JobSearch(order="-ended"), 1000)) == LARGE
        assert len(read_all(engine, JobSearch(JobFilter(text="llama"), "name"), 1000)) == 8
    finally:
        engine.dispose()


def _walk(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from _walk(child)
