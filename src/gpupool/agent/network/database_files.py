"""Creates the databases of a machine that are in no cluster, and the directories of all of them."""

from __future__ import annotations

import subprocess
from typing import Final

from gpupool.agent.network.daemons import EngineFiles, list_create_commands
from gpupool.base.durable import make_directory_durably

#: Seconds that the creation of a database takes at most.
_TOOL_SECONDS: Final = 10.0


def create_directories(files: EngineFiles) -> None:
    """Create the directories of databases and sockets. Idempotent."""
    make_directory_durably(files.data, mode=0o700)
    files.run.mkdir(mode=0o700, exist_ok=True)


def create_databases(files: EngineFiles, *, has_databases: bool) -> None:
    """Create the databases that are missing, with the switch's. Idempotent.

    Args:
        has_databases: whether the machine has those of OVN, without a cluster.
    """
    for file, command in list_create_commands(files, has_databases=has_databases).items():
        if file.exists():
            continue
        # Made under another name first: a database that was cut short would never open.
        temporary = file.with_suffix(".tmp")
        temporary.unlink(missing_ok=True)
        arguments = [str(temporary) if part == str(file) else part for part in command]
        subprocess.run(arguments, check=True, capture_output=True, timeout=_TOOL_SECONDS)
        temporary.rename(file)
