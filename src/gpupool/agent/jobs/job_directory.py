"""Sets the directory of a job up for one run: whose output it holds, and where it makes sockets."""

from __future__ import annotations

from pathlib import Path

from gpupool.agent.jobs.launch import LaunchSettings
from gpupool.agent.supervisor.log_quota import note_owner
from gpupool.agent.supervisor.run_directory import RUN_VARIABLE, make_run_directory
from gpupool.wire.fleet import WorkOut


def set_up_directory(work: WorkOut, directory: Path, settings: LaunchSettings) -> WorkOut:
    """Note the job's owner and make its run directory; return the work that names it. Idempotent."""
    uid = work.run_as.uid if work.run_as else settings.uid
    gid = work.run_as.gid if work.run_as else settings.gid
    note_owner(directory, uid)
    run = make_run_directory(directory, uid, gid)
    return work.model_copy(update={"env": {**work.env, RUN_VARIABLE: str(run)}})
