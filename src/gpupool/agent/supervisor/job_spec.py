"""The description of a job for the supervisor: the file `JOB/spec`, written and read back.

The format is the supervisor's (docs/reference/supervisor.md): a first line, then NUL-terminated
`key=value` records. Must not know how a job is started or which user owns it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

HEADER: Final = b"gpupool-job 1\n"
#: The supervisor's TAP_DESCRIPTOR (native/supervisor/isolation/tap.h).
TAP_DESCRIPTOR: Final = 9
MAX_SPEC_BYTES: Final = 4 * 1024 * 1024


class BadSpec(Exception):
    """The supervisor refuses this job description, or would. Nothing was started."""


@dataclass(frozen=True)
class ResourceLimit:
    """A soft and a hard resource limit, in the units of setrlimit(2); None is unlimited."""

    soft: int | None
    hard: int | None


@dataclass(frozen=True)
class BindMount:
    """A directory or file of the host, and the absolute path at which the job alone sees it."""

    source: str
    target: str
    writable: bool = False


@dataclass(frozen=True)
class Tap:
    """A tap interface, and the path of the network namespace that it is in."""

    namespace: str
    interface: str


@dataclass(frozen=True)
class JobSpec:
    """One job as the supervisor sees it.

    Attributes:
        job_id: Unique on the host: the processes of an orphaned job are found by it.
        uid: None is the supervisor's own account, as for `gid`.
        cpus: Where the job runs, as a list in the kernel's format.
        memory_nodes: Whose memory it prefers, in the same format.
        limits: By lower-case name without RLIMIT_, like "nofile" or "core".
        binds: Mounts made after the share, in this order. A target directly beside the share's
            mount point is made where it is missing; any other must exist.
        unmounted_environment: Overrides `environment` where the share and the binds could not be
            mounted: all of them are mounted, or none.
        device_deny: Rules like "c 195:1 rwm".
        device_allow: Exceptions from `device_deny`; they work on cgroup v2 only.
        network_namespace: Path of the network namespace that the command enters; it does not start
            without it.
        tap: A tap interface that the command finds open as `TAP_DESCRIPTOR`; it does not start
            without it.
    """

    job_id: str
    arguments: tuple[str, ...]
    directory: str
    environment: Mapping[str, str] = field(default_factory=dict)
    uid: int | None = None
    gid: int | None = None
    groups: tuple[int, ...] = ()
    umask: int = 0o022
    cpus: str | None = None
    memory_nodes: str | None = None
    limits: Mapping[str, ResourceLimit] = field(default_factory=dict)
    stdio: Literal["log", "attach"] = "log"
    log_max_bytes: int = 16 * 1024 * 1024
    log_files: int = 4
    share_directory: str | None = None
    share_mount: str | None = None
    binds: tuple[BindMount, ...] = ()
    unmounted_environment: Mapping[str, str] = field(default_factory=dict)
    max_seconds: int | None = None
    grace_seconds: int = 10
    attach_seconds: int = 30
    cgroups: tuple[str, ...] = ()
    device_deny: tuple[str, ...] = ()
    device_allow: tuple[str, ...] = ()
    owner_uid: int | None = None
    network_namespace: str | None = None
    tap: Tap | None = None


# Keys whose value is one field, as text, and left out when the field is None.
_SINGLE: Final = {
    "job": "job_id",
    "cwd": "directory",
    "uid": "uid",
    "gid": "gid",
    "cpus": "cpus",
    "memory_nodes": "memory_nodes",
    "stdio": "stdio",
    "log_max_bytes": "log_max_bytes",
    "log_files": "log_files",
    "share_dir": "share_directory",
    "share_mount": "share_mount",
    "max_seconds": "max_seconds",
    "grace_seconds": "grace_seconds",
    "attach_seconds": "attach_seconds",
    "owner_uid": "owner_uid",
    "netns": "network_namespace",
}
_REPEATED: Final = {
    "arg": "arguments",
    "group": "groups",
    "cgroup": "cgroups",
    "device_deny": "device_deny",
    "device_allow": "device_allow",
}
_IDS: Final = ("uid", "gid", "groups", "owner_uid")
_NUMBERS: Final = ("log_max_bytes", "log_files", "max_seconds", "grace_seconds", "attach_seconds")
_INTEGERS: Final = frozenset(_IDS + _NUMBERS)


def _limit_text(value: int | None) -> str:
    return "unlimited" if value is None else str(value)


def _records(spec: JobSpec) -> Iterator[tuple[str, str]]:
    for key, name in _SINGLE.items():
        value = getattr(spec, name)
        if value is not None:
            yield key, str(value)
    yield "umask", f"{spec.umask:o}"
    for key, name in _REPEATED.items():
        for value in getattr(spec, name):
            yield key, str(value)
    for name, limit in spec.limits.items():
        yield "rlimit", f"{name}:{_limit_text(limit.soft)}:{_limit_text(limit.hard)}"
    for bind in spec.binds:
        if "\n" in bind.source + bind.target:
            raise BadSpec(
                f"a line break in the path of a mount: {bind.source!r} at {bind.target!r}"
            )
        yield "bind_rw" if bind.writable else "bind_ro", f"{bind.source}\n{bind.target}"
    if spec.tap is not None:
        yield "tap", f"{spec.tap.namespace}\n{spec.tap.interface}"
    yield from _variables("env", spec.environment)
    yield from _variables("unmounted_env", spec.unmounted_environment)


def _variables(key: str, variables: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in variables.items():
        if not name or "=" in name:
            raise BadSpec(f"an environment variable cannot be called {name!r}")
        yield key, f"{name}={value}"


def encode_spec(spec: JobSpec) -> bytes:
    """Encode `JOB/spec`. Raises BadSpec for what the format cannot carry."""
    parts = [HEADER]
    for key, value in _records(spec):
        if "\0" in value:
            raise BadSpec(
                f"{key} holds a NUL character, which no program can receive: {value[:40]!r}"
            )
        parts.append(key.encode() + b"=" + _encode_value(key, value) + b"\0")
    whole = b"".join(parts)
    if len(whole) > MAX_SPEC_BYTES:
        raise BadSpec(
            f"command and environment take {len(whole)} bytes; {MAX_SPEC_BYTES} is the most"
        )
    return whole


def _encode_value(key: str, value: str) -> bytes:
    try:
        return os.fsencode(value)
    except UnicodeEncodeError as error:
        raise BadSpec(f"{key} holds text that no program can receive: {value[:40]!a}") from error


def _read_limit(value: str) -> tuple[str, ResourceLimit]:
    name, soft, hard = value.split(":")
    return name, ResourceLimit(_parse_limit(soft), _parse_limit(hard))


def _parse_limit(text: str) -> int | None:
    return None if text == "unlimited" else int(text)


def decode_spec(content: bytes) -> JobSpec:
    """Decode what `encode_spec` wrote.

    Raises:
        BadSpec: The file is from another version, cut short or damaged.
    """
    try:
        return _decode(content)
    except (ValueError, TypeError) as error:
        raise BadSpec(f"the job description is damaged: {error}") from error


def _decode(content: bytes) -> JobSpec:
    if not content.startswith(HEADER) or not content.endswith(b"\0"):
        raise BadSpec("the job description is from another version, or cut short")
    found: dict[str, Any] = {name: [] for name in _REPEATED.values()}
    environments: dict[str, dict[str, str]] = {"env": {}, "unmounted_env": {}}
    limits: dict[str, ResourceLimit] = {}
    binds: list[BindMount] = []
    for record in content[len(HEADER) : -1].split(b"\0"):
        key, _, value = os.fsdecode(record).partition("=")
        if key in environments:
            variable, text = value.split("=", 1)
            environments[key][variable] = text
        elif key in ("bind_ro", "bind_rw"):
            source, _, target = value.partition("\n")
            binds.append(BindMount(source, target, key == "bind_rw"))
        elif key == "rlimit":
            limit_name, limit = _read_limit(value)
            limits[limit_name] = limit
        elif key == "tap":
            namespace, _, interface = value.partition("\n")
            found["tap"] = Tap(namespace, interface)
        elif key == "umask":
            found["umask"] = int(value, 8)
        elif name := _REPEATED.get(key):
            found[name].append(int(value) if name in _INTEGERS else value)
        elif name := _SINGLE.get(key):
            found[name] = int(value) if name in _INTEGERS else value
        else:
            raise BadSpec(
                f"unknown key {key!r} in the job description: written by a newer gpupool?"
            )
    found |= {name: tuple(found[name]) for name in _REPEATED.values()}
    return JobSpec(
        **found,
        binds=tuple(binds),
        environment=environments["env"],
        unmounted_environment=environments["unmounted_env"],
        limits=limits,
    )


def write_spec(job_dir: Path, spec: JobSpec) -> None:
    """Write `JOB/spec` whole or not at all. The directory must exist.

    Idempotent; blocks for one fsync.
    """
    temporary = job_dir / "spec.tmp"
    content = encode_spec(spec)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, job_dir / "spec")


def read_spec(job_dir: Path) -> JobSpec:
    """Read the description in a job's directory. Raises FileNotFoundError or BadSpec."""
    return decode_spec((job_dir / "spec").read_bytes())
