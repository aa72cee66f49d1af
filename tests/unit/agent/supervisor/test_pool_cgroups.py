"""The cgroups of a whole pool: whose they are, and who removes them. On the host's real
hierarchies."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpupool.agent.cleanup import end_every_job
from gpupool.agent.supervisor import pool_cgroups
from gpupool.agent.supervisor.cgroups import (
    PARENT_PREFIX,
    CgroupSupport,
    detect_cgroups,
    find_job_cgroups,
    kill_members,
)
from gpupool.base import instance
from gpupool.base.settings import PoolPaths
from gpupool.host import facts
from tests.support.supervised import SECONDS

POOL = f"testgroups{os.getpid()}"


def below(support: CgroupSupport, name: str) -> CgroupSupport:
    """The same hierarchies with a group of the test as their base.

    Any pool that starts on this machine removes abandoned groups from the common base.
    """
    own = [replace(found, base=found.base / name) for found in support.hierarchies]
    return replace(support, hierarchies=tuple(own))


SUPPORT = below(detect_cgroups(), POOL)
pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(SUPPORT.kind == "none", reason=f"no cgroup to write: {SUPPORT.refusals}"),
]


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """The state directory of a pool whose groups are marked and hold the empty groups of one
    job."""
    root = tmp_path / "state"
    root.mkdir()
    for found in SUPPORT.job_hierarchies:
        found.base.mkdir()
    instance.claim_directory(root)
    pool_cgroups.mark_pool(SUPPORT, POOL, root)
    for path in find_job_cgroups(SUPPORT, POOL, "j-one"):
        Path(path).mkdir()
    yield root
    pool_cgroups.purge_pool(SUPPORT, POOL)
    assert left() == []
    for found in SUPPORT.job_hierarchies:
        found.base.rmdir()


def left(job: str = "") -> list[Path]:
    groups = [found.base / f"{PARENT_PREFIX}{POOL}" / job for found in SUPPORT.job_hierarchies]
    return [group for group in groups if group.exists()]


def abandoned() -> list[pool_cgroups.AbandonedPool]:
    return list(pool_cgroups.find_abandoned(SUPPORT))


def test_groups_of_a_pool_that_is_there_are_left_alone(state: Path) -> None:
    assert abandoned() == []
    pool_cgroups.remove_abandoned(SUPPORT)
    assert len(left("j-one")) == len(SUPPORT.job_hierarchies)


def test_groups_of_a_pool_whose_directory_is_gone_are_removed(state: Path) -> None:
    shutil.rmtree(state)
    (found,) = abandoned()
    assert (found.root, found.processes, len(found.groups)) == (
        str(state),
        (),
        len(SUPPORT.job_hierarchies),
    )
    pool_cgroups.remove_abandoned(SUPPORT)
    assert left() == []
    pool_cgroups.remove_abandoned(SUPPORT)


def test_doctor_names_groups_and_processes_of_a_pool_that_is_gone(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "detect_cgroups", lambda: SUPPORT)
    assert list(facts.find_leftovers()) == []
    shutil.rmtree(state)
    (empty,) = facts.find_leftovers()
    assert (
        empty["text"]
        == f"{len(SUPPORT.job_hierarchies)} empty cgroups of the pool at {state}, which is gone"
    )
    assert empty["next"] == "gpupool up  removes them"
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            (left("j-one")[0] / "cgroup.procs").write_text(str(process.pid))
            (running,) = facts.find_leftovers()
            assert (
                running["text"] == f"processes of the pool at {state}, which is gone, still run: 1"
            )
            assert running["next"] == f"kill {process.pid}"
        finally:
            process.kill()


def test_groups_of_an_earlier_pool_in_the_same_directory_are_abandoned(state: Path) -> None:
    (state / instance.FILE).unlink()
    instance.claim_directory(state)
    assert [one.root for one in abandoned()] == [str(state)]


def test_groups_of_a_damaged_directory_are_left_alone(state: Path) -> None:
    (state / instance.FILE).write_text("{")
    assert abandoned() == []


def test_groups_marked_in_another_mount_namespace_are_left_alone(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(state)
    monkeypatch.setattr(pool_cgroups, "_mount_namespace", lambda: "mnt:[1]")
    assert abandoned() == []


def test_a_process_of_a_pool_that_is_gone_is_named_and_not_ended(state: Path) -> None:
    enter = "; ".join(f"echo $$ > {path}/cgroup.procs" for path in left("j-one"))
    process = subprocess.Popen(
        ["sh", "-c", f"{enter}; echo; exec sleep 600"], stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        shutil.rmtree(state)
        pool_cgroups.remove_abandoned(SUPPORT)
        assert [one.processes for one in abandoned()] == [(process.pid,)]
        assert len(left("j-one")) == len(SUPPORT.job_hierarchies)
        assert process.poll() is None
        kill_members(map(str, left("j-one")))
        assert process.wait(SECONDS) == -9
        pool_cgroups.remove_abandoned(SUPPORT)
        assert left() == []
    finally:
        process.kill()
        process.wait(SECONDS)


def test_a_purge_ends_what_is_left_with_groups_that_a_job_made_itself(state: Path) -> None:
    (below := left("j-one")[0] / "own").mkdir()
    process = subprocess.Popen(
        ["sh", "-c", f"echo $$ > {below.parent}/cgroup.procs; exec sleep 600"]
    )
    try:
        while not pool_cgroups.list_all_members(below.parent):
            assert process.poll() is None
        pool_cgroups.remove_pool(SUPPORT, POOL)
        assert below.exists(), "a group of a running job stays as the job made it"
        pool_cgroups.purge_pool(SUPPORT, POOL)
        assert process.wait(SECONDS) == -9
        assert left() == []
    finally:
        process.kill()
        process.wait(SECONDS)


def test_strays_of_ended_jobs_are_removed_and_those_of_held_ones_stay(state: Path) -> None:
    for path in find_job_cgroups(SUPPORT, POOL, "j-held"):
        Path(path).mkdir()
    pool_cgroups.remove_strays(SUPPORT, POOL, {"j-held"})
    assert left("j-one") == []
    assert len(left("j-held")) == len(SUPPORT.job_hierarchies)


def test_a_purge_leaves_the_groups_of_another_instance_of_the_pool(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pool that was restored from a backup beside the original has the original's id."""
    monkeypatch.setattr("gpupool.agent.cleanup.detect_cgroups", lambda: SUPPORT)
    restored = tmp_path / "restored"
    restored.mkdir()
    instance.claim_directory(restored)
    names = [pool_cgroups.make_group_name(POOL, root) for root in (state, restored)]
    assert names[0] != names[1]
    paths = [Path(find_job_cgroups(SUPPORT, name, "j-one")[0]) for name in names]
    for path in paths:
        path.mkdir(parents=True)
    with subprocess.Popen(["sleep", str(SECONDS)]) as original:
        try:
            (paths[0] / "cgroup.procs").write_text(str(original.pid))
            end_every_job(PoolPaths(restored), POOL)
            assert original.poll() is None
            assert [path.exists() for path in paths] == [True, False]
        finally:
            original.kill()
            original.wait()
            pool_cgroups.purge_pool(SUPPORT, names[0])
