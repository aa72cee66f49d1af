"""The scripts of JupyterLab and VS Code, run by a real shell with stand-ins of both."""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path

import pytest

from gpupool.model.workspaces.programs import JUPYTER, PROGRAMS, VSCODE, WorkspaceProgram

#: Prints where it is and what it was told, one word a line.
STAND_IN = '#!/bin/sh\npwd\nprintf "%s\\n" "$@"\n'
USUAL = "/usr/bin:/bin"


def start(
    program: WorkspaceProgram, tmp_path: Path, directory: str, *installed: str
) -> subprocess.CompletedProcess[str]:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in installed:
        (folder / name).write_text(STAND_IN)
        (folder / name).chmod(0o755)
    run = tmp_path / "run"
    run.mkdir()
    environ = {"PATH": f"{folder}:{USUAL}", "GPUPOOL_RUN": str(run), "GPUPOOL_JOB": "j-1"}
    return subprocess.run(
        program.make_argv(directory),
        env=environ, cwd="/", capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_jupyterlab_listens_on_its_socket_and_its_token_is_in_a_file(tmp_path: Path) -> None:
    work = tmp_path / "a b"
    work.mkdir()
    done = start(JUPYTER, tmp_path, str(work), "jupyter-lab")
    lines = done.stdout.splitlines()
    assert lines[0] == str(work)
    assert f"--ServerApp.sock={tmp_path}/run/nb.sock" in lines
    assert "--ServerApp.base_url=/jobs/j-1/nb/" in lines
    token = tmp_path / "run" / "nb.token"
    assert len(token.read_text()) == 64
    assert token.stat().st_mode & 0o777 == 0o600
    assert token.read_text() not in done.stdout


@pytest.mark.parametrize(
    ("name", "option", "is_at_root"),
    [
        ("code-server", "--socket", True),
        ("openvscode-server", "--server-base-path", False),
    ],
)
def test_vscode_is_told_its_prefix_or_has_it_cut_off(
    tmp_path: Path, name: str, option: str, is_at_root: bool
) -> None:
    done = start(VSCODE, tmp_path, str(tmp_path), name)
    assert option in done.stdout.splitlines()
    assert f"{tmp_path}/run/vscode.sock" in done.stdout.splitlines()
    assert (tmp_path / "run" / "vscode.root").exists() is is_at_root


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.name)
def test_a_program_that_is_missing_is_named(tmp_path: Path, program: WorkspaceProgram) -> None:
    done = start(program, tmp_path, "/")
    assert done.returncode == 127
    assert all(name in done.stderr for name in program.programs)


def test_without_a_directory_it_is_the_home_of_the_account(tmp_path: Path) -> None:
    done = start(JUPYTER, tmp_path, "", "jupyter-lab")
    assert done.stdout.splitlines()[0] == os.path.realpath(pwd.getpwuid(os.getuid()).pw_dir)


def test_a_directory_that_cannot_be_entered_is_named(tmp_path: Path) -> None:
    done = start(JUPYTER, tmp_path, f"{tmp_path}/none", "jupyter-lab")
    assert done.returncode == 1
    assert f"{tmp_path}/none" in done.stderr
