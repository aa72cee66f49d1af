"""A pool of 10,000 simulated cards stays as quick with 100,000 jobs as with 100: statements, rows,
times."""

import json
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.counting import counting, query_plans
from bench.large_pool import LargePool, large_pool
from bench.rows import Row
from gpupool.allocations.views.job_pages import JobFilter
from gpupool.base.units import GIB
from gpupool.model.claim import Shape
from gpupool.model.tenant import Principal
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.snapshot.claims import WaitingClass
from gpupool.wire.fleet import WorkOut

NAME = "scale"
SPEC = "1250x8xH200"
SIZES = (100, 1_000, 10_000, 100_000)
TIMES = 21
PAGE = 20
"""Jobs on a page: so few that a user's page is full when the pool has had no more than a
hundred."""
MAY_GROW = 1.25
"""Of SQLite's steps: B-trees get deeper. A table that is read whole shows as a factor of a hundred
and more."""


@dataclass(frozen=True)
class Cost:
    """What one operation took at one size: counts of one run, the median time of several."""

    statements: int
    rows: int
    steps: int
    cards_looked_at: int
    milliseconds: float
    plans: tuple[str, ...]


def run(out: Path) -> list[Row]:
    with (
        tempfile.TemporaryDirectory(prefix="gpupool-scale-") as directory,
        large_pool(Path(directory), SPEC) as pool,
    ):
        found = measure(pool, SIZES)
    (out / "scale-counts.json").write_text(
        json.dumps(
            {what: {n: asdict(cost) for n, cost in by.items()} for what, by in found.items()},
            indent=1,
        )
        + "\n"
    )
    return [row for what, by_size in found.items() for row in _rows(what, by_size)]


@dataclass(frozen=True)
class Operation:
    """What is measured is `act`; it returns how many cards it looked at. `before` and `after` are
    not counted."""

    act: Callable[[], int]
    before: Callable[[], object] = lambda: None
    after: Callable[[], object] = lambda: None


def measure(
    pool: LargePool, sizes: tuple[int, ...], times: int = TIMES
) -> dict[str, dict[int, Cost]]:
    """Every operation at every size: by operation, then by number of jobs."""
    found: dict[str, dict[int, Cost]] = {}
    for size in sizes:
        pool.grow_to(size)
        for what, operation in operations(pool).items():
            _once(operation)  # beforehand: statements are compiled and pages read
            found.setdefault(what, {})[size] = _cost(pool, operation, times)
    return found


def operations(pool: LargePool) -> Mapping[str, Operation]:
    """What is measured: what people wait for, and what happens most often."""
    allocations, begun = pool.services.allocations, list[WorkOut]()

    def page_of_jobs(caller: Principal) -> int:
        assert len(allocations.jobs.list_jobs(caller, JobFilter(), None, PAGE).items) == PAGE
        return 0

    def named(caller: Principal) -> int:
        assert allocations.jobs.get_job("train-0", caller).state == "running"
        return 0

    def page_of_cards() -> int:
        assert len(pool.services.fleet.list_devices(pool.admin, limit=100).items) == 100
        return 0

    def submit() -> int:
        pool.start_one()
        return 0

    def begin() -> None:
        pool.start_one()
        begun.append(pool.newest())

    def end() -> int:
        pool.end(begun.pop())
        return 0

    return {
        "plan for one claim": Operation(lambda: _plan(pool)),
        "submit, placed": Operation(submit, after=lambda: pool.end(pool.newest())),
        "end of a job": Operation(end, before=begin),
        "ps, first page, admin": Operation(lambda: page_of_jobs(pool.admin)),
        "ps, first page, user": Operation(lambda: page_of_jobs(pool.member)),
        "show a job by name, admin": Operation(lambda: named(pool.admin)),
        "show a job by name, user": Operation(lambda: named(pool.member)),
        "gpus, first page": Operation(page_of_cards),
    }


def _plan(pool: LargePool) -> int:
    """Snapshot to plan, for one claim that fits, beside everything that waits."""
    claim = WaitingClass("default", 0, Shape(300, 8 * GIB), ("j-the-new-one",), 1, 1)
    snapshot = pool.services.allocations.cache.build_snapshot(extra=claim)
    plan = cycle(snapshot, now_ns=1, board=pool.board(snapshot))
    assert [placement.job for placement in plan.placements] == ["j-the-new-one"]
    return plan.effort.rows


def _cost(pool: LargePool, operation: Operation, times: int) -> Cost:
    operation.before()
    with counting(pool.engine) as counts:
        looked_at = operation.act()
    operation.after()
    milliseconds = statistics.median(_once(operation) for _ in range(times)) * 1000
    plans = tuple(query_plans(pool.engine, counts))
    return Cost(counts.statements, counts.rows, counts.steps, looked_at, milliseconds, plans)


def _once(operation: Operation) -> float:
    """CPU seconds of this thread: what others do on the machine does not count."""
    operation.before()
    began = time.thread_time()
    operation.act()
    seconds = time.thread_time() - began
    operation.after()
    return seconds


def may_look(what: str, times: float) -> float:
    """By what factor the cards looked at may grow when there are so many times the jobs.

    A plan halves the ends of what runs to find the start that it promises to the head; nothing else
    looks at more.
    """
    return max(1.0, math.log2(times)) if what == "plan for one claim" else 1.0


def _rows(what: str, by_size: Mapping[int, Cost]) -> list[Row]:
    first, last = (by_size[size] for size in (min(by_size), max(by_size)))
    command = f"{what}: {min(by_size)} jobs beside {max(by_size)}, {SPEC}"
    counted = {
        "statements": (first.statements, last.statements, 1.0),
        "rows": (first.rows, last.rows, 1.0),
        "steps of SQLite": (first.steps, last.steps, MAY_GROW),
        "cards looked at": (
            first.cards_looked_at,
            last.cards_looked_at,
            may_look(what, max(by_size) / min(by_size)),
        ),
    }
    rows = [
        Row(
            f"{what}: {unit}",
            "",
            float(many),
            command,
            float(few),
            "the same with 100 jobs",
            limit_ratio=limit,
        )
        for unit, (few, many, limit) in counted.items()
        if few or many
    ]
    times = tuple(by_size[size].milliseconds for size in sorted(by_size))
    note = "CPU time; samples: the median at each number of jobs"
    time_row = Row(
        f"{what}: time",
        "ms",
        last.milliseconds,
        command,
        first.milliseconds,
        "the same with 100 jobs",
        samples=times,
        note=note,
    )
    return [*rows, time_row]
