"""An agent whose writes are recorded while jobs begin and end, and what it must know after every
power cut.

Once a client has seen a job run, the node knows it after a power cut: its checkpoint is there and
whole, and so is the note of what was prepared for it. Else the next agent would not end, adopt or
unprepare what it finds.
"""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from gpupool.agent.jobs.checkpoint import Checkpoint
from gpupool.base.client_settings import ClientSettings
from gpupool.client.transport import Api
from tests.faults.pool import FaultPool, until
from tests.support.power_loss.disk import Disk, acknowledge, records
from tests.support.power_loss.rounds import compiled

CLIENTS = 2
JOBS = 3


def recorded_agent(folder: Path) -> Path:
    """Run so many jobs in a pool, to their ends; the journal of its writes and of what its clients
    saw."""
    journal = folder / "journal"
    pool = FaultPool(folder / "pool", sim="1xT4")
    with pool:
        pool.up(
            LD_PRELOAD=str(compiled(folder)),
            POWER_ROOT=str(folder / "pool"),
            POWER_JOURNAL=str(journal),
        )
        clients = [threading.Thread(target=_client, args=(pool, journal)) for _ in range(CLIENTS)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        pool.down()
    return journal


def _client(pool: FaultPool, journal: Path) -> None:
    """Submit a share, see it run, stop it, see it end, over and over."""
    with Api(ClientSettings(state_dir=str(pool.paths.root))) as api:
        for _ in range(JOBS):
            body = {
                "shape": {"gpu_milli": 300, "memory_bytes": 1 << 30},
                "launch": {"argv": ["sleep", "600"]},
            }
            job = api.request("POST", "jobs", body)["first"]["id"]
            until(partial(_is_running, api, job), f"{job} running")
            acknowledge(journal, begun=job)
            acknowledge(journal, stopping=job)
            api.request("POST", f"jobs/{job}/stop", {"grace_seconds": 0})
            until(partial(_has_ended, api, job), f"the end of {job}")


def _is_running(api: Api, job: str) -> bool:
    return bool(api.request("GET", f"jobs/{job}")["state"] == "running")


def _has_ended(api: Api, job: str) -> bool:
    return api.request("GET", f"jobs/{job}")["state"] not in ("running", "stopping")


@dataclass
class Verdict:
    """What so many cuts came to: jobs looked for, and what was not found, in sentences."""

    looked: int = 0
    broken: list[str] = field(default_factory=list)


def cut_agent(journal: Path, disks: int, seed: int, *, flushes: bool = True) -> Verdict:
    """Cut the power whenever a job has been seen, and look at so many disks each time. `flushes`:
    False for a disk that lies about them.
    """
    chance = random.Random(seed)
    disk, running, verdict = Disk(), set[str](), Verdict()
    for record in records(journal):
        if record.kind == "a":
            _follow(json.loads(record.data), running)
            for _ in range(disks if running else 0):
                verdict.looked += len(running)
                verdict.broken += _look(disk.cut(chance), running)
        elif flushes or record.kind != "s":
            disk.follow(record)
    return verdict


def _follow(said: dict[str, Any], running: set[str]) -> None:
    if "begun" in said:
        running.add(said["begun"])
    running.discard(said.get("stopping", ""))


def _look(files: dict[str, bytes], running: Iterable[str]) -> Iterator[str]:
    for job in sorted(running):
        checkpoint = _entry(files, f"/jobs/{job}/allocation.json")
        if checkpoint is None:
            yield f"the checkpoint of {job} is gone or damaged"
            continue
        allocation = Checkpoint(
            **{key: value for key, value in checkpoint.items() if key != "version"}
        ).allocation
        note = _entry(files, f"/prepared/{allocation}/note.json")
        if note is None or note["allocation"] != allocation:
            yield f"the note of {allocation} of {job} is gone or damaged"


def _entry(files: dict[str, bytes], end: str) -> dict[str, Any] | None:
    content = next((data for path, data in files.items() if path.endswith(end)), None)
    try:
        return None if content is None else dict(json.loads(content))
    except ValueError:
        return None
