"""Processors and main memory beside the cards by the command line: where the job really runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.pool_fixture import RealPool

MACHINE = Path(__file__).parents[1] / "machines" / "two-sockets.json"
SMALL = ("--gpu", "0.1", "--memory", "1GiB")
WHERE = ("sh", "-c", "grep Cpus_allowed_list /proc/self/status")

pytestmark = pytest.mark.skipif(
    not {0, 1} <= os.sched_getaffinity(0),
    reason="two NUMA nodes need processors 0 and 1 of this machine",
)


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPool]:
    """One node whose NUMA node 0 has processor 0 and cards 0 and 1, NUMA node 1 processor 1 and
    cards 2 and 3."""
    with RealPool(tmp_path_factory.mktemp("numa") / "pool", sim=str(MACHINE)) as running:
        yield running


@pytest.fixture(autouse=True)
def clean(pool: RealPool) -> Iterator[None]:
    yield
    pool.stop_all()


def ran_on(pool: RealPool, name: str) -> str:
    pool.until_state(name, "done")
    return pool.do("logs", name).split()[1]


def test_a_job_runs_on_the_processors_of_its_cards_numa_node(pool: RealPool) -> None:
    pool.do(
        "submit", *SMALL, "--cpus", "0.5", "--host-memory", "64MiB", "--name", "near", "--", *WHERE
    )
    assert ran_on(pool, "near") == "0"
    assert pool.job("near")["numa"] == [{"numa": 0, "cpu_milli": 500, "host_bytes": 64 << 20}]
    assert pool.job("near")["device"] == "two-sockets:0"


def test_when_one_socket_is_full_the_next_job_runs_on_the_other_beside_its_card(
    pool: RealPool,
) -> None:
    pool.do("submit", *SMALL, "--cpus", "1", "--name", "holder", "--", "sleep", "600")
    assert pool.until_state("holder", "running")["numa"][0]["numa"] == 0
    pool.do("submit", *SMALL, "--cpus", "1", "--topology", "numa", "--name", "other", "--", *WHERE)
    assert ran_on(pool, "other") == "1"
    assert pool.job("other")["device"] == "two-sockets:2"
    assert "NUMA node 0        0 of 1 processors" in pool.do("show", "two-sockets")
    assert "two-sockets     0  0 of 1" in pool.do("gpus", "-o", "wide")


def test_a_condition_that_cannot_hold_now_is_waited_for_and_explained(pool: RealPool) -> None:
    for name in ("a", "b"):
        pool.do("submit", *SMALL, "--cpus", "0.6", "--name", name, "--", "sleep", "600")
        pool.until_state(name, "running")
    pool.do(
        "submit", *SMALL, "--cpus", "0.5", "--topology", "numa", "--name", "waits", "--", *WHERE
    )
    told = pool.json("explain", "waits")
    assert told["nodes"] == {"cards not near enough together": 1}
    assert (
        "nearest is NUMA node 0 of two-sockets with 2 cards and 0.4 processors free"
        in told["sentence"]
    )
    refused = pool.run("run", *SMALL, "--cpus", "1.5", "--topology", "numa", "--", "true")
    assert refused.returncode != 0
    assert "1.5 processors of one NUMA node; nearest is NUMA node 0" in refused.stderr
    pool.do("stop", "b", "--yes")
    assert ran_on(pool, "waits") == "1"


def test_a_job_that_asks_for_cards_alone_runs_anywhere(pool: RealPool) -> None:
    pool.do("submit", *SMALL, "--name", "anywhere", "--", *WHERE)
    every = os.sched_getaffinity(0)
    assert ran_on(pool, "anywhere") == (
        f"{min(every)}-{max(every)}" if len(every) > 1 else str(min(every))
    )


def test_a_job_may_have_processors_of_both(pool: RealPool) -> None:
    pool.do("submit", *SMALL, "--cpus", "0.6", "--name", "first", "--", "sleep", "600")
    pool.until_state("first", "running")
    pool.do("submit", *SMALL, "--cpus", "1.2", "--name", "both", "--", *WHERE)
    assert ran_on(pool, "both") == "0-1"
    assert [part["cpu_milli"] for part in pool.job("both")["numa"]] == [200, 1000]
