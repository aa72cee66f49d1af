"""Ways to hold more memory than a share has: none gets a byte more, and the ledger is exact
afterwards."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adversary.conftest import open_to_other_users
from tests.e2e.pool_fixture import RealPool
from tests.support.compute import NATIVE

pytestmark = [
    pytest.mark.adversary,
    pytest.mark.root,
    pytest.mark.skipif(
        os.geteuid() != 0, reason="a pool of root's own: in a user's the fence is advice"
    ),
]

GIB = 1 << 30
LIMIT = 2 * GIB
SHARE = ("--gpu", "0.3", "--memory", "2GiB")
SECONDS = "3"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    built = open_to_other_users(tmp_path_factory.mktemp("programs")) / "memory_evasions"
    source = Path(__file__).parent / "memory_evasions.c"
    options = ["-std=gnu11", "-O1", "-Wall", "-Werror", f"-I{NATIVE / 'include'}"]
    subprocess.run(["cc", *options, "-o", built, source, "-ldl", "-lpthread"], check=True)
    return str(built)


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPool]:
    with RealPool(
        open_to_other_users(tmp_path_factory.mktemp("adversary")) / "pool", "2xL40S"
    ) as running:
        yield running


def figures(text: str) -> dict[str, int]:
    return {name: int(value) for name, value in re.findall(r"(\w+)=(-?\d+)", text)}


def go(pool: RealPool, program: str, way: str) -> dict[str, int]:
    return figures(pool.do("run", "--quiet", *SHARE, "--", program, way, SECONDS))


@pytest.fixture(scope="module")
def free_alone(pool: RealPool, program: str) -> int:
    """What is free for the only process of a job: all but its context."""
    return go(pool, program, "alone")["free"]


def test_memory_of_a_dead_exporter_stays_charged_to_the_allocation(
    pool: RealPool, program: str
) -> None:
    seen = go(pool, program, "export")
    assert seen["fill"] == 0, "the importer still has the memory"
    assert seen["total"] == LIMIT
    assert seen["free"] <= LIMIT - GIB
    assert 0 < seen["more"] <= LIMIT - GIB, "of which it can have the rest, and no more"


def test_processes_that_race_at_the_limit_never_hold_more(
    pool: RealPool, program: str, free_alone: int
) -> None:
    seen = go(pool, program, "race")
    assert seen["bad"] == 0
    assert min(seen["given"], seen["refused"]) > 0
    assert seen["most"] <= LIMIT
    assert seen["free"] == free_alone, "memory of ended processes is given back"


def test_killed_processes_leave_nothing_in_the_ledger(
    pool: RealPool, program: str, free_alone: int
) -> None:
    seen = go(pool, program, "killer")
    assert seen["kills"] > 10
    assert seen["free"] == free_alone


def test_threads_that_create_and_release_leave_the_ledger_as_it_was(
    pool: RealPool, program: str
) -> None:
    seen = go(pool, program, "create")
    assert seen["created"] > 100
    assert seen["leaked"] == 0


def test_a_share_that_is_resized_meanwhile_never_gets_more(pool: RealPool, program: str) -> None:
    pool.do("submit", "--name", "resized", *SHARE, "--", program, "resize", "8")
    pool.until_state("resized", "running")
    for memory in ("4GiB", "3GiB", "5GiB"):
        pool.do("resize", "resized", "--memory", memory)
    assert pool.until_state("resized", "done", "failed", "stopped")["state"] == "done", pool.do(
        "logs", "resized"
    )
    seen = figures(pool.do("logs", "resized"))
    assert seen["totals"] >= 2
    assert seen["over"] == 0


def test_a_flood_of_rings_ends_no_job_and_is_survived(pool: RealPool, program: str) -> None:
    assert go(pool, program, "bell")["sent"] > 1000
    assert go(pool, program, "race")["most"] <= LIMIT
