"""What a kill between two steps of a start or a purge leaves behind, and who clears it away."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.agent.jobs.start import start_supervisor_once
from gpupool.agent.supervisor import client, job_state, orphan_processes
from gpupool.agent.supervisor.cgroups import detect_cgroups, find_job_cgroups
from gpupool.agent.supervisor.pool_cgroups import remove_pool
from tests.faults.pool import FaultPool, Supervisor, kill, until
from tests.support.supervised import Jobs, supervised_jobs

#: Of this process: cgroups are the machine's, and another run of the tests may be on it.
POOL = f"p-crumbs-{os.getpid()}"


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    tmp_path.chmod(0o755)
    yield from supervised_jobs(tmp_path)


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[FaultPool]:
    with FaultPool(tmp_path / "state", sim="1xT4") as made:
        yield made


@pytest.mark.root
def test_cgroups_of_a_supervisor_killed_before_its_command_began_are_removed(jobs: Jobs) -> None:
    groups = find_job_cgroups(detect_cgroups(), POOL, "j-crumbs")
    assert groups, "this machine has no cgroups to leave behind"
    job_dir = jobs.write("true", job_id="j-crumbs", cgroups=groups)
    for group in groups:
        Path(group).mkdir(parents=True)  # as far as the supervisor came
    try:
        orphan_processes.remove_cgroups(job_dir)
        assert [group for group in groups if Path(group).exists()] == []
        orphan_processes.remove_cgroups(job_dir)
    finally:
        remove_pool(detect_cgroups(), POOL)


def test_a_finished_job_without_its_description_has_nothing_to_reap(jobs: Jobs) -> None:
    job_dir = jobs.write("true")
    client.start_supervisor(job_dir)
    jobs.end_all()
    (job_dir / "spec").unlink()
    assert orphan_processes.reap_orphans(job_dir) == orphan_processes.ReapResult(0, ())


def test_a_start_whose_caller_was_killed_is_known_by_its_directory(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_dir = jobs.write("sleep", "60")

    def killed_after_the_start(directory: Path) -> job_state.JobStatus:
        client.start_supervisor(directory)
        raise client.SupervisorError("the supervisor could not start (status -9): ")

    monkeypatch.setattr("gpupool.agent.jobs.start.start_supervisor", killed_after_the_start)
    assert start_supervisor_once(job_dir).state is job_state.JobState.RUNNING


@pytest.mark.root
def test_a_purge_after_finished_jobs_and_an_interrupted_start_leaves_nothing(
    pool: FaultPool,
) -> None:
    pool.up()
    assert pool.cli("run", "--gpu", "0.1", "--memory", "1GiB", "--", "true").returncode == 0
    for name in ("gpupool.db.new", "gpupool.db.new-wal"):
        shutil.copy(pool.paths.database, pool.paths.root / name)
    done = pool.cli("down", "--purge", "--yes")
    assert (done.returncode, done.stderr) == (0, done.stderr)
    assert "Traceback" not in done.stdout + done.stderr
    assert not pool.paths.root.exists()


@pytest.mark.root
def test_cgroups_of_a_killed_pool_whose_directory_is_removed_go_with_the_next_start(
    pool: FaultPool, tmp_path: Path
) -> None:
    """A process keeps the groups until doctor has been asked: any other pool that starts here
    removes empty ones."""
    with (
        FaultPool(tmp_path / "lost", sim="1xT4") as lost,
        subprocess.Popen(["sleep", "600"]) as held,
    ):
        lost.up()
        groups = killed_with_its_job(lost)
        (groups[0] / "cgroup.procs").write_text(str(held.pid))
        shutil.rmtree(lost.paths.root)
        assert (
            f"processes of the pool at {tmp_path / 'lost'}, which is gone, still run: 1"
            in pool.cli("doctor").stdout
        )
        held.kill()
    pool.up()
    assert [group for group in groups if group.exists()] == []
    assert f"{tmp_path / 'lost'}" not in pool.cli("doctor").stdout


@pytest.mark.root
def test_a_purge_after_a_kill_removes_groups_of_jobs_whose_directory_is_gone(
    pool: FaultPool,
) -> None:
    pool.up()
    groups = killed_with_its_job(pool)
    shutil.rmtree(pool.paths.jobs)
    done = pool.cli("down", "--purge", "--yes")
    assert done.returncode == 0, done.stderr
    assert [group for group in groups if group.exists()] == []


def _alone(pool: FaultPool) -> list[Supervisor]:
    """The supervisor once its command runs; none while it forks."""
    found = pool.supervisors()
    return found if len(found) == 1 and pool.command_pid(found[0].job) else []


def killed_with_its_job(pool: FaultPool) -> list[Path]:
    """Kill a pool with a running job, and the job; the pool's cgroups, in which the job's are
    left."""
    assert (
        pool.cli("submit", "--gpu", "0.1", "--memory", "1GiB", "--", "sleep", "600").returncode == 0
    )
    (job,) = until(lambda: _alone(pool), "a running job with the one process of its supervisor")
    pool.kill_server()
    kill(job.pid)
    until(lambda: pool.command_pid(job.job) is None, "the job's death")
    groups = pool.pool_cgroups()
    assert {path.name for group in groups for path in group.iterdir() if path.is_dir()} == {job.job}
    return groups
