"""A job leaves a real card by the driver's own checkpoint calls, and comes back with its contents."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from gpupool.mechanisms.suspend.refusals import FIRST_DRIVER
from tests.gpu.conftest import RealCardPool

PROGRAM = Path(__file__).parents[1] / "support" / "holding_program.py"
MIB = 1 << 20
HELD = 1024
#: A job is idle after 60 s, which its agent sees with its second or third sample.
IDLE_SECONDS = 180


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


def test_an_idle_job_gives_way_and_its_next_call_wakes_it(
    pool: RealCardPool, tmp_path: Path
) -> None:
    version = str(pool.card.get("driver_version", ""))
    if version.split(".")[0].isdigit() and int(version.split(".")[0]) < FIRST_DRIVER:
        pytest.skip(f"driver {version} has no checkpoint calls")
    ticks = tmp_path / "ticks"
    ask = tmp_path / "ask"
    program = PROGRAM.with_name("idle_program.py")
    share = ("--gpu", "0.6", "--memory", "4GiB")
    agreed = ("--host-memory", "2GiB", "--when-idle", "suspend")
    words = [sys.executable, str(program), str(HELD), str(ticks), str(ask)]
    pool.do("submit", *share, *agreed, "--name", "idle", "--", *words)
    pool.until(ticks.exists, "the program's first look")
    # Only compute is lent twice: the memory of both fits the card.
    pool.do("submit", *share, "--name", "other", "--", "sleep", "600")
    deadline = time.monotonic() + IDLE_SECONDS
    while pool.job("other")["state"] != "running":
        assert time.monotonic() < deadline, "no start in place of the idle job"
        time.sleep(0.5)
    assert pool.job("idle")["suspension"]["host_bytes"] >= HELD * MIB
    ask.touch()
    pool.until(lambda: pool.job("idle")["suspension"]["wanted_ns"] is not None, "the wake")
    pool.do("stop", "other", "--grace", "0")
    pool.until(lambda: ticks.read_text() == "intact\n" * 2, "the look for which it woke")
    pool.stop_all()
