"""What a browser needs to start a program that a person works in: its command and its PATH."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from gpupool.model.workspaces.programs import PROGRAMS, WorkspaceProgram
from gpupool.wire.workspaces import WorkspaceProgramOut

#: A job begins with no variable of the browser's machine.
USUAL_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def list_workspace_programs(
    *, is_one_machine: bool, path: str | None = None
) -> list[WorkspaceProgramOut]:
    """List the programs; on a pool of one machine each with what it lacks here.

    Args:
        is_one_machine: every job runs on the server's machine.
        path: where programs are looked for; None: in the server's own PATH.
    """
    looked = os.environ.get("PATH", os.defpath) if path is None else path
    return [_describe_program(one, looked, is_one_machine) for one in PROGRAMS]


def _describe_program(
    program: WorkspaceProgram, path: str, is_one_machine: bool
) -> WorkspaceProgramOut:
    found = _find_folder(program, path) if is_one_machine else None
    missing = None
    if is_one_machine and found is None:
        missing = f"{' or '.join(program.programs)} is not on the PATH of the pool's server"
    # The folder of the program alone: the rest of the server's PATH is its own matter.
    folders = USUAL_PATH if found is None else f"{found}:{USUAL_PATH}"
    return WorkspaceProgramOut(
        name=program.name,
        title=program.title,
        service=program.service,
        page=program.page,
        argv=program.make_argv(""),
        env={"PATH": folders, "LANG": "C.UTF-8"},
        one_machine=is_one_machine,
        missing=missing,
        install=program.install,
    )


def _find_folder(program: WorkspaceProgram, path: str) -> str | None:
    for name in program.programs:
        found = shutil.which(name, path=f"{path}:{USUAL_PATH}")
        if found is not None:
            return str(Path(found).absolute().parent)
    return None
