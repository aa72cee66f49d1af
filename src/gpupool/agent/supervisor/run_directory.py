"""The directory in which a job makes sockets that the pool relays: `$GPUPOOL_RUN`.

It belongs to the job's user alone (0700), so no other user of the machine can connect. What is in
it is the user's: it is opened without following links, and only if the user owns it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from gpupool.base.files.trees import remove_tree

#: Name of the directory in that of its job.
RUN_DIRECTORY: Final = "run"
#: What tells a job where it is.
RUN_VARIABLE: Final = "GPUPOOL_RUN"


def make_run_directory(directory: Path, uid: int, gid: int) -> Path:
    """Make the run directory of a job; return its path. Idempotent: a job may run in it already.

    Args:
        directory: the job's own.
        uid: of the job's user, as `gid`.
    """
    run = directory / RUN_DIRECTORY
    run.mkdir(mode=0o700, exist_ok=True)
    if os.geteuid() == 0 and uid != 0:
        os.chown(run, uid, gid)
    return run.absolute()


def remove_run_directory(directory: Path) -> None:
    """Remove the run directory with the secrets in it. Idempotent."""
    run = directory / RUN_DIRECTORY
    if run.is_dir() and not run.is_symlink():
        remove_tree(run)
