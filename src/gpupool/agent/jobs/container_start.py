"""Turns the description of a job into one that starts the job's container.

The supervisor then starts Podman where it would start the command: in the job's cgroup, under the
job's account, with the job's streams. Where that account cannot reach the agent's files by path,
the supervisor mounts them in the job's own mount namespace (`mechanisms.containers.staging`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

from gpupool.agent.supervisor.client import BindMount, JobSpec
from gpupool.agent.supervisor.run_directory import RUN_VARIABLE, make_run_directory
from gpupool.base.errors import NativeMissing, RequestRejection
from gpupool.base.files.trees import remove_tree
from gpupool.mechanisms.containers.accounts import (
    ContainerAccount,
    MissingPart,
    find_account,
)
from gpupool.mechanisms.containers.argv import (
    ContainerStart,
    build_run_arguments,
    build_run_environment,
)
from gpupool.mechanisms.containers.podman import PodmanInstallation, find_podman
from gpupool.mechanisms.containers.staging import Staging
from gpupool.mechanisms.contract import AllocationView, HostKind, HostMount, PreparedAllocation
from gpupool.mechanisms.driver.container_files import list_control_nodes
from gpupool.model.container import ContainerPolicy
from gpupool.wire.containers import ContainerIn
from gpupool.wire.fleet import WorkOut

T = TypeVar("T")

#: Where every container finds its share, in a user's own pool too.
CONTAINER_BASE: Final = "/run/gpupool"
SHARE: Final = f"{CONTAINER_BASE}/share"
#: Where a container makes the sockets that the pool relays: the job's run directory.
RUN: Final = f"{CONTAINER_BASE}/run"
#: Directories of a job that runs a container: Podman's, which belongs to the job's account, and the
#: agent's, which the account can only read.
RUNTIME: Final = "container"
SETTINGS: Final = "container-settings"
HOOKS: Final = "hooks"
CONFIG: Final = "containers.conf"
#: Seconds for the hook, which reads one file of the image.
HOOK_SECONDS: Final = 10
#: Part of the node's memory that /dev/shm may grow to, as tmpfs has it; its pages count as the job's.
_SHM_PART: Final = 2
#: Replaces every other containers.conf, so that no default of the user's changes the container.
_CONFIG_TEXT: Final = "[containers]\n[engine]\n"


@dataclass(frozen=True)
class ContainerHost:
    """What this node has for containers.

    Attributes:
        own_pool: Every job runs under the agent's own account.
        memory_bytes: The node's main memory.
        pid_max: The kernel's largest process number.
    """

    policy: ContainerPolicy
    own_pool: bool
    memory_bytes: int
    pid_max: int
    find_installation: Callable[[], PodmanInstallation | MissingPart] = find_podman
    find_user: Callable[[int, int], ContainerAccount | MissingPart] = find_account


def contain_view(view: AllocationView) -> AllocationView:
    """Return the view of an allocation that is handed to a container."""
    seat = replace(view.seat, base=CONTAINER_BASE, container=True)
    return replace(view, seat=seat, host=HostKind.CONTAINER)


def contain_job(
    spec: JobSpec,
    work: WorkOut,
    prepared: PreparedAllocation,
    directory: Path,
    host: ContainerHost,
) -> JobSpec:
    """Return the description that starts the job's container. Idempotent.

    Makes the directories that Podman needs. Blocks for a look at Podman.

    Raises:
        RequestRejection: Podman or the account lacks something, or a mount is not allowed.
    """
    from gpupool_native import init_path, read_only_path

    container = work.container
    assert container is not None
    installation = _require(host.find_installation())
    uid = os.geteuid() if spec.uid is None else spec.uid
    gid = os.getegid() if spec.gid is None else spec.gid
    account = _require(host.find_user(uid, gid))
    volumes = _check_volumes(container, account, host.policy)
    runtime = _make_runtime_directory(directory, account, host.own_pool)
    settings = _write_settings(directory, prepared)
    staging = Staging(CONTAINER_BASE)
    mounts = prepared.mounts
    share = prepared.share_dir.absolute()
    shown_runtime = runtime
    run = make_run_directory(directory, uid, gid)
    shown_settings = settings
    shown_init = _find_program(init_path())
    shown_guard = _find_program(read_only_path())
    if not host.own_pool:
        mounts = staging.stage_mounts(mounts)
        share = Path(SHARE)  # the supervisor mounts it there, as for every job
        shown_runtime = staging.stage_path(runtime, writable=True)
        run = staging.stage_path(run, writable=True)
        shown_settings = staging.stage_path(settings)
        shown_init = staging.stage_path(shown_init)
        shown_guard = staging.stage_path(shown_guard)
    start = ContainerStart(
        job=work.job,
        image=container.image_id or container.image,
        command=tuple(work.argv),
        runtime_dir=str(shown_runtime),
        config_file=str(shown_settings / CONFIG),
        init_path=str(shown_init),
        guard_path=str(shown_guard),
        hooks_dir=str(shown_settings / HOOKS) if prepared.image_check else None,
        pull=container.pull,
        auth_file=container.registry_auth,
        user=container.user,
        workdir=container.workdir,
        attached=work.attached,
        terminal=container.terminal,
        umask=work.umask,
        volumes=volumes,
        mounts=(HostMount(share, SHARE), HostMount(run, RUN, True), *mounts),
        devices=_list_devices(prepared),
        environment=_make_environment(work, prepared),
        limits={name: (limit.soft, limit.hard) for name, limit in spec.limits.items()},
        pid_max=host.pid_max,
        shm_bytes=(work.host_bytes or host.memory_bytes) // _SHM_PART,
    )
    if prepared.image_check:
        _write_hook(settings / HOOKS, prepared, staging, own_pool=host.own_pool)
    binds = [
        BindMount(os.path.abspath(bind.source), bind.target, bind.writable)
        for bind in staging.list_binds()
    ]
    return replace(
        spec,
        arguments=build_run_arguments(start, installation, account),
        directory="/",
        environment=build_run_environment(start, account),
        # In a user's own pool Podman reaches everything by path.
        share_directory=None if host.own_pool else spec.share_directory,
        share_mount=None if host.own_pool else SHARE,
        binds=tuple(binds),
        unmounted_environment={},
    )


def _find_program(path: Path) -> Path:
    if not path.exists():
        raise NativeMissing(
            f"gpupool-native has no {path.name}, which containers need",
            hint="reinstall gpupool-native",
        )
    return path


def _require(found: T | MissingPart) -> T:
    if isinstance(found, MissingPart):
        raise RequestRejection(f"{found.reason}: {found.hint}", hint=found.hint)
    return found


def _check_volumes(
    container: ContainerIn, account: ContainerAccount, policy: ContainerPolicy
) -> tuple[HostMount, ...]:
    """Check the caller's mounts against the policy.

    The account's own Podman mounts them, so the kernel refuses what the account cannot reach, also
    where a symbolic link changes after this check.
    """
    home = os.path.realpath(account.home)
    mounts = []
    for volume in container.volumes:
        refusal = policy.explain_volume_refusal(os.path.realpath(volume.source), home)
        if refusal:
            # Never the resolved path: its caller may not be able to read the links.
            allowed = refusal.partition(";")[2].strip()
            raise RequestRejection(f"{volume.source} may not be mounted; {allowed}")
        mounts.append(HostMount(Path(volume.source), volume.target, not volume.read_only))
    return tuple(mounts)


def _make_runtime_directory(directory: Path, account: ContainerAccount, own_pool: bool) -> Path:
    """Make the directory in which the account's Podman writes; empty at each start."""
    runtime = directory / RUNTIME
    if runtime.exists():
        remove_tree(runtime)
    runtime.mkdir(mode=0o700)
    if not own_pool:
        os.chown(runtime, account.uid, account.gid)
    return runtime


