"""Which programs a browser can start, and what a machine without one says."""

from __future__ import annotations

from pathlib import Path

from gpupool.workspaces.programs import USUAL_PATH, list_workspace_programs


def make_program(folder: Path, name: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)


def test_a_program_brings_its_own_folder_and_not_the_servers_path(tmp_path: Path) -> None:
    make_program(tmp_path / "lab", "jupyter-lab")
    path = f"{tmp_path}/secret:{tmp_path}/lab"
    jupyter = list_workspace_programs(is_one_machine=True, path=path)[0]
    assert jupyter.missing is None
    assert jupyter.env["PATH"] == f"{tmp_path}/lab:{USUAL_PATH}"
    assert jupyter.argv[:2] == ["sh", "-c"]
    assert jupyter.argv[3:] == ["gpupool-notebook", ""]


def test_one_machine_without_the_program_says_what_to_install(tmp_path: Path) -> None:
    vscode = list_workspace_programs(is_one_machine=True, path=str(tmp_path))[1]
    assert vscode.missing == (
        "code-server or openvscode-server is not on the PATH of the pool's server"
    )
    assert "code-server" in vscode.install


def test_other_machines_are_not_judged_by_this_one(tmp_path: Path) -> None:
    shown = list_workspace_programs(is_one_machine=False, path=str(tmp_path))
    assert [(one.missing, one.env["PATH"]) for one in shown] == [(None, USUAL_PATH)] * 2
