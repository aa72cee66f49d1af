"""The Slurm beside which we are measured: it really runs jobs, and leaves nothing behind."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bench.slurm_peer import (
    PeerFailedError,
    PeerMissingError,
    _await,
    _missing,
    ensure_installed,
    leftovers,
    slurm_cluster,
    time_array,
    time_sbatch,
    time_srun,
)

REPOSITORY = Path(__file__).parents[2]
needs_slurm = pytest.mark.skipif(
    os.geteuid() != 0 or bool(_missing()), reason="needs root and Debian's Slurm packages"
)


@pytest.mark.slow
@needs_slurm
def test_jobs_run_are_measured_and_nothing_is_left(tmp_path: Path) -> None:
    with slurm_cluster(tmp_path, gpus=2) as slurm:
        assert slurm.srun("--gres=gpu:2", "printenv", "SLURM_GPUS_ON_NODE").strip() == "2"
        assert len(time_srun(slurm, n=2).samples_seconds) == 2
        assert len(time_sbatch(slurm, n=3).samples_seconds) == 3
        assert time_array(slurm, n=30, gres="shard:1").median_seconds > 0
        with pytest.raises(PeerFailedError, match="gpu:3"):
            slurm.sbatch("--gres=gpu:3", "--wrap=true")
        assert leftovers(tmp_path)
    assert not leftovers(tmp_path)


@pytest.mark.slow
@needs_slurm
def test_jobs_still_running_end_with_the_cluster(tmp_path: Path) -> None:
    with slurm_cluster(tmp_path, gpus=1) as slurm:
        job = slurm.sbatch("--gres=gpu:1", "--wrap=exec tail -f /dev/null")
        _await("the job to run", lambda: slurm.states(job)["RUNNING"] == 1, 30)
    assert not leftovers(tmp_path)


@pytest.mark.slow
@needs_slurm
def test_the_daemons_end_when_the_bench_is_killed(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib, signal; from bench.slurm_peer import slurm_cluster\n"
        "with slurm_cluster(pathlib.Path(sys.argv[1])): print('up', flush=True); signal.pause()"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, cwd=REPOSITORY
    )
    assert owner.stdout is not None
    assert owner.stdout.readline() == b"up\n"
    daemons = [os.pidfd_open(pid) for pid in leftovers(tmp_path) if pid != owner.pid]
    assert len(daemons) >= 3
    owner.send_signal(signal.SIGKILL)
    owner.communicate()
    assert all(_has_ended(daemon) for daemon in daemons)


def test_without_root_the_peer_is_missing_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(PeerMissingError, match="run the bench as root"):
        ensure_installed()


def _has_ended(pidfd: int) -> bool:
    try:
        return bool(select.select([pidfd], [], [], 20)[0])
    finally:
        os.close(pidfd)
