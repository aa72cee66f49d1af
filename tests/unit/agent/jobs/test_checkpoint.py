"""What an agent writes down of a job, and what it keeps when the job is over."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gpupool.agent.jobs.checkpoint import Checkpoint, JobDirectories
from gpupool.base.errors import StateNewer
from tests.support.deep_trees import few_frames, make_deep_tree

ONE = Checkpoint("a-0000000001", 7, "j-0000000001", "share", True)


@pytest.fixture
def directories(tmp_path: Path) -> JobDirectories:
    return JobDirectories(tmp_path / "agent" / "jobs", shared=False)


def test_what_was_written_is_read_back_and_found(directories: JobDirectories) -> None:
    path = directories.write_checkpoint(ONE)
    assert directories.read_checkpoint(ONE.job) == ONE
    (found,) = directories.list_unfinished()
    assert (found.directory, found.checkpoint) == (path, ONE)


def test_a_later_allocation_of_the_same_job_replaces_the_earlier(
    directories: JobDirectories,
) -> None:
    directories.write_checkpoint(ONE)
    later = Checkpoint("a-0000000002", 9, ONE.job, "share", True)
    directories.write_checkpoint(later)
    assert [found.checkpoint for found in directories.list_unfinished()] == [later]


def test_a_finished_job_keeps_its_log_and_records_and_no_secret(
    directories: JobDirectories,
) -> None:
    path = directories.write_checkpoint(ONE)
    for name in ("spec", "spec.tmp", "sock", "log.0", "exit", "started"):
        (path / name).write_text("x")
    directories.finish_job(ONE.job)
    assert sorted(entry.name for entry in path.iterdir()) == ["exit", "log.0", "started"]
    assert not list(directories.list_unfinished())
    directories.finish_job(ONE.job)


@pytest.mark.parametrize("verb", ["finish_job", "remove_job", "remove_old_jobs"])
def test_directories_that_a_job_made_inside_one_another_are_removed(
    directories: JobDirectories, verb: str
) -> None:
    path = directories.write_checkpoint(ONE)
    if verb == "remove_old_jobs":
        (path / "allocation.json").unlink()
    make_deep_tree(path / "run")
    with few_frames():
        if verb == "remove_old_jobs":
            directories.remove_old_jobs(1e18)
        else:
            getattr(directories, verb)(ONE.job)
    assert not (path / "run").exists()


def test_a_job_that_never_ran_leaves_no_directory(directories: JobDirectories) -> None:
    path = directories.write_checkpoint(ONE)
    (path / "deeper").mkdir()
    (path / "deeper" / "file").write_text("x")
    directories.remove_job(ONE.job)
    directories.remove_job(ONE.job)
    assert not path.exists()


def test_a_directory_made_just_before_a_kill_is_swept_away(directories: JobDirectories) -> None:
    empty = directories.path("j-0000000002")
    empty.mkdir()
    torn = directories.path("j-0000000003")
    torn.mkdir()
    (torn / "allocation.json.new").write_text("{")
    logged = directories.path("j-0000000004")
    logged.mkdir()
    (logged / "log.0").write_text("kept")
    assert list(directories.list_unfinished()) == []
    assert (empty.exists(), torn.exists(), logged.exists()) == (False, False, True)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"version": 1}', '{"version": 1, "strange": 2}']
)
def test_a_damaged_checkpoint_is_found_as_one_that_says_nothing(
    directories: JobDirectories, text: str
) -> None:
    path = directories.write_checkpoint(ONE)
    (path / "allocation.json").write_text(text)
    (found,) = directories.list_unfinished()
    assert (found.directory, found.checkpoint) == (path, None)
    assert found.damaged is not None
    assert found.damaged.code == "GP-5037"


def test_a_checkpoint_of_a_newer_version_is_refused_and_not_touched(
    directories: JobDirectories,
) -> None:
    path = directories.write_checkpoint(ONE) / "allocation.json"
    entry = {**json.loads(path.read_text()), "version": 2, "new": "field"}
    path.write_text(json.dumps(entry))
    with pytest.raises(StateNewer, match="newer gpupool"):
        list(directories.list_unfinished())
    assert json.loads(path.read_text()) == entry


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", "a\0b"])
def test_a_job_whose_name_is_a_path_is_refused(directories: JobDirectories, name: str) -> None:
    with pytest.raises(ValueError, match="not a job id"):
        directories.path(name)


def test_a_shared_pools_directories_can_be_passed_through_and_not_listed(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        shared = JobDirectories(tmp_path / "agent" / "jobs", shared=True)
        path = shared.write_checkpoint(ONE)
    finally:
        os.umask(before)
    assert {p.stat().st_mode & 0o777 for p in (path, path.parent, path.parent.parent)} == {0o711}


def test_old_finished_jobs_are_removed_and_unfinished_ones_never(
    directories: JobDirectories,
) -> None:
    ends = {"j-000000000a": 100.0, "j-000000000b": 200.0, "j-000000000c": 300.0}
    for job, end in ends.items():
        path = directories.path(job)
        path.mkdir()
        os.utime(path, (end, end))
    os.utime(directories.write_checkpoint(ONE), (1.0, 1.0))
    assert directories.remove_old_jobs(350.0, seconds=200.0) == 1
    assert directories.remove_old_jobs(350.0, seconds=200.0, jobs=1) == 1
    assert [directories.path(job).exists() for job in ends] == [False, False, True]
    assert directories.read_checkpoint(ONE.job) == ONE


def test_an_old_job_that_cannot_be_removed_keeps_no_other(
    directories: JobDirectories, tmp_path: Path
) -> None:
    """Before, an agent with one did not start: it removes old jobs first."""
    elsewhere = tmp_path / "moved-by-hand"
    elsewhere.mkdir()
    directories.path("j-000000000a").symlink_to(elsewhere)
    for job in ("j-0000000009", "j-000000000b"):
        directories.path(job).mkdir()
    assert directories.remove_old_jobs(1e18) == 2
    assert elsewhere.is_dir()


def test_another_run_of_a_job_begins_with_the_log_alone(directories: JobDirectories) -> None:
    path = directories.write_checkpoint(ONE)
    for name in ("spec", "sock", "log.0000000000000000", "exit", "started"):
        (path / name).write_text("x")
    directories.clear_earlier_run(ONE)
    assert (path / "exit").exists(), "the directory is this allocation's own"
    directories.clear_earlier_run(Checkpoint("a-0000000002", 9, ONE.job, "share", True))
    assert [entry.name for entry in path.iterdir()] == ["log.0000000000000000"]
    assert list(directories.list_unfinished()) == []


def test_a_job_that_was_never_here_has_nothing_to_remove(directories: JobDirectories) -> None:
    directories.clear_earlier_run(ONE)
    assert not directories.path(ONE.job).exists()
