"""Shares of a real card: what they are promised, as programs in them count it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.conftest import RealCardPool

GIB = 1 << 30
BURN = [sys.executable, "-m", "gpupool.cli.main", "burn", "-o", "json"]


def burn(pool: RealCardPool, gpu: str, memory: str, *words: str) -> list[dict[str, Any]]:
    out = pool.do("run", "--gpu", gpu, "--memory", memory, "--", *BURN, *words)
    return [json.loads(line) for line in out.splitlines()]


def of(lines: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    return next(line for line in lines if line["kind"] == kind)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7, 0.9])
@pytest.mark.parametrize(
    "load",
    [("--kernel-us", "200"), ("--graph", "20", "--kernel-us", "100"), ("--long-kernel", "20")],
)
def test_a_fixed_share_gets_its_part_within_a_point(
    pool: RealCardPool, share: float, load: tuple[str, ...]
) -> None:
    got = of(burn(pool, str(share), "4GiB", "--seconds", "10", *load), "end")["rate"]
    assert abs(got - share) <= 0.01
    assert got >= 0.97 * share


def test_all_of_the_compute_costs_at_most_a_percent(pool: RealCardPool) -> None:
    got = of(burn(pool, "1", "4GiB", "--seconds", "10", "--kernel-us", "500"), "end")["rate"]
    assert got >= 0.99


@pytest.mark.parametrize("memory", [1, 4, 16])
def test_memory_ends_exactly_at_the_share(pool: RealCardPool, memory: int) -> None:
    lines = burn(pool, "0.2", f"{memory}GiB", "--over-allocate")
    card, refused = of(lines, "card"), of(lines, "refused")
    assert card["total_bytes"] == memory * GIB
    assert card["free_bytes"] - (4 << 20) <= refused["given_bytes"] <= memory * GIB


def test_sixteen_processes_of_one_job_share_one_limit(pool: RealCardPool) -> None:
    """Each holds 512 MiB of a share that has room for 16 contexts and no more than 16 times
    that."""
    lines = burn(pool, "0.2", "24GiB", "--fork", "16", "--memory", "512MiB", "--seconds", "2")
    assert len([line for line in lines if line["kind"] == "held"]) == 16
    assert {line["total_bytes"] for line in lines if line["kind"] == "card"} == {24 * GIB}


def test_verify_finds_every_promise_kept(pool: RealCardPool, tmp_path: Path) -> None:
    done = pool.run("verify", "--out", str(tmp_path), timeout=300)
    assert done.returncode == 0, done.stdout


def test_the_doctor_finds_the_fence_whole_and_no_runtime_that_it_keeps_from_starting(
    pool: RealCardPool,
) -> None:
    done = pool.run("doctor", "--fence", "-o", "json", timeout=180)
    checks = json.loads(done.stdout)["checks"]
    assert [one for one in checks if one["state"] == "fail"] == []
    assert {"limit seen", "limit enforced", "process registered", "time counted"} <= {
        one["name"] for one in checks
    }


def test_the_costs_of_the_card_are_measured_and_the_fence_goes_by_them_afterwards(
    pool: RealCardPool, tmp_path: Path
) -> None:
    file, place = tmp_path / "calibration.json", pool.state_dir / "agent" / "calibration.json"
    first = json.loads(pool.do("verify", "--calibrate", str(file), "-o", "json"))
    measured = first["measured"]["context_bytes"]
    assert 32 << 20 <= measured <= 2 * GIB
    assert first["measured"]["granule_bytes"] % (64 << 10) == 0
    place.write_bytes(file.read_bytes())
    try:
        after = json.loads(pool.do("verify", "--calibrate", str(file), "-o", "json"))
    finally:
        place.unlink()
    assert after["in_use"]["context_bytes"] == measured
