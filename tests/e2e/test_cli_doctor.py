"""`doctor --fence` and `verify --calibrate` on a real pool of simulated cards; nothing is left
behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.gpu.__main__ import HERE, build
from gpupool.base.client_settings import client_settings
from gpupool.client.transport import Api
from gpupool.probes.simgpu import SimulatedMachine
from gpupool.verification import self_check
from gpupool.verification.bench import VerificationBench
from gpupool.verification.verification_job import VerificationJob
from tests.e2e.pool_fixture import RealPool

ROWS = [
    "limit seen",
    "limit enforced",
    "process registered",
    "time counted",
    "cuda runtime",
    "cuda runtime",
]


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPool]:
    place = tmp_path_factory.mktemp("doctor")
    for part in (place, *place.parents):
        if part != Path("/") and os.access(part, os.W_OK) and part.stat().st_uid == os.getuid():
            part.chmod(part.stat().st_mode | 0o111)
    with RealPool(place / "pool", sim="1xL40S") as running:
        yield running


@pytest.fixture(autouse=True)
def _nothing_is_left(pool: RealPool) -> Iterator[None]:
    yield
    assert pool.json("ps", "--live") == []
    assert pool.held_milli() == 0


def test_the_fence_is_tried_and_each_promise_is_a_row_with_its_figures(pool: RealPool) -> None:
    checks = pool.json("doctor", "--fence")["checks"]
    tried = [one for one in checks if one["name"] in ROWS]
    assert [(one["name"], one["state"]) for one in tried] == [(name, "ok") for name in ROWS], tried
    assert "the driver shows 1024 MiB on sim-0:0" in tried[0]["text"]
    assert "CUDA_ERROR_OUT_OF_MEMORY" in tried[1]["text"]
    assert [one["text"].split("/")[-1].split()[0] for one in tried[4:]] == [
        "libcudart.so.12",
        "libcudart.so.13",
    ]
    assert "gpupool's own" in tried[4]["text"]


def test_without_the_option_nothing_runs(pool: RealPool) -> None:
    before = len(pool.json("ps", "--all"))
    names = {one["name"] for one in pool.json("doctor")["checks"]}
    assert not names & {*ROWS, "fence tried"}
    assert len(pool.json("ps", "--all")) == before


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_ends_what_it_started(pool: RealPool, how: signal.Signals) -> None:
    process = pool.start("doctor", "--fence")
    pool.until(
        lambda: any(job["state"] == "running" for job in pool.json("ps", "--live")), "its job"
    )
    process.send_signal(how)
    assert process.wait(60) == 130


class CutShort(Api):
    """Whose user presses Ctrl-C when the pool has made the job and not yet said so."""

    def request(self, method: str, path: str, *words: Any, **options: Any) -> Any:
        told = super().request(method, path, *words, **options)
        if (method, path) == ("POST", "jobs"):
            raise KeyboardInterrupt
        return told

    def another(self) -> Api:
        return Api(client_settings(state_dir=self.settings.state_dir))


def test_interrupted_before_it_was_told_of_its_job_it_ends_that_too(pool: RealPool) -> None:
    before = len(pool.json("ps", "--all"))
    with (
        pytest.raises(KeyboardInterrupt),
        VerificationBench(CutShort(client_settings(state_dir=str(pool.state_dir)))) as bench,
    ):
        bench.submit_program("holds", ["sleep", "600"], 100, 1 << 30)
    assert len(pool.json("ps", "--all")) == before + 1


def test_where_there_is_no_room_it_says_so_and_blames_no_fence(pool: RealPool) -> None:
    pool.do("submit", "--gpu", "1", "--name", "holds", "--", "sleep", "600")
    try:
        pool.until_state("holds", "running")
        done = pool.run("doctor", "--fence", "-o", "json")
        (tried,) = [
            one for one in json.loads(done.stdout)["checks"] if one["name"] == "fence tried"
        ]
        assert (done.returncode, tried["state"]) == (0, "warn"), tried
    finally:
        pool.do("stop", "holds", "--grace", "0")
        pool.until_state("holds", "stopped")


def test_without_a_pool_there_is_nothing_to_try(pool: RealPool, tmp_path: Path) -> None:
    done = pool.run("doctor", "--fence", "--state-dir", str(tmp_path / "none"))
    assert done.returncode == 1
    assert "no pool answers" in done.stdout


class Unfenced(VerificationBench):
    """All jobs with the option --no-fence: a fence that does nothing."""

    def _submit_launch(self, *words: Any, **options: Any) -> VerificationJob:
        return super()._submit_launch(*words, **{**options, "fence": False})


def test_every_row_fails_for_a_share_that_nothing_holds(
    pool: RealPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(self_check, "_PATIENCE_SECONDS", 1.0)
    with Unfenced(Api(client_settings(state_dir=str(pool.state_dir)))) as bench:
        found = self_check.check_share(bench)
    assert [(one.title, one.kept) for one in found] == [(name, False) for name in ROWS[:4]], found


CHECKS_ITS_DRIVER = r"""
#include <stdio.h>
#include <unistd.h>
static int fenced(void)
{
    char own[64];
    snprintf(own, sizeof own, "/tmp/gpupool-%d/share/limits", (int)getuid());
    return !access("/run/gpupool/share/limits", F_OK) || !access(own, F_OK);
}
int cudaRuntimeGetVersion(int *version) { *version = 12080; return 0; }
int cudaGetDeviceCount(int *count) { *count = 1; return ALWAYS || fenced() ? 103 : 0; }
int cudaFree(void *pointer) { (void)pointer; return 0; }
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
@pytest.mark.parametrize(
    ("always", "kept", "without"), [(0, False, "none without"), (1, None, "the same without")]
)
def test_error_103_is_the_fences_fault_only_where_it_is_not_there_without(
    pool: RealPool, always: int, kept: bool | None, without: str
) -> None:
    """A runtime that refuses to start where it finds a fence: what the vendor's would do if it saw
    ours."""
    path = pool.state_dir.parent / f"libcudart-{always}.so"
    command = ["cc", "-shared", "-fPIC", f"-DALWAYS={always}", "-x", "c", "-", "-o", path]
    subprocess.run(command, input=CHECKS_ITS_DRIVER, text=True, check=True)
    api = Api(client_settings(state_dir=str(pool.state_dir)))
    with VerificationBench(api, purpose="doctor") as bench:
        found = self_check.check_runtime(bench, str(path), simulated=False)
    assert found.kept is kept, found
    assert (
        "cudaGetDeviceCount says 103 (cudaErrorSoftwareValidityNotEstablished) under the fence"
        in found.measured
    )
    assert found.measured.endswith(without)


