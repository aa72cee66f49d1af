"""What people wait for costs the same whatever the pool has behind it: fifty times the jobs, the
same work.

Statements and rows are counted, and SQLite's steps, which find a table that is read whole. The same
with 10,000 cards and 100,000 jobs, and with times, is `make bench ARGS=scale`.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.counting import counting
from bench.figures import scale
from bench.figures.scale import Cost
from bench.large_pool import LargePool, large_pool
from gpupool.fleet.tables import devices

FEW, MANY = 100, 5_000
GROWING = ("jobs", "claims", "allocations", "seats", "intervals", "launches", "events")


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LargePool]:
    place: Path = tmp_path_factory.mktemp("large")
    with large_pool(place, "80x8xH200") as made:
        yield made


@pytest.fixture(scope="module")
def costs(pool: LargePool) -> dict[str, dict[int, Cost]]:
    return scale.measure(pool, (FEW, MANY), times=1)


OPERATIONS = (
    "plan for one claim",
    "submit, placed",
    "end of a job",
    "ps, first page, admin",
    "ps, first page, user",
    "show a job by name, admin",
    "show a job by name, user",
    "gpus, first page",
)


def test_everything_that_the_bench_measures_is_checked_here(
    costs: dict[str, dict[int, Cost]],
) -> None:
    assert tuple(costs) == OPERATIONS


@pytest.mark.parametrize("what", OPERATIONS)
def test_fifty_times_the_jobs_take_no_more_statements_and_rows(
    costs: dict[str, dict[int, Cost]], what: str
) -> None:
    few, many = costs[what][FEW], costs[what][MANY]
    assert many.statements <= few.statements
    assert many.rows <= few.rows
    assert many.cards_looked_at <= few.cards_looked_at * scale.may_look(what, MANY / FEW)


@pytest.mark.parametrize("what", OPERATIONS)
def test_fifty_times_the_jobs_take_hardly_more_steps(
    costs: dict[str, dict[int, Cost]], what: str
) -> None:
    few, many = costs[what][FEW], costs[what][MANY]
    assert many.steps <= few.steps * scale.MAY_GROW + 100


@pytest.mark.parametrize("what", OPERATIONS)
def test_no_table_that_grows_is_read_without_an_index(
    costs: dict[str, dict[int, Cost]], what: str
) -> None:
    scans = [
        line for line in costs[what][MANY].plans if line.startswith("SCAN ") and "USING" not in line
    ]
    assert [line for line in scans if line.split()[1] in GROWING] == []


def test_a_plan_reads_nothing_from_the_database(costs: dict[str, dict[int, Cost]]) -> None:
    assert costs["plan for one claim"][MANY].statements == 0


def test_pages_hand_out_rows_for_what_they_show_only(costs: dict[str, dict[int, Cost]]) -> None:
    shown = scale.PAGE + 1
    assert costs["gpus, first page"][MANY].rows == 101
    assert costs["ps, first page, admin"][MANY].rows <= 3 * shown  # a job, its grant, its seat


def test_a_stale_plan_has_its_own_cards_read_again_and_not_all_of_them(pool: LargePool) -> None:
    """A job that ended beside it changed the card: what happens all day in a pool that is busy."""
    with pool.engine.begin() as connection:
        connection.execute(devices.update().values(generation=devices.c.generation + 1))
    with counting(pool.engine) as counts:
        pool.start_one()
    assert counts.rows <= 30
    pool.end(pool.newest())
