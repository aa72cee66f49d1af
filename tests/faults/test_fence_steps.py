"""Fenced jobs whose agent or server is killed at each step of start, resize and end: one size
everywhere, then."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.base.errors import ServiceUnavailable
from gpupool.mechanisms import regions
from tests.faults import invariants
from tests.faults.fence_campaign import MIB, TENANT
from tests.faults.fence_truth import Card, arbiters, fence_leftovers, limits_as_granted
from tests.faults.pool import GPUPOOL, FaultPool, answer_of, until

pytestmark = pytest.mark.root
BEFORE, AFTER = (300, 1000 * MIB), (600, 3000 * MIB)
ENDED = ("done", "failed", "stopped", "lost")


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[FaultPool]:
    tmp_path.chmod(0o755)
    with FaultPool(tmp_path / "state", sim="1xT4") as made:
        yield made


@contextlib.contextmanager
def card_of(pool: FaultPool) -> Iterator[Card]:
    card = Card(pool)
    try:
        yield card
    finally:
        card.close()


def submit(pool: FaultPool, *words: str) -> str:
    launch = {
        "argv": list(words),
        "env": {"PATH": "/usr/bin:/bin", "FAULT_POOL": str(pool.paths.root)},
    }
    shape = {"gpu_milli": BEFORE[0], "memory_bytes": BEFORE[1]}
    with pool.api() as api:
        body = {"name": "the-job", "shape": shape, "launch": launch}
        return str(answer_of(api, "POST", "jobs", body, idempotency_key="the-job")["first"]["id"])


def start_tenant(pool: FaultPool, card: Card) -> str:
    wrong = pool.paths.root.parent / "wrong"
    wrong.mkdir(exist_ok=True)
    job = submit(pool, sys.executable, str(TENANT), "1", "steps", str(wrong))
    until(
        lambda: state_of(pool, job) == "running" and card.processes(job),
        "a running job on the card",
    )
    return job


def state_of(pool: FaultPool, job: str) -> str:
    return str(pool.rows("SELECT state FROM jobs WHERE public_id = ?", job)[0]["state"])


def seat(pool: FaultPool) -> tuple[int, int]:
    (row,) = pool.rows("SELECT gpu_milli, memory_bytes FROM seats")
    return row["gpu_milli"], row["memory_bytes"]


def ask_for_more(pool: FaultPool, **options: Any) -> None:
    """The answer may be lost: the server is killed at some step of it."""
    body = {"gpu_milli": AFTER[0], "memory_bytes": AFTER[1]}
    with pool.api() as api, contextlib.suppress(ServiceUnavailable):
        api.request("POST", "jobs/the-job/resize", body, **options)
    until(lambda: pool.server_pid() is None, "the server's death")


def assert_one_size(card: Card, job: str, wanted: tuple[int, int]) -> None:
    """In the database, in the page that the processes see, and in the books."""
    pool = card.pool
    until(lambda: not limits_as_granted(card), f"limits as granted ({limits_as_granted(card)})")
    assert seat(pool) == wanted
    assert state_of(pool, job) == "running"
    card.await_exact(job)
    if wanted == AFTER:
        until(
            lambda: sum(one.memory_bytes for one in card.processes(job)) > BEFORE[1],
            "use of what was added",
            90,
        )
    assert sum(one.memory_bytes for one in card.processes(job)) <= wanted[1]
    assert invariants.books(pool) == []


def end_and_check(card: Card, job: str) -> None:
    pool = card.pool
    with pool.api() as api:
        if state_of(pool, job) not in ENDED:
            answer_of(api, "POST", f"jobs/{job}/stop", {"grace_seconds": 0})
        until(lambda: state_of(pool, job) in ENDED, "the job's end")
        until(
            lambda: not [*invariants.node_leftovers(pool), *fence_leftovers(card)], "a clean node"
        )
        report = answer_of(api, "GET", "report", query={"since": "1d"})
    assert [*invariants.books(pool), *invariants.report_closes(report)] == []
    assert invariants.report_matches_intervals(pool, report) == []
    wrong = pool.paths.root.parent / "wrong"
    assert [path.read_text() for path in wrong.glob("*")] == []
    assert pool.rows("SELECT kind, data FROM events WHERE kind LIKE 'fence.%'") == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("faults", "wanted"),
    [
        ({"GPUPOOL_STORE_FAULT": "before-commit:job.resized"}, BEFORE),
        ({"GPUPOOL_STORE_FAULT": "after-commit:job.resized"}, AFTER),
        ({"GPUPOOL_FAULT": "resize-noted"}, AFTER),
        ({"GPUPOOL_FAULT": "resized"}, AFTER),
    ],
    ids=lambda value: "-".join(value.values()).replace(":", "-") if isinstance(value, dict) else "",
)
def test_a_resize_that_is_killed_is_the_old_size_or_the_new_one_everywhere(
    pool: FaultPool, faults: dict[str, str], wanted: tuple[int, int]
) -> None:
    pool.up(**faults, GPUPOOL_FAULTS_ALLOWED="1")
    with card_of(pool) as card:
        job = start_tenant(pool, card)
        ask_for_more(pool)
        pool.up()
        assert_one_size(card, job, wanted)
        end_and_check(card, job)


def test_a_page_that_a_killed_agent_left_half_written_is_mended_and_the_program_goes_on(
    pool: FaultPool,
) -> None:
    pool.up(GPUPOOL_FAULT="resize-noted", GPUPOOL_FAULTS_ALLOWED="1")
    with card_of(pool) as card:
        job = start_tenant(pool, card)
        ask_for_more(pool)
        page = leave_half_written(card, job)
        assert page.stat().st_size == 512 + 128 * regions.MAX_DEVICES
        busy = card.gpu_ns(job)
        until(
            lambda: card.gpu_ns(job) > busy, "work of a program whose limits page is half written"
        )
        pool.up()
        assert_one_size(card, job, AFTER)
        end_and_check(card, job)


def leave_half_written(card: Card, job: str) -> Path:
    """As `write_limits` does it up to the middle: an odd generation, and another size."""
    folder = card.folder(job)
    assert folder is not None
    page = folder / regions.LIMITS_FILE
    with open(page, "r+b") as file:
        file.seek(regions.CLimits.generation.offset)
        file.write((3).to_bytes(8, "little"))
        file.seek(regions.CLimits.device.offset + regions.CDeviceLimit.memory_bytes.offset)
        file.write(AFTER[1].to_bytes(8, "little"))
    return page


@pytest.mark.sampled(2)
@pytest.mark.parametrize("step", ["prepared", "start-reported", "exit-seen", "unprepared"])
def test_a_fenced_job_whose_agent_is_killed_at_a_step_ends_as_it_should_and_leaves_nothing(
    pool: FaultPool, step: str
) -> None:
    pool.up(GPUPOOL_FAULT=step, GPUPOOL_FAULTS_ALLOWED="1")
    with card_of(pool) as card:
        job = submit(pool, GPUPOOL, "burn", "--seconds", "1", "--memory", "64MiB")
        until(lambda: pool.server_pid() is None, "the agent's death")
        until(lambda: not arbiters(pool), "the end of the arbiter with its agent")
        pool.up()
        until(lambda: state_of(pool, job) in ENDED, "the job's end")
        assert state_of(pool, job) == "done"
        end_and_check(card, job)