def test_what_is_measured_of_a_simulated_card_is_what_its_machine_says_and_the_fence_charges_it(
    pool: RealPool, tmp_path: Path
) -> None:
    file = tmp_path / "calibration.json"
    told = json.loads(pool.do("verify", "--calibrate", str(file), "-o", "json"))
    with SimulatedMachine(next((pool.state_dir / "agent/simgpu").glob("*/machine"))) as machine:
        (card,) = machine.cards
    wanted = {"context_bytes": card.context_bytes, "granule_bytes": card.granule_bytes}
    assert {name: told["measured"][name] for name in wanted} == wanted
    assert told["in_use"] == wanted
    entry = json.loads(file.read_text())
    assert entry == {"version": 1, "cards": {"L40S": told["measured"]}}
    shown = pool.do("verify", "sim-0:0", "--calibrate", str(file))
    assert f"a context            {card.context_bytes >> 20} MiB" in shown


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
def test_the_bench_of_a_card_writes_the_same_file(pool: RealPool, tmp_path: Path) -> None:
    by_verify, by_bench = tmp_path / "verify.json", tmp_path / "bench.json"
    pool.do("verify", "--calibrate", str(by_verify))
    launches = build(tmp_path / "launches", HERE / "launches.c")
    code = "import sys, pathlib as p; from bench.gpu.calibrate import calibrate as c; c(*map(p.Path, sys.argv[1:]))"
    words = [sys.executable, "-c", code, str(launches), str(by_bench)]
    done = pool.run("run", "--gpu", "1", "--", *words, environ={"PYTHONPATH": str(HERE.parents[1])})
    assert done.returncode == 0, done.stderr
    mine, theirs = (json.loads(file.read_text())["cards"]["L40S"] for file in (by_verify, by_bench))
    assert {name: theirs[name] for name in mine} == mine
    assert theirs["launch_ns"] > 0
