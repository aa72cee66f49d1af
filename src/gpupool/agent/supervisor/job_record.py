"""Reads the records of a job, `JOB/started` and `JOB/exit`, as the supervisor wrote them.

Must not know how a supervisor is reached: it works the same years after the job.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, cast

State = Literal["ended", "failed_to_start"]
Reason = Literal["exited", "signalled", "stopped", "interrupted", "max_time", "failed_to_start"]

_LARGEST_RECORD: Final = 65536

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ExitRecord:
    """How a job ended.

    Either `exit_code` or `signal` is set or, where the job never ran, `errno`, `stage` and
    `message`. Times are wall clock and boot time in nanoseconds; 0 means that it never started. CPU
    time counts every process of the job that was waited for.

    Attributes:
        leftover: Processes that could not be ended for want of rights.
        out_of_memory_bytes: The kernel ended a process of the job for want of host memory; the
            limit that the job had, 0 where it is unknown.
    """

    state: State
    reason: Reason
    exit_code: int | None
    signal: int | None
    core_dumped: bool
    errno: int | None
    stage: str
    message: str
    started_ns: int
    ended_ns: int
    started_boot_ns: int
    ended_boot_ns: int
    user_us: int
    system_us: int
    max_rss_bytes: int
    memory_peak_bytes: int | None
    log_bytes: int
    lost_bytes: int
    share: str
    share_refused: str
    leftover: int
    out_of_memory_bytes: int | None = None

    @property
    def shell_code(self) -> int:
        """The exit code that a shell would show."""
        return shell_code(self.exit_code, self.signal, self.errno)


@dataclass(frozen=True)
class StartRecord:
    """When a job was started, and its processes.

    Attributes:
        pid: The command's process; None if the supervisor died at that moment, as `start_ticks`.
        is_original: False for a copy of the supervisor's record: the processes are another pool's.
    """

    supervisor_pid: int
    boot_id: str
    started_ns: int
    started_boot_ns: int
    pid: int | None
    start_ticks: int | None
    is_original: bool = True


def shell_code(exit_code: int | None, signal: int | None, errno: int | None) -> int:
    """Return the exit code that a shell would show.

    It is 0 to 255, 128 + signal, 127 for a command that was not found, 126 for one that cannot be
    run.
    """
    if exit_code is not None:
        return exit_code
    if signal is not None:
        return 128 + signal
    return 127 if errno == 2 else 126


def _read_pairs(path: Path, header: str) -> dict[str, str] | None:
    try:
        with path.open("rb") as file:
            # A message that names a long path may be cut in the middle of a letter, and a report
            # holds none of a half.
            text = file.read(_LARGEST_RECORD).decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    first, _, rest = text.partition("\n")
    if first != header:
        return None
    # Not splitlines(): a message may hold other marks that end a line for it, as U+2028.
    return dict(line.split("=", 1) for line in rest.split("\n") if "=" in line)


def parse_exit(pairs: Mapping[str, str]) -> ExitRecord:
    """Make an exit record from its keys. Keys of a newer supervisor are ignored."""

    def number(key: str) -> int | None:
        return int(pairs[key]) if key in pairs else None

    return ExitRecord(
        state=cast(State, pairs["state"]),
        reason=cast(Reason, pairs["reason"]),
        exit_code=number("exit_code"),
        signal=number("signal"),
        core_dumped=pairs.get("core_dumped") == "1",
        errno=number("errno"),
        stage=pairs.get("stage", ""),
        message=pairs.get("message", ""),
        started_ns=number("started_ns") or 0,
        ended_ns=number("ended_ns") or 0,
        started_boot_ns=number("started_boot_ns") or 0,
        ended_boot_ns=number("ended_boot_ns") or 0,
        user_us=number("user_us") or 0,
        system_us=number("system_us") or 0,
        max_rss_bytes=number("max_rss_bytes") or 0,
        memory_peak_bytes=number("memory_peak_bytes"),
        log_bytes=number("log_bytes") or 0,
        lost_bytes=number("lost_bytes") or 0,
        share=pairs.get("share", "none"),
        share_refused=pairs.get("share_refused", ""),
        leftover=number("leftover") or 0,
        out_of_memory_bytes=number("out_of_memory_bytes"),
    )


def read_exit(job_dir: Path) -> ExitRecord | None:
    """Read the exit record; None while there is none, and of one that a disk has damaged.

    It appears whole or not at all.
    """
    path = job_dir / "exit"
    pairs = _read_pairs(path, "gpupool-exit 1")
    if pairs is None:
        return None
    try:
        return parse_exit(pairs)
    except (KeyError, ValueError) as problem:
        log.error("%s cannot be understood: %r", path, problem)
        return None


def read_started(job_dir: Path) -> StartRecord | None:
    """Read when the job was started; None if it was not, or power was lost in that instant."""
    path = job_dir / "started"
    pairs = _read_pairs(path, "gpupool-started 1")
    if pairs is None or "started_boot_ns" not in pairs:
        return None
    try:
        return _parse_start(path, pairs)
    except (KeyError, ValueError) as problem:
        log.error("%s cannot be understood: %r", path, problem)
        return None


def _parse_start(path: Path, pairs: Mapping[str, str]) -> StartRecord:
    return StartRecord(
        supervisor_pid=int(pairs["supervisor_pid"]),
        boot_id=pairs["boot_id"],
        started_ns=int(pairs["started_ns"]),
        started_boot_ns=int(pairs["started_boot_ns"]),
        pid=int(pairs["pid"]) if "pid" in pairs else None,
        start_ticks=int(pairs["start_ticks"]) if "start_ticks" in pairs else None,
        is_original=_is_file(path, pairs.get("file", "")),
    )


def _is_file(path: Path, written: str) -> bool:
    """Whether the file is the one that `DEVICE:INODE` names; supervisors before 0.2.0 wrote "".

    The numbers stay true while a job lives: a file system in use is not mounted anew.
    """
    found = path.stat()
    return written in ("", f"{found.st_dev}:{found.st_ino}")