def _write_settings(directory: Path, prepared: PreparedAllocation) -> Path:
    """Write Podman's settings, which the account can read and not change."""
    settings = directory / SETTINGS
    settings.mkdir(mode=0o755, exist_ok=True)
    settings.chmod(0o755)
    config = settings / CONFIG
    config.write_text(_CONFIG_TEXT, encoding="utf-8")
    config.chmod(0o644)
    if prepared.image_check:
        hooks = settings / HOOKS
        hooks.mkdir(mode=0o755, exist_ok=True)
        hooks.chmod(0o755)
    return settings


def _write_hook(
    folder: Path, prepared: PreparedAllocation, staging: Staging, *, own_pool: bool
) -> None:
    """Write the hook that checks the image before its first process starts."""
    program = Path(prepared.image_check[0])
    shown = program if own_pool else staging.stage_path(program)
    words = [str(shown), *prepared.image_check[1:]]
    hook = {
        "version": "1.0.0",
        "hook": {"path": str(shown), "args": words, "timeout": HOOK_SECONDS},
        "when": {"always": True},
        "stages": ["createRuntime"],
    }
    file = folder / "gpupool.json"
    file.write_text(json.dumps(hook), encoding="utf-8")
    file.chmod(0o644)


def _list_devices(prepared: PreparedAllocation) -> tuple[str, ...]:
    if not prepared.allow_nodes:
        return ()
    return *prepared.allow_nodes, *list_control_nodes()


def _make_environment(work: WorkOut, prepared: PreparedAllocation) -> dict[str, str]:
    return {
        **work.env,
        "GPUPOOL_FENCE": str(prepared.fence),
        **prepared.env,
        # Keeps a vendor's hook from adding devices and libraries of its own.
        "NVIDIA_VISIBLE_DEVICES": "void",
        "GPUPOOL_JOB": work.job,
        "GPUPOOL_SHARE": SHARE,
        RUN_VARIABLE: RUN,
    }
