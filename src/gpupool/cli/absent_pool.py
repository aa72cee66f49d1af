"""Why a pool on this machine does not answer: what its state directory and its process say of it.

Asks no server. What ended by itself, is stopped or hangs is wrong; what was told to stop is not.
"""

from __future__ import annotations

import json
import os
from typing import Any

from gpupool.base.errors import PoolLost, PoolNotRunning
from gpupool.cli.check_rows import FAIL, OK, WARN, Check, check

#: Within so many seconds a server that is well answers; what is wrong is to be said within 10.
ANSWER_SECONDS = 4


def no_pool(state_dir: str, error: PoolNotRunning) -> Check:
    """A pool that was ended has cleared its pid; one that still names it has ended by itself."""
    known = _marker(state_dir)
    pid = known.get("pid")
    lost = _lost_database(state_dir, known)
    if lost is not None:
        return lost
    if pid is None:
        return check("pool", OK, error.message, error.hint)
    if _process_state(pid) not in ("", "Z"):
        return check(
            "pool", WARN, f"its server (pid {pid}) does not answer: it starts, begins anew or ends", "try again"
        )
    said = f"its server (pid {pid}) ended without being told to; running jobs go on, nothing new starts"
    return check("pool", FAIL, said, "gpupool up -d  takes them up again; server.log says why it ended")


def stuck(state_dir: str, error: PoolLost) -> Check:
    """A server that is there and says nothing."""
    pid = _marker(state_dir).get("pid")
    state = _process_state(pid)
    said = f"its server (pid {pid}) does not answer within {ANSWER_SECONDS} s"
    if state in ("T", "t"):
        return check("pool", FAIL, f"{said}: it is stopped by a signal", f"kill -CONT {pid}")
    if state == "D":
        return check("pool", FAIL, f"{said}: the kernel holds it, as where a disk hangs", "see dmesg")
    if not state:
        return check("pool", FAIL, error.message, "see whether that machine and its server run")
    return check("pool", FAIL, said, f"see {state_dir}/server.log;  gpupool restart  begins anew, jobs go on")


def _marker(state_dir: str) -> dict[str, Any]:
    """What `pool.json` says; nothing where it cannot be read."""
    try:
        with open(f"{state_dir}/pool.json", encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _process_state(pid: object) -> str:
    """The letter of a process's state (proc(5)); empty where it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def _lost_database(state_dir: str, known: dict[str, Any]) -> Check | None:
    """A pool that ended because its database was removed or replaced; None where it was not."""
    database = f"{state_dir}/gpupool.db"
    is_there, is_rescued = os.path.exists(database), os.path.exists(f"{database}.rescued")
    if not known.get("begun") or known.get("store") or (is_there and not is_rescued):
        return None
    what = "was replaced by another file" if is_there else "is missing"
    if not is_rescued:
        following = "gpupool restore BACKUP  puts a saved copy in its place"
        return check("pool", FAIL, f"{database} {what}: the jobs and the books of the pool were in it", following)
    following = f"cd {state_dir}; rm -f gpupool.db-wal gpupool.db-shm; mv gpupool.db.rescued gpupool.db; gpupool up -d"
    said = f"{database} {what} while the pool ran; what it held is saved as gpupool.db.rescued, jobs go on"
    return check("pool", FAIL, said, following)
