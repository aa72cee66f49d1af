"""Gangs, preemption and reservations by the command line on a real pool."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.pool_fixture import RealPool

SMALL = ("--gpu", "0.25", "--memory", "1GiB")


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPool]:
    """Two cards; who has just started may be preempted too."""
    made = RealPool(tmp_path_factory.mktemp("gangs") / "pool", sim="2x1xL40S")
    made.environ |= {"GPUPOOL_PREEMPT_AFTER": "0", "GPUPOOL_PREEMPT_GRACE": "10"}
    with made as running:
        yield running


@pytest.fixture(autouse=True)
def clean(pool: RealPool) -> Iterator[None]:
    yield
    pool.stop_all()


def test_members_find_each_other_and_the_launcher_comes_last(
    pool: RealPool, tmp_path: Path
) -> None:
    tell = 'echo "$GPUPOOL_GANG_RANK $GPUPOOL_GANG_ROLE of $GPUPOOL_GANG_SIZE, $MASTER_ADDR ${RANK:---}"'
    file = tmp_path / "gang.yaml"
    file.write_text(
        f"""
name: train
roles:
  - {{name: launcher, launcher: true, share: {{gpu: 0.1, memory: 1GiB}}, command: [sh, -c, '{tell}']}}
  - {{name: worker, members: 2, share: {{gpu: 0.6, memory: 1GiB}}, command: [sh, -c, '{tell}; exec sleep 600']}}
