"""The checks of `gpupool doctor` that need no server: Python, native parts, state, sharers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

from gpupool.base.room import write_problem
from gpupool.cli.pool.system_service import check_service
from gpupool.terminal.check_rows import FAIL, OK, WARN, Check, make_check
from gpupool.terminal.context import CommandContext

#: Free bytes below which logs and the database are about to stop; `server.checks` has the same.
LOW_DISK_BYTES = 1 << 30
NO_DISK_BYTES = 64 << 20
#: By the name of a program: who else hands cards out on this machine. Two would hand out one card.
OTHER_SHARERS = {
    "nvidia-cuda-mps-control": "an MPS daemon",
    "nvidia-device-plugin": "the NVIDIA device plugin",
    "vgpu-scheduler-extender": "HAMi",
    "vGPUmonitor": "HAMi",
    "kubelet": "a kubelet",
    "slurmd": "a Slurm node daemon",
}


def check_locally(context: CommandContext) -> list[Check]:
    """List the checks of this machine and of the state directory."""
    state_dir = context.state_dir
    return [
        _check_python(),
        _check_native(),
        check_user_namespaces(),
        _check_state(state_dir),
        _check_disk(state_dir),
        check_sharers(),
        *check_service(),
    ]


def _check_python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    # As pyproject.toml requires; an older Python fails in syntax before it could say so elsewhere.
    fine = sys.version_info >= (3, 11)
    return make_check(
        "python",
        OK if fine else FAIL,
        f"{version} at {sys.executable}",
        "" if fine else "use 3.11 or newer",
    )


def _check_native() -> Check:
    missing = "reinstall gpupool-native of the same version"
    try:
        import gpupool_native
    except ImportError:
        return make_check("supervisor", FAIL, "gpupool-native is not installed", missing)
    path = str(gpupool_native.shim_path())
    try:
        # Run, not only looked for: a wheel of another libc is there and does not start.
        done = subprocess.run([path, "--version"], capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return make_check("supervisor", FAIL, f"{path} does not run: {error}", missing)
    said = done.stdout.decode("utf-8", "replace").strip()
    if done.returncode:
        return make_check(
            "supervisor", FAIL, f"{path} --version ends with {done.returncode}", missing
        )
    # `gpupool-shim spec 1 protocol 1 1`: the least and the greatest protocol that it speaks.
    protocol = said.rpartition(" ")[2]
    found = f"gpupool-shim, protocol {protocol}" if protocol.isdecimal() else "runs"
    return make_check("supervisor", OK, f"{found} at {path}")


def check_user_namespaces(proc: str = "/proc") -> Check:
    """Check whether cards of others can be denied to jobs; user_namespaces(7).

    Debian's kernels have a switch of their own, `unprivileged_userns_clone`.
    """
    allowed = _read_number(f"{proc}/sys/user/max_user_namespaces")
    clone = _read_number(f"{proc}/sys/kernel/unprivileged_userns_clone")
    if os.getuid() == 0:
        return make_check(
            "isolation", OK, "root: jobs run as their callers, other cards can be denied to them"
        )
    if allowed == 0 or clone == 0:
        return make_check(
            "isolation",
            WARN,
            "user namespaces are switched off: other cards are hidden, not denied",
        )
    return make_check("isolation", OK, "user namespaces are allowed")


def _read_number(path: str) -> int | None:
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def _check_state(state_dir: str) -> Check:
    if not os.path.exists(state_dir):
        return make_check("state", OK, f"{state_dir} does not exist yet")
    if not os.access(state_dir, os.W_OK | os.X_OK):
        return make_check(
            "state", WARN, f"{state_dir} is not yours to write", "it belongs to another user's pool"
        )
    # Tried by writing: on a file system that is mounted read-only access(2) may still allow it.
    problem = write_problem(state_dir)
    if problem:
        return make_check(
            "state",
            FAIL,
            f"{state_dir} cannot be written: {problem}",
            "see dmesg; mount it writable",
        )
    return make_check("state", OK, state_dir)


def _check_disk(state_dir: str) -> Check:
    place = state_dir
    # A directory that is not made yet lies on the disk of its nearest parent.
    while not os.path.exists(place):
        place = os.path.dirname(place)
    found = os.statvfs(place)
    free = found.f_bavail * found.f_frsize
    said = f"{free >> 20} MiB free at {place}"
    if free < NO_DISK_BYTES:
        return make_check(
            "disk", FAIL, said, "free some space: without it no job starts and no log is written"
        )
    return (
        make_check("disk", OK, said)
        if free >= LOW_DISK_BYTES
        else make_check("disk", WARN, said, "make room: logs need it")
    )


def check_sharers(proc: str = "/proc") -> Check:
    """Check whether other programs on this machine hand cards out."""
    sharers = set[str]()
    for name in _list_processes(proc):
        if name in OTHER_SHARERS:
            sharers.add(f"{OTHER_SHARERS[name]} ({name})")
    found = sorted(sharers)
    if not found:
        return make_check("other sharers", OK, "none is running")
    return make_check(
        "other sharers", WARN, ", ".join(found), "adopt only cards that it does not hand out"
    )


def _list_processes(proc: str) -> Iterator[str]:
    """Yield the names of running programs.

    /proc/PID/comm cuts a name at 15 characters, the command line does not.
    """
    for entry in os.listdir(proc):
        if not entry.isdigit():
            continue
        try:
            with open(f"{proc}/{entry}/cmdline", "rb") as file:
                first = file.read(4096).split(b"\0")[0]
        except OSError:
            continue  # it has ended since it was listed
        yield os.path.basename(first.decode("utf-8", "replace"))
