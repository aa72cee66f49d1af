"""Describe why a pool on this machine does not answer, by its state directory and its process.

Asks no server. A pool that ended by itself, is stopped or hangs fails the check; one that was told
to stop does not.
"""

from __future__ import annotations

import json
import os
from typing import Any

from gpupool.base.errors import PoolLost, PoolNotRunning
from gpupool.terminal.check_rows import FAIL, OK, WARN, Check, make_check

#: Within so many seconds a server that is well answers; what is wrong is to be said within 10.
ANSWER_SECONDS = 4


def describe_absent(state_dir: str, error: PoolNotRunning) -> Check:
    """Make the row of a pool that is not running.

    A pool that was ended has cleared its pid; one that still names it has ended by itself.
    """
    known = _read_marker(state_dir)
    pid = known.get("pid")
    lost = _describe_lost_database(state_dir, known)
    if lost is not None:
        return lost
    if pid is None:
        return make_check("pool", OK, error.message, error.hint)
    # Z: ended and not yet waited for by its parent.
    if _read_process_state(pid) not in ("", "Z"):
        return make_check(
            "pool",
            WARN,
            f"its server (pid {pid}) does not answer: it starts, begins anew or ends",
            "try again",
        )
    ended = f"its server (pid {pid}) ended without being told to"
    following = "gpupool up -d  takes them up again; server.log says why it ended"
    return make_check("pool", FAIL, f"{ended}; running jobs go on, nothing new starts", following)


def describe_stuck(state_dir: str, error: PoolLost) -> Check:
    """Make the row of a server that is there and says nothing."""
    pid = _read_marker(state_dir).get("pid")
    state = _read_process_state(pid)
    said = f"its server (pid {pid}) does not answer within {ANSWER_SECONDS} s"
    # Stopped, as by Ctrl-Z or a debugger; proc(5).
    if state in ("T", "t"):
        return make_check("pool", FAIL, f"{said}: it is stopped by a signal", f"kill -CONT {pid}")
    # In a system call that cannot be interrupted: no signal ends it before the disk answers.
    if state == "D":
        return make_check(
            "pool", FAIL, f"{said}: the kernel holds it, as where a disk hangs", "see dmesg"
        )
    if not state:
        return make_check(
            "pool", FAIL, error.message, "see whether that machine and its server run"
        )
    return make_check(
        "pool", FAIL, said, f"see {state_dir}/server.log;  gpupool restart  begins anew, jobs go on"
    )


def _read_marker(state_dir: str) -> dict[str, Any]:
    """Read `pool.json`; empty where it cannot be read."""
    try:
        with open(f"{state_dir}/pool.json", encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _read_process_state(pid: object) -> str:
    """Read the letter of a process's state (proc(5)); empty where it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            # The name before it may hold blanks and brackets: the last bracket ends it.
            return file.read().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def _describe_lost_database(state_dir: str, known: dict[str, Any]) -> Check | None:
    """Make the row of a pool that ended because its database was removed or replaced, else None."""
    database = f"{state_dir}/gpupool.db"
    is_there = os.path.exists(database)
    # The server saved what it still had open under this name before it ended.
    is_rescued = os.path.exists(f"{database}.rescued")
    if not known.get("begun") or known.get("store") or (is_there and not is_rescued):
        return None
    what = "was replaced by another file" if is_there else "is missing"
    if not is_rescued:
        following = "gpupool restore BACKUP  puts a saved copy in its place"
        return make_check(
            "pool",
            FAIL,
            f"{database} {what}: the jobs and the books of the pool were in it",
            following,
        )
    following = f"cd {state_dir}; rm -f gpupool.db-wal gpupool.db-shm; mv gpupool.db.rescued gpupool.db; gpupool up -d"
    said = f"{database} {what} while the pool ran; what it held is saved as gpupool.db.rescued, jobs go on"
    return make_check("pool", FAIL, said, following)
