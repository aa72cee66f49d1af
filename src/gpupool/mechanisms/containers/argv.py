"""Builds the command line and the environment of a job's Podman. Pure.

Podman runs as the job's user in namespaces of its own, made by unshare(1) before it starts: a
Podman that makes them itself joins those of the user's other containers, where the job's private
mounts are not visible, and leaves a process behind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gpupool.mechanisms.containers.accounts import ContainerAccount
from gpupool.mechanisms.containers.image_store import STORE
from gpupool.mechanisms.containers.podman import PodmanInstallation
from gpupool.mechanisms.contract import HostMount

#: Label of a job's container: its value is the job's id.
LABEL: Final = "gpupool.job"
#: File in the runtime directory with the host's number of the container's first process.
PID_FILE: Final = "pid"
#: Where root's containers have their run-time files. Root's own Podman, whose containers are in no
#: user namespace, keeps others below /run/containers.
ROOT_RUN_DIR: Final = "/run/gpupool-podman"
#: Where Podman and its helpers look for programs; never the job's own PATH.
PROGRAM_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: Beginnings of variables that would change Podman, its helpers or the dynamic loader.
_RESERVED_PREFIXES: Final = (
    *("_CONTAINERS_", "BUILDAH_", "CONTAINERS_", "DBUS_", "GPUPOOL_", "LC_", "LD_"),
    *("LISTEN_", "PODMAN_", "STORAGE_", "XDG_"),
)
#: Whole names of such variables.
_RESERVED: Final = frozenset(
    (
        *("DOCKER_CONFIG", "GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "GOTRACEBACK", "HOME"),
        *("LANG", "NOTIFY_SOCKET", "PATH", "REGISTRY_AUTH_FILE", "SSL_CERT_DIR", "SSL_CERT_FILE"),
        *("TERM", "TMPDIR", "USER"),
    )
)

#: Limits that Podman has no option for; the container inherits them from the supervisor.
_INHERITED: Final = frozenset(("as",))

#: Open files that Podman sets as its own hard limit (`RLimitDefaultValue`).
_PODMAN_FILES: Final = 1_048_576

#: Soft and hard; None is no limit.
LimitPair = tuple[int | None, int | None]


@dataclass(frozen=True)
class ContainerStart:
    """One container as Podman is to start it.

    Attributes:
        runtime_dir: Directory in which Podman writes `PID_FILE`, as the job sees it.
        hooks_dir: Directory with the hook that checks the image; None for none.
        config_file: Podman's settings, which replace the user's and the system's own.
        init_path: The container's first process (`native/init`), as the job sees it.
        guard_path: What makes /sys read-only for containers of root (`native/init`), as the job
            sees it.
        volumes: What the caller mounts of the host.
        mounts: What the job's share needs; writable ones run no program.
        devices: Device nodes of the job's cards.
        environment: Variables of the command.
        shm_bytes: Most bytes in /dev/shm, which count as the job's memory.
        pid_max: The kernel's largest process number.
    """

    job: str
    image: str
    command: tuple[str, ...]
    runtime_dir: str
    config_file: str
    init_path: str
    guard_path: str
    hooks_dir: str | None = None
    pull: str = "never"
    auth_file: str | None = None
    user: str | None = None
    workdir: str | None = None
    attached: bool = False
    terminal: bool = False
    umask: int = 0o022
    volumes: tuple[HostMount, ...] = ()
    mounts: tuple[HostMount, ...] = ()
    devices: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, LimitPair] = field(default_factory=dict)
    shm_bytes: int = 64 << 20
    pid_max: int = 32_768


def make_container_name(job: str) -> str:
    """Make the name of a job's container."""
    return f"gpupool-{job}"


def build_namespace_words(
    installation: PodmanInstallation, account: ContainerAccount
) -> tuple[str, ...]:
    """Build the words before Podman's own: it starts in a user and a mount namespace.

    The ranges are written as util-linux 2.38 reads them, the first version that has them: first id
    outside, first id inside, count. Later versions still read that form.
    """
    users = account.user_ids
    groups = account.group_ids
    return (
        installation.unshare,
        "--user",
        "--map-root-user",
        f"--map-users={users.first},1,{users.count}",
        f"--map-groups={groups.first},1,{groups.count}",
        "--mount",
        "--propagation=slave",
    )


def build_podman_environment(
    account: ContainerAccount, config_file: str | None = None
) -> dict[str, str]:
    """Build Podman's own environment.

    The `_CONTAINERS_` variables say that the namespaces are made; Buildah sets the same ones.
    XDG_RUNTIME_DIR is left out: Podman finds the directory that its other calls for the user have.
    """
    environment = {
        "HOME": account.home,
        "LANG": "C.UTF-8",
        "PATH": PROGRAM_PATH,
        "USER": account.name,
        "_CONTAINERS_ROOTLESS_GID": str(account.gid),
        "_CONTAINERS_ROOTLESS_UID": str(account.uid),
        "_CONTAINERS_USERNS_CONFIGURED": "done",
    }
    if config_file is not None:
        environment["CONTAINERS_CONF"] = config_file
    return environment


