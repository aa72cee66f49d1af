"""A job leaves a real card by the driver's own checkpoint calls, and comes back with its contents."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gpupool.mechanisms.suspend.refusals import FIRST_DRIVER
from tests.gpu.conftest import RealCardPool

PROGRAM = Path(__file__).parents[1] / "support" / "holding_program.py"
MIB = 1 << 20
HELD = 1024


@pytest.mark.parametrize("share", [("--gpu", "1"), ("--gpu", "0.5", "--memory", "4GiB")])
def test_a_job_is_off_the_card_while_it_is_suspended(
    pool: RealCardPool, share: tuple[str, ...], tmp_path: Path
) -> None:
    version = str(pool.card.get("driver_version", ""))
    if version.split(".")[0].isdigit() and int(version.split(".")[0]) < FIRST_DRIVER:
        pytest.skip(f"driver {version} has no checkpoint calls")
    ticks = tmp_path / "ticks"
    words = [sys.executable, str(PROGRAM), str(HELD), str(ticks)]
    pool.do("submit", *share, "--name", "holds", "--", *words)
    pool.until(ticks.exists, "the program's first look")
    pool.do("suspend", "holds")
    suspension = pool.job("holds")["suspension"]
    assert suspension["state"] == "suspended"
    assert suspension["host_bytes"] >= HELD * MIB
    pool.do("run", "--gpu", "1", "--", "true")
    pool.do("resume", "holds")
    before = len(ticks.read_text().splitlines())
    pool.until(lambda: len(ticks.read_text().splitlines()) > before, "a look after the resume")
    assert "lost" not in ticks.read_text()
    pool.stop_all()
