"""`docs/how-to/suspend.md`: its commands, typed in order on a pool of one simulated card."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.pool_fixture import SECONDS, RealPool
from tests.support import pages
from tests.support.typed_commands import commands

PROGRAM = Path(__file__).parents[1] / "support" / "holding_program.py"
IDLE_PROGRAM = Path(__file__).parents[1] / "support" / "idle_program.py"
TRAIN = f"""
import runpy, sys
sys.argv = ["holding_program.py", "256", "ticks"]
runpy.run_path("{PROGRAM}", run_name="__main__")
"""
URGENT = """
import pathlib
pathlib.Path("urgent").write_text("ran")
"""


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[RealPool]:
    with RealPool(tmp_path / "pool", "1xT4") as pool:
        yield pool


def await_ticks(folder: Path, count: int) -> None:
    deadline = time.monotonic() + SECONDS
    while len(read_ticks(folder)) < count:
        assert time.monotonic() < deadline, f"{count} looks at the contents did not come"
        time.sleep(0.02)


def read_ticks(folder: Path) -> list[str]:
    path = folder / "ticks"
    return path.read_text().splitlines() if path.exists() else []


def test_a_job_makes_room_for_another_one_and_goes_on(pool: RealPool, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "urgent.py").write_text(URGENT)
    (tmp_path / "notebook.py").write_text(TRAIN.replace("ticks", "notes"))
    printed = {}
    for words in commands(pages.PAGES / "suspend.md"):
        if words[0] == "suspend":
            await_ticks(tmp_path, 1)
        done = pool.run(*words, cwd=tmp_path)
        assert done.returncode == 0, f"gpupool {' '.join(words)}\n{done.stdout}{done.stderr}"
        printed.setdefault(words[0], done.stdout)
        if words[0] == "run":
            assert (tmp_path / "urgent").read_text() == "ran"
    # The driver's context of a T4 and what the program holds.
    assert printed["suspend"] == "train: suspended, 376 MiB in main memory\n"
    assert printed["resume"] == "train: runs, 1.00 GPU (100 % compute) + 15360 MiB\n"
    await_ticks(tmp_path, len(read_ticks(tmp_path)) + 2)
    assert "lost" not in read_ticks(tmp_path)
    assert json.loads(printed["show"])["suspension"] is None
    kinds = [json.loads(line)["kind"] for line in printed["events"].splitlines()]
    assert [kind for kind in kinds if kind in ("job.suspended", "job.resumed")] == [
        "job.suspended",
        "job.resumed",
    ]
    assert not [kind for kind in kinds if kind.startswith("fence.")]


def test_refusals_name_the_reason_and_the_job_runs_on(pool: RealPool, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN.replace('"256"', '"1500"'))
    # Its memory on the card is more than its limit of main memory leaves.
    words = ("--gpu", "0.5", "--memory", "2GiB", "--host-memory", "1GiB", "--name", "train")
    done = pool.run("submit", *words, "--", "python3", "train.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    await_ticks(tmp_path, 1)
    refused = pool.run("suspend", "train")
    assert refused.returncode == 3
    assert "job train runs on: its 1620 MiB of card memory need as much main memory" in (
        refused.stderr
    )
    await_ticks(tmp_path, len(read_ticks(tmp_path)) + 1)
    # Another job has taken the card by the time of the resume.
    (tmp_path / "small.py").write_text(TRAIN.replace('"256"', '"64"').replace("ticks", "small"))
    done = pool.run("submit", "--gpu", "0.4", "--memory", "1GiB", "--name", "small", "--",
                    "python3", "small.py", cwd=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    pool.until((tmp_path / "small").exists, "the start of the small job")
    pool.do("suspend", "small")
    assert "suspended" in pool.do("ps")
    pool.do("submit", "--gpu", "0.5", "--memory", "1GiB", "--name", "other", "--", "sleep", "600")
    refused = pool.run("resume", "small")
    assert refused.returncode == 3
    assert "0.00 GPU free where 0.40 more would be needed" in refused.stderr
    assert "suspended" in pool.do("show", "small")
    # A suspended job can be stopped: it gets the signal although it was stopped.
    pool.do("stop", "small", "--grace", "5s")
    pool.until(lambda: pool.job("small")["state"] != "running", "the end of the small job")


def test_an_idle_job_gives_way_and_wakes_with_its_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUPOOL_SUSPEND_IDLE", "1")
    monkeypatch.setenv("GPUPOOL_SUSPEND_FACTOR", "2")
    share = ("--gpu", "0.6", "--memory", "10GiB")
    agreed = ("--host-memory", "2GiB", "--when-idle", "suspend", "--idle-after", "1s")
    notebook = ("python3", str(IDLE_PROGRAM), "256", "ticks", "ask")
    with RealPool(tmp_path / "pool", "1xT4") as pool:
        words = ("submit", *share, *agreed, "--name", "notebook", "--", *notebook)
        assert pool.run(*words, cwd=tmp_path).returncode == 0
        too_much = ("--host-memory", "900TiB", "--when-idle", "suspend", "--idle-after", "1s")
        refused = pool.run("submit", *share, *too_much, "--", "true")
        assert refused.returncode == 3
        # The 900 TiB that it needs itself, and the 10 GiB of its card.
        assert "needs 943728640 MiB of its node" in refused.stderr
        await_ticks(tmp_path, 1)
        pool.do("submit", *share, "--name", "other", "--", "sleep", "600")
        pool.until_state("other", "running")
        facts = pool.do("show", "notebook")
        assert "because it was idle" in facts
        assert "376 MiB in main memory; wakes with its next call of the driver" in facts
        # Its 10 GiB are not charged, the 12 GiB of main memory are.
        assert pool.job("notebook")["host_bytes"] == 12 << 30
        assert pool.held_milli() == 600
        listed = pool.do("gpus")
        assert "suspended while idle" in listed
        assert "10240 MiB  10240 MiB      0 MiB         30720 MiB" in listed
        (tmp_path / "ask").touch()
        pool.until(lambda: "waits for room" in pool.do("show", "notebook"), "a wake")
        assert "wants to work since" in pool.do("explain", "notebook")
        assert read_ticks(tmp_path) == ["intact"]
        pool.do("stop", "other", "--grace", "0")
        await_ticks(tmp_path, 2)
        assert read_ticks(tmp_path) == ["intact"] * 2
        pool.do("stop", "notebook", "--grace", "0")