def build_podman_words(
    installation: PodmanInstallation, account: ContainerAccount
) -> tuple[str, ...]:
    """Build `podman` with the options that every call has."""
    return (
        installation.podman,
        *_build_root_storage(account),
        "--log-level=error",
        "--cgroup-manager=cgroupfs",
        "--events-backend=none",
        f"--runtime={installation.oci_runtime}",
    )


def _build_root_storage(account: ContainerAccount) -> tuple[str, ...]:
    """Build the places of root's images and containers; none for other accounts.

    Podman takes the places of root's own Podman for uid 0, whose files have other owners.
    """
    if account.uid != 0:
        return ()
    return (
        f"--root={account.home}/{STORE}",
        f"--runroot={ROOT_RUN_DIR}/run",
        f"--tmpdir={ROOT_RUN_DIR}/tmp",
    )


def build_run_environment(start: ContainerStart, account: ContainerAccount) -> dict[str, str]:
    """Build the environment of `podman run`: its own, and the command's that it passes on."""
    passed = {name: value for name, value in start.environment.items() if not _is_reserved(name)}
    return {**passed, **build_podman_environment(account, start.config_file)}


def build_run_arguments(
    start: ContainerStart, installation: PodmanInstallation, account: ContainerAccount
) -> tuple[str, ...]:
    """Build the whole command line of a job's supervisor.

    Values of variables are not among the words, which every user of the machine can read.
    """
    hooks = () if start.hooks_dir is None else (f"--hooks-dir={start.hooks_dir}",)
    return (
        *build_namespace_words(installation, account),
        *_build_sys_guard(start, account),
        *build_podman_words(installation, account),
        *hooks,
        "run",
        "--rm",
        "--replace",
        f"--name={make_container_name(start.job)}",
        f"--label={LABEL}={start.job}",
        f"--pull={start.pull}",
        *_build_isolation(installation),
        "--init",
        f"--init-path={start.init_path}",
        *_build_streams(start),
        *_build_user(start),
        *_build_limits(start),
        *_build_mounts(start),
        *(f"--device={node}" for node in start.devices),
        *_build_variables(start),
        start.image,
        *start.command,
    )


def _build_sys_guard(start: ContainerStart, account: ContainerAccount) -> tuple[str, ...]:
    """Build the words that make /sys read-only for root's Podman and for the container.

    The container gets the host's /sys, and root owns the files in it. So runc would move the
    container to another cgroup without any capability, and the container could make files there.
    """
    return (start.guard_path, "/sys") if account.uid == 0 else ()


def _build_isolation(installation: PodmanInstallation) -> tuple[str, ...]:
    return (
        "--network=host",
        "--cap-drop=all",
        "--security-opt=no-new-privileges",
        *(("--cgroups=disabled",) if installation.without_cgroup else ()),
        "--systemd=false",
        "--sdnotify=ignore",
        "--no-healthcheck",
        "--http-proxy=false",
    )


def _build_streams(start: ContainerStart) -> tuple[str, ...]:
    # The supervisor keeps the output; a second log would lie in the user's home directory.
    words = ["--log-driver=none", f"--pidfile={start.runtime_dir}/{PID_FILE}"]
    if start.attached:
        words.append("--interactive")
    if start.terminal:
        words.append("--tty")
    return tuple(words)


def _build_user(start: ContainerStart) -> tuple[str, ...]:
    words = [f"--umask={start.umask:04o}", f"--shm-size={start.shm_bytes}b"]
    if start.user is not None:
        words.append(f"--user={start.user}")
    if start.workdir is not None:
        words.append(f"--workdir={start.workdir}")
    if start.auth_file is not None:
        words.append(f"--authfile={start.auth_file}")
    return tuple(words)


def _build_limits(start: ContainerStart) -> tuple[str, ...]:
    # Podman's own defaults for open files and processes need CAP_SYS_RESOURCE where the caller's
    # hard limits are lower, so each limit is named.
    # It lowers its own to these two before it starts anything, and cannot raise them again.
    most = {"nofile": _PODMAN_FILES, "nproc": start.pid_max}
    words = []
    for name, (soft, hard) in sorted(start.limits.items()):
        if name in _INHERITED:
            continue
        bound = most.get(name)
        words.append(f"--ulimit={name}={_format_limit(soft, bound)}:{_format_limit(hard, bound)}")
    return tuple(words)


def _format_limit(value: int | None, bound: int | None) -> str:
    found = bound if value is None else value
    if found is None:
        return "-1"
    return str(found if bound is None else min(found, bound))


def _build_mounts(start: ContainerStart) -> tuple[str, ...]:
    words = []
    for mount in (*start.volumes, *start.mounts):
        words.append(
            f"--mount=type=bind,src={mount.source},dst={mount.target},"
            f"ro={'false' if mount.writable else 'true'},bind-propagation=rprivate"
        )
    return tuple(words)


def _build_variables(start: ContainerStart) -> tuple[str, ...]:
    words = []
    for name, value in sorted(start.environment.items()):
        # A reserved name would change Podman itself if it stood in its environment.
        words.append(f"--env={name}={value}" if _is_reserved(name) else f"--env={name}")
    return tuple(words)


def _is_reserved(name: str) -> bool:
    return name in _RESERVED or name.startswith(_RESERVED_PREFIXES)
