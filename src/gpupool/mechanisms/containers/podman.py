"""Finds Podman and the programs that it needs, and chooses the OCI runtime.

A container must stay in the cgroup of its job, where limits and metering are. On cgroup v2 crun
does that (`--cgroups=disabled`, which runc cannot). On v1 and on both together an account's runc
does it by itself, and crun 1.8.1 ends with "drop all controllers".
"""

from __future__ import annotations

import logging
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from shutil import which
from typing import Final

from gpupool.mechanisms.containers.accounts import MissingPart

log = logging.getLogger(__name__)

#: The first version with all options that `argv` uses.
LEAST_VERSION: Final = (4, 0)
#: Present where cgroup v2 is the host's only one.
_UNIFIED: Final = Path("/sys/fs/cgroup/cgroup.controllers")
_SECONDS: Final = 20
#: Where the kernel shows its settings (proc_sys(5)).
_SETTINGS: Final = Path("/proc/sys")
#: Settings that forbid user namespaces where they are 0, and what allows them. Debian and Ubuntu
#: alone have the second.
_NAMESPACE_SETTINGS: Final = {
    "user/max_user_namespaces": 65_536,
    "kernel/unprivileged_userns_clone": 1,
}

FindProgram = Callable[[str], str | None]


@dataclass(frozen=True)
class PodmanInstallation:
    """Podman and its helpers on this machine.

    Attributes:
        podman: Path of the program.
        unshare: Path of the program that makes the namespaces.
        oci_runtime: Path of crun or runc.
        version: Podman's version, like (4, 3).
        without_cgroup: The runtime must be told to make no cgroup for the container.
    """

    podman: str
    unshare: str
    oci_runtime: str
    version: tuple[int, int]
    without_cgroup: bool


def find_podman(
    *,
    find: FindProgram = which,
    unified: bool | None = None,
    ask: Callable[[str], str] | None = None,
    settings: Path = _SETTINGS,
) -> PodmanInstallation | MissingPart:
    """Find Podman and its helpers, or what is missing. Blocks for one call of Podman.

    Args:
        find: Returns the path of a program.
        unified: Whether the host has cgroup v2 alone; None looks.
        ask: Returns what a program answers to `--version`; "" where it failed.
        settings: Where the kernel shows its settings.
    """
    podman = find("podman")
    if podman is None:
        return _describe_missing_podman(find, ask or _ask_version)
    for program, package in (("newuidmap", "uidmap"), ("unshare", "util-linux")):
        if find(program) is None:
            return MissingPart(
                f"program {program} is not installed, which makes a user namespace",
                f"apt-get install {package}",
            )
    forbidden = _find_forbidding_setting(settings)
    if forbidden is not None:
        # unshare of util-linux 2.38 would leave a process that waits for ever.
        return MissingPart(
            f"user namespaces are switched off: {forbidden} is 0",
            f"sysctl -w {forbidden}={_NAMESPACE_SETTINGS[forbidden]}",
        )
    version = parse_version((ask or _ask_version)(podman))
    if version is None:
        return MissingPart("Podman does not say its version", "podman --version")
    if version < LEAST_VERSION:
        wanted = ".".join(map(str, LEAST_VERSION))
        found = ".".join(map(str, version))
        return MissingPart(f"Podman {found} is too old", f"install Podman {wanted} or later")
    is_unified = _UNIFIED.exists() if unified is None else unified
    name = "crun" if is_unified else "runc"
    runtime = find(name)
    if runtime is None:
        kind = "cgroup v2" if is_unified else "cgroup v1"
        return MissingPart(
            f"{name} is not installed; this host has {kind}", f"apt-get install {name}"
        )
    return PodmanInstallation(podman, find("unshare") or "unshare", runtime, version, is_unified)


def parse_version(text: str) -> tuple[int, int] | None:
    """Parse `podman version 4.3.1`; None for anything else."""
    found = re.search(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else None


def _find_forbidding_setting(settings: Path) -> str | None:
    for name in _NAMESPACE_SETTINGS:
        try:
            value = (settings / name).read_text().strip()
        except OSError:
            continue
        if value == "0":
            return name
    return None


def _describe_missing_podman(find: FindProgram, ask: Callable[[str], str]) -> MissingPart:
    hint = "apt-get install podman uidmap"
    docker = find("docker")
    if docker is None:
        return MissingPart("Podman is not installed", hint)
    # See ADR 0071.
    version = parse_version(ask(docker))
    found = "Docker" if version is None else f"Docker {version[0]}.{version[1]}"
    return MissingPart(
        f"Podman is not installed; {found} is, whose daemon would run the container with "
        "root's rights and not as your account",
        hint,
    )


def _ask_version(program: str) -> str:
    try:
        return _read_version(program, Path(program).stat().st_mtime_ns)
    except (OSError, subprocess.SubprocessError) as error:
        log.warning("%s --version: %s", program, error)
        return ""


@cache
def _read_version(program: str, _modified_ns: int) -> str:
    """Ask a program once, and again when its file is another one: an agent lives for months.

    A program that failed, as on a machine that is short of memory, is asked again.
    """
    done = subprocess.run(
        [program, "--version"], capture_output=True, text=True, timeout=_SECONDS, check=True
    )
    return done.stdout
