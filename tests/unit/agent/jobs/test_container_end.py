"""What the exit code of Podman means."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpupool.agent.jobs.container_end import (
    clear_container,
    explain_container_end,
    find_podman_error,
)
from gpupool.agent.supervisor.client import ExitRecord

ENDED = ExitRecord(
    state="ended", reason="exited", exit_code=125, signal=None, core_dumped=False, errno=None, stage="",
    message="", started_ns=1, ended_ns=2, started_boot_ns=1, ended_boot_ns=2, user_us=0, system_us=0,
    max_rss_bytes=0, memory_peak_bytes=None, log_bytes=0, lost_bytes=0, share="", share_refused="",
    leftover=0,
)  # fmt: skip


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "container").mkdir()
    (tmp_path / "log.0000000000000000").write_text("pulling\nError: a:1: image not known\n")
    return tmp_path


@pytest.mark.parametrize(
    ("code", "meaning"),
    [
        (125, "Podman could not start the container: a:1: image not known"),
        (126, "the container's command cannot be executed: a:1: image not known"),
        (127, "the container's command was not found: a:1: image not known"),
    ],
)
def test_where_no_command_began_the_reason_is_podmans(
    directory: Path, code: int, meaning: str
) -> None:
    assert explain_container_end(replace(ENDED, exit_code=code), directory).message == meaning


def test_a_code_of_the_command_itself_is_left_alone(directory: Path) -> None:
    (directory / "container/pid").write_text("1")
    assert explain_container_end(ENDED, directory) == ENDED


def test_other_codes_and_jobs_without_a_container_are_left_alone(
    directory: Path, tmp_path: Path
) -> None:
    other = replace(ENDED, exit_code=1)
    assert explain_container_end(other, directory) == other
    (directory / "container").rmdir()
    assert explain_container_end(ENDED, directory) == ENDED


def test_without_a_word_of_podman_only_the_meaning_is_said(directory: Path) -> None:
    (directory / "log.0000000000000000").unlink()
    found = explain_container_end(ENDED, directory)
    assert found.message == "Podman could not start the container"


def test_the_last_error_counts() -> None:
    assert find_podman_error("Error: one\nx\nError: two\nlast\n") == "two"
    assert find_podman_error("no error") == ""


def test_clearing_a_job_without_a_container_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "spec").write_text("x")
    clear_container(tmp_path, "j-1")
    assert [entry.name for entry in tmp_path.iterdir()] == ["spec"]


def test_files_of_a_container_that_never_started_are_removed(directory: Path) -> None:
    (directory / "container-settings/hooks").mkdir(parents=True)
    clear_container(directory, "j-1")
    assert not list(directory.glob("container*"))
    clear_container(directory, "j-1")
