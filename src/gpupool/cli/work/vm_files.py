"""Where the files of a VM of this machine's pool are: used by the verbs of `gpupool vm`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from gpupool.base.client_settings import SYSTEM_SOCKET_TEXT, SYSTEM_STATE_DIR_TEXT
from gpupool.base.errors import NoPermission, NotFound, WrongState
from gpupool.base.settings import PoolPaths
from gpupool.client.transport import Api
from gpupool.model.vm import VM_COMMAND
from gpupool.terminal.references import job_path
from gpupool.vm.files import VmFiles, VmRecord


def find_pool_paths(api: Api) -> PoolPaths:
    """Return the paths of a pool on this machine. Raises NotFound for a remote one."""
    socket = api.endpoint.path
    if socket is None:
        raise NotFound(
            "the files of a VM are on the pool's own machine",
            hint="run this command there",
        )
    if socket == SYSTEM_SOCKET_TEXT:
        return PoolPaths(Path(SYSTEM_STATE_DIR_TEXT))
    return PoolPaths(Path(os.path.dirname(os.path.abspath(socket))))


def fetch_vm(api: Api, name: str) -> dict[str, Any]:
    """Fetch the job of a VM. Raises NotFound for a job that is none."""
    job: dict[str, Any] = api.request("GET", job_path(name))
    if not is_vm(job):
        raise NotFound(f"{job['name']} is a job and no VM", hint="gpupool vm list")
    return job


def is_vm(job: dict[str, Any]) -> bool:
    """Whether a job is a VM: the server lets no other job have such a command."""
    return bool(job["command"]) and job["command"][0] == VM_COMMAND


def locate_vm(api: Api, job: dict[str, Any]) -> VmFiles:
    """Return the files of a VM. Raises NotFound for a remote pool."""
    return VmFiles(find_pool_paths(api).vms, job["id"])


def read_record(files: VmFiles, job: dict[str, Any]) -> VmRecord:
    """Read what was started.

    Raises:
        WrongState: The VM was never started, or it was deleted.
        NoPermission: The VM is another account's.
    """
    try:
        record = files.read_record()
    except PermissionError:
        raise _make_refusal(job) from None
    if record is None:
        raise WrongState(
            f"{job['name']} has no files on this machine: it is {job['state']}",
            hint=f"gpupool explain {job['name']}" if job["state"] == "pending" else "",
        )
    return record


def _make_refusal(job: dict[str, Any]) -> NoPermission:
    return NoPermission(
        f"the files of {job['name']} belong to the account of its user, {job['user']}",
        hint="run this command as that account, or as root",
    )


def require_running(job: dict[str, Any]) -> None:
    """Raise WrongState for a VM that does not run."""
    if job["state"] != "running":
        raise WrongState(
            f"{job['name']} does not run: it is {job['state']}", hint="gpupool vm list"
        )
