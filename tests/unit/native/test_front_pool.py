"""The front door with a real pool behind it: everything between the typed line and the freed share
is the product's."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.supervised import until
from tests.unit.native.front_pool import FELL_BACK, python_command, script

SHARE = ["--gpu", "0.1", "--memory", "1GiB"]


@dataclass
class Place:
    """A pool of one simulated card, the front door, and Python to look from beside."""

    front: Path
    python: Path
    state_dir: Path

    def __call__(
        self, program: Path, *words: str, **settings: Any
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(program), "--state-dir", str(self.state_dir), *words],
            capture_output=True, text=True, check=False, timeout=60, stdin=subprocess.DEVNULL, **settings,
        )  # fmt: skip

    def jobs(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(
            self(self.python, "ps", "--all", "-o", "json").stdout
        )
        return found

    def job(self, name: str) -> dict[str, Any]:
        return next(job for job in self.jobs() if job["name"] == name)

    def background(self, words: Sequence[str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(self.front), "--state-dir", str(self.state_dir), *words],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip


@pytest.fixture(scope="module")
def place(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    root = tmp_path_factory.mktemp("place")
    script(root / "python-gpupool", python_command())
    place = Place(built / "gpupool", root / "python-gpupool", root / "pool")
    started = place(place.python, "up", "--sim", "L40S", "-d")
    assert started.returncode == 0, started.stderr
    yield place
    assert place(place.python, "down", "--purge", "--yes").returncode == 0


def test_run_passes_bytes_and_exit_code_and_leaves_the_share_free(place: Place) -> None:
    done = place(
        place.front,
        "run",
        *SHARE,
        "--name",
        "front",
        "--",
        "sh",
        "-c",
        "echo out; echo err >&2; exit 3",
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")
    job = place.job("front")
    assert (job["state"], job["exit_code"], job["gpu_milli"]) == ("failed", 3, 100)


def test_submit_prints_an_id_that_the_pool_knows(place: Place) -> None:
    done = place(place.front, "submit", *SHARE, "--name", "handed", "true")
    assert (done.returncode, done.stderr) == (0, "")
    until(lambda: place.job("handed")["state"] == "done", "the end of the job")
    assert place.job("handed")["id"] == done.stdout.strip()
    array = place(place.front, "submit", *SHARE, "--array", "2", "--name", "sweep", "true")
    assert array.stdout == "sweep\n"
    shown = json.loads(place(place.front, "submit", *SHARE, "-o", "json", "true").stdout)
    assert shown["first"]["share"] == "0.10 GPU (10 % compute) + 1024 MiB"


def test_refusals_are_those_that_python_prints(place: Place) -> None:
    until(
        lambda: all(job["ended_ns"] for job in place.jobs()),
        "an idle pool, so that what fits now stays the same",
    )
    for words in (
        ["run", "--gpu", "1", "--memory", "999GiB", "true"],
        ["run", "--model", "H2000", "true"],
        ["submit", "--tenant", "nobody", "true"],
        ["submit", "--priority", "urgent", "true"],
    ):
        front, python = place(place.front, *words), place(place.python, *words)
        assert front.returncode != FELL_BACK
        assert (front.returncode, front.stdout, front.stderr) == (
            python.returncode,
            python.stdout,
            python.stderr,
        )
        assert front.returncode in (2, 3, 5)


def test_ctrl_c_while_it_waits_ends_the_job(place: Place) -> None:
    holder = place.background(
        ["run", "--name", "holder", "--", "sh", "-c", "echo up; exec sleep 60"]
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "up\n"
    waiter = place.background(["run", "--name", "waiter", "--", "true"])
    assert waiter.stderr is not None
    assert waiter.stderr.readline().startswith("gpupool: waiter waits: ")
    waiter.send_signal(signal.SIGINT)
    assert waiter.wait(20) == 130
    assert place.job("waiter")["state"] == "stopped"
    assert place.job("holder")["state"] == "running"
    holder.send_signal(signal.SIGTERM)
    assert holder.wait(20) == 128 + signal.SIGTERM
    assert place.job("holder")["state"] != "running"


def test_a_job_that_waits_starts_when_its_turn_comes(place: Place) -> None:
    holder = place.background(
        ["run", "--name", "first", "--", "sh", "-c", "echo up; exec sleep 60"]
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "up\n"
    waiter = place.background(["run", "-v", "--", "echo", "mine"])
    assert waiter.stderr is not None
    assert " waits: " in waiter.stderr.readline()
    assert place(place.python, "stop", "first").returncode == 0
    out, err = waiter.communicate(timeout=30)
    assert (waiter.returncode, out) == (0, "mine\n")
    assert "1.00 GPU (100 % compute)" in err
    holder.communicate(timeout=20)
    assert holder.returncode != 0
