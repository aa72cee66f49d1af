"""The checks that every server makes of its own process: threads, descriptors, space
(docs/decisions/0014).

The rooms add theirs where they are put together (`compose`). Nothing here waits.
"""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gpupool.base.anew import list_recent_restarts
from gpupool.base.clock import LedgerClock
from gpupool.base.health import Check, CheckFinding, fail, warn, well
from gpupool.base.room import write_problem
from gpupool.base.supervision import BodyRegister

#: Free bytes below which logs and the database are about to stop; the same as `gpupool doctor` uses
#: by itself.
NO_SPACE_BYTES: Final = 64 << 20
LOW_SPACE_BYTES: Final = 1 << 30
#: Seconds by which wall clock and books may differ; NTP slews by less.
MOST_CLOCK_SECONDS: Final = 1.0
#: Parts of the limit on open files.
_MANY = 0.80
_MOST = 0.95
SEE_LOG: Final = "see server.log in the state directory"


def threads_check(register: BodyRegister) -> Check:
    """Make the check that every supervised thread and task does its work."""

    def look() -> CheckFinding:
        troubles = register.list_troubles()
        if troubles:
            return fail("; ".join(f"{one.name} {one.text}" for one in troubles), SEE_LOG)
        failures = sum(register.count_failures().values())
        told = f", {failures} failures since the start" if failures else ""
        return well(f"{len(register.list_names())} supervised, all work{told}")

    return look


def descriptors_check() -> CheckFinding:
    """Check how many files, sockets and pipes this process may still open."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    try:
        used = len(os.listdir("/proc/self/fd"))
    except OSError as error:
        return fail(
            f"none is left of {limit}: {error}",
            "raise the limit on open files (ulimit -n) and start anew",
        )
    said = f"{used} of {limit} open files used"
    if used >= limit * _MOST:
        return fail(said, "raise the limit on open files (ulimit -n) and start anew")
    return (
        warn(said, "raise the limit on open files (ulimit -n)")
        if used >= limit * _MANY
        else well(said)
    )


def space_check(place: Path) -> Check:
    """Make the check that the state directory has room for logs and for the database."""

    def look() -> CheckFinding:
        problem = write_problem(place)
        if problem:
            return fail(
                f"{place} cannot be written: {problem}",
                "see dmesg; mount it writable, then  gpupool restart",
            )
        free = shutil.disk_usage(place).free
        said = f"{free >> 20} MiB free at {place}"
        if free < NO_SPACE_BYTES:
            return fail(
                said, "free some space: gpupool stop and gpupool down --purge work without any"
            )
        return warn(said, "make room: logs need it") if free < LOW_SPACE_BYTES else well(said)

    return look


def clock_check(clock: LedgerClock) -> Check:
    """Make the check that the wall clock still is where it was when the books began."""

    def look() -> CheckFinding:
        ahead = clock.ahead_ns() / 1e9
        if ahead > MOST_CLOCK_SECONDS:
            said = f"the books run {ahead:.0f} s ahead of the wall clock, which was set back"
            return warn(
                said, "set the clock right (NTP); the books wait for it and never run backwards"
            )
        if ahead < -MOST_CLOCK_SECONDS:
            said = f"the wall clock was set forward: the books are {-ahead:.0f} s behind it"
            return warn(said, "set the clock right (NTP); if it is right now:  gpupool restart")
        return well("the books follow the wall clock")

    return look


def nodes_check(silent_nodes: Callable[[], list[str]]) -> Check:
    """Make the check that every node's agent is heard."""

    def look() -> CheckFinding:
        silent = silent_nodes()
        if not silent:
            return well("every agent is heard")
        some = ", ".join(silent[:5]) + (", …" if len(silent) > 5 else "")
        said = f"silent: {some}; their jobs go on unseen, nothing starts there"
        return fail(
            said, "see whether the machine and its agent run and reach this server:  gpupool events"
        )

    return look


def restarts_check(now: float) -> Check:
    """Make the check that this process did not begin anew by itself.

    Args:
        now: When the process began, in seconds since the epoch.
    """
    times = len(list_recent_restarts(os.environ, now))

    def look() -> CheckFinding:
        if times:
            return warn(
                f"the server began anew by itself {times} times in the 10 minutes before its start",
                SEE_LOG,
            )
        return well("the server has not begun anew by itself")

    return look
