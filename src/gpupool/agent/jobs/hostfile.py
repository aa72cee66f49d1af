"""The hostfile of a gang's member: a line for each worker, as mpirun and DeepSpeed read it."""

from __future__ import annotations

import os
from typing import Final

from gpupool.agent.jobs.container_start import SHARE
from gpupool.mechanisms.contract import PreparedAllocation
from gpupool.mechanisms.notes import replace_text
from gpupool.wire.fleet import WorkOut

#: Name of the file, beside the description of the job's share.
_NAME: Final = "hostfile"
_VARIABLE: Final = "GPUPOOL_GANG_HOSTFILE"


def write_hostfile(work: WorkOut, prepared: PreparedAllocation, mount: str) -> WorkOut:
    """Write the hostfile of a gang's member, and return its work with where it is. Idempotent.

    Work that is no member of a gang is returned as it is.

    Args:
        mount: where a job that is no container finds the directory of its share.
    """
    hosts = work.env.get("GPUPOOL_GANG_HOSTS")
    slots = work.env.get("GPUPOOL_GANG_SLOTS")
    if not hosts or not slots:
        return work
    pairs = zip(hosts.split(","), slots.split(","), strict=True)
    text = "".join(f"{host} slots={count}\n" for host, count in pairs)
    replace_text(prepared.share_dir / _NAME, text)
    place = f"{mount if work.container is None else SHARE}/{_NAME}"
    return work.model_copy(update={"env": {**work.env, _VARIABLE: place}})


def locate_unmounted(work: WorkOut, prepared: PreparedAllocation) -> dict[str, str]:
    """Return the variable of a job whose directory is not mounted: the file's path on the host."""
    if _VARIABLE not in work.env:
        return {}
    return {_VARIABLE: os.path.abspath(prepared.share_dir / _NAME)}