"""
    )
    assert pool.do("submit", "--gang-file", str(file)) == "train\n"
    pool.until_state("train.0", "done")
    assert pool.do("logs", "train") == "0 launcher of 2, 127.0.0.1 --\n"
    assert pool.do("logs", "train.2") == "2 worker of 2, 127.0.0.1 1\n"
    workers = [pool.until_state(f"train.{n}", "stopped") for n in (1, 2)]
    assert {worker["reason"] for worker in workers} == {"its gang's launcher is done"}
    assert len({worker["device"] for worker in workers}) == 2


def test_more_cards_than_a_node_has_run_as_a_gang_whose_output_is_copied(pool: RealPool) -> None:
    tell = 'echo "member $GPUPOOL_GANG_RANK"; exit $((3 + GPUPOOL_GANG_RANK))'
    refused = pool.run("run", "--gpu", "2", "--no-gang", "--", "true")
    assert refused.returncode == 3
    assert "for a gang of 2 members with 1 card each" in refused.stderr
    for command in ("run", "submit"):
        planned = pool.run(command, "--gpu", "2", "--dry-run", "--", "true")
        assert planned.stdout.startswith("2 × [1.00 GPU (100 % compute) + ")
        assert "requested as a gang of 2 members of 1 card each" in planned.stderr
        assert pool.run(command, "--gpu", "2", "--dry-run", "--no-gang", "true").returncode == 3
    done = pool.run("run", "--gpu", "2", "--name", "wide", "--", "sh", "-c", tell)
    assert (done.returncode, sorted(done.stdout.splitlines())) == (4, ["member 0", "member 1"])
    assert "requested as a gang of 2 members of 1 card each" in done.stderr
    kept = pool.run(
        "run", *SMALL, "--keep-output", "--name", "kept", "--", "sh", "-c", "echo hi; exit 5"
    )
    assert (kept.returncode, kept.stdout, pool.do("logs", "-f", "kept")) == (5, "hi\n", "hi\n")


def test_a_template_of_more_cards_than_a_node_has_runs_as_a_gang(
    pool: RealPool, tmp_path: Path
) -> None:
    script = tmp_path / "t.py"
    script.write_text("import os; print(os.environ['GPUPOOL_GANG_RANK'])\n")
    words = ("template", "run", "training", "--gpu", "2", "--script", str(script))
    assert pool.run(*words, "--no-gang").returncode == 3
    assert pool.run(*words, "-o", "json").returncode == 3
    assert pool.run(*words, "--preview").stdout.startswith("fits: 2 × [")
    done = pool.run(*words, "--name", "both", "--python", sys.executable)
    assert done.stdout == "both\n"
    assert "requested as a gang of 2 members of 1 card each" in done.stderr
    pool.until_state("both.1", "done")
    assert pool.do("logs", "both.1") == "1\n"


def test_stopping_everything_stops_a_gang_that_waits_though_its_members_end_with_each_other(
    pool: RealPool,
) -> None:
    pool.do("submit", "--gpu", "1", "--name", "holder", "--", "sleep", "600")
    pool.do("submit", "--gpu", "1", "--gang", "2", "--name", "waits", "--", "sleep", "600")
    done = pool.run("stop", "--all", "--yes", "--grace", "0")
    assert (done.returncode, done.stderr) == (0, "")
    ends = sorted(line for line in done.stdout.splitlines() if line.endswith(" stopped"))
    assert ends == ["holder stopped", "waits.0 stopped", "waits.1 stopped"]


def test_a_gang_that_is_larger_than_what_is_free_waits_as_a_whole(pool: RealPool) -> None:
    pool.do("submit", "--gpu", "1", "--name", "holder", "--", "sleep", "600")
    pool.do("submit", *SMALL, "--gang", "6", "--name", "mpi", "--", "sleep", "600")
    rows = pool.json("queue")
    assert [(row["job"], row["gang"], row["count"]) for row in rows] == [("mpi", True, 6)]
    assert "mpi (6 members)" in pool.do("queue")
    assert pool.json("ps", "mpi", "--state", "running") == []
    pool.do("stop", "holder", "--grace", "0")
    for n in range(6):
        pool.until_state(f"mpi.{n}", "running")
    assert "gang mpi: 6 of 6 members running" in pool.do("explain", "mpi")
    members = pool.json("explain", "mpi")["gang"]["members"]
    assert [member["devices"] for member in members] == [
        [pool.job(f"mpi.{n}")["device"]] for n in range(6)
    ]
    assert pool.do("stop", "mpi", "--grace", "0").count("stopped") == 6


def test_a_preempted_job_saves_waits_and_goes_on_in_the_same_log(
    pool: RealPool, tmp_path: Path
) -> None:
    saved = tmp_path / "saved"
    script = f'echo "from $(cat {saved} 2>/dev/null || echo 0)"; trap "echo 7 >{saved}; exit 0" TERM; sleep 600 & wait'
    pool.do("submit", "--gpu", "1", "--name", "train", "--preemptible", "--", "sh", "-c", script)
    pool.do("submit", "--gpu", "1", "--name", "firm", "--", "sleep", "600")
    for name in ("train", "firm"):
        pool.until_state(name, "running")
    pool.until(lambda: pool.do("logs", "train") == "from 0\n", "the first run's line")
    pool.do("submit", "--gpu", "1", "--name", "urgent", "--priority", "high", "--", "true")
    pool.until_state("urgent", "done")
    pool.until(lambda: pool.do("logs", "train") == "from 0\nfrom 7\n", "the second run's line")
    job = pool.until_state("train", "running")
    assert (job["preemptions"], job["preemptible"]) == (1, True)
    told = map(json.loads, pool.do("events", "-o", "json").splitlines())
    kinds = [event["kind"] for event in told if event["subject"] == job["id"]]
    assert kinds == [
        "job.submitted", "job.placed", "job.running", "job.preempted", "job.requeued", "job.placed", "job.running",
    ]  # fmt: skip


def test_what_is_reserved_is_kept_and_refusals_have_numbers(pool: RealPool) -> None:
    made = pool.do(
        "reservation",
        "create",
        "demo",
        "--gpu",
        "1",
        "--nodes",
        "2",
        "--start",
        "1h",
        "--for",
        "2h",
    )
    assert made == "demo\n"
    pool.do("submit", "--gpu", "1", "--name", "long", "--max-time", "2h", "--", "sleep", "600")
    pool.do("submit", "--gpu", "1", "--name", "short", "--max-time", "10m", "--", "sleep", "600")
    pool.do(
        "submit",
        "--gpu",
        "1",
        "--name",
        "mine",
        "--max-time",
        "2h",
        "--reservation",
        "demo",
        "--",
        "sleep",
        "600",
    )
    for name in ("short", "mine"):
        pool.until_state(name, "running")
    assert pool.job("long")["state"] == "pending"
    assert "kept for reservation demo" in pool.do("explain", "long") or "in use" in pool.do(
        "explain", "long"
    )
    done = pool.run("reservation", "create", "two", "--start", "90m", "--for", "1h")
    assert (done.returncode, "collides with reservation demo" in done.stderr) == (3, True)
    done = pool.run("reservation", "create", "past", "--start", "2020-01-01T00:00", "--for", "1h")
    assert (done.returncode, "is in the past" in done.stderr) == (2, True)
    assert pool.do("reservation", "delete", "demo") == "demo ended\n"
    assert pool.json("reservation", "list") == []
