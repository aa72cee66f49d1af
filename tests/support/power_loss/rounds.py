"""A pool whose writes are recorded under load, and what must be so on every disk that a power cut
could leave."""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpupool.base.client_settings import ClientSettings
from gpupool.client.transport import Api
from tests.faults.pool import FaultPool
from tests.support.power_loss.disk import Disk, Record, acknowledge, records

SOURCE = Path(__file__).with_name("record.c")
CLIENTS = 3
_FILES = ("gpupool.db", "gpupool.db-wal", "pool.json", "identity")


def compiled(folder: Path) -> Path:
    """The recorder, as a library to preload."""
    made = folder / "record.so"
    subprocess.run(
        ["cc", "-O2", "-shared", "-fPIC", "-o", str(made), str(SOURCE), "-ldl"], check=True
    )
    return made


def recorded(folder: Path, *, seconds: float, sync: str = "group") -> Path:
    """Run a pool under load for so long; the journal of its writes and of what its clients were
    told."""
    journal = folder / "journal"
    pool = FaultPool(folder / "pool", sim="1xT4")
    with pool:
        pool.up(
            LD_PRELOAD=str(compiled(folder)),
            POWER_ROOT=str(folder / "pool"),
            POWER_JOURNAL=str(journal),
            GPUPOOL_FAULTS_ALLOWED="1",
            GPUPOOL_STORE_SYNC=sync,
        )
        ended = threading.Event()
        clients = [
            threading.Thread(target=_client, args=(pool, journal, n, ended)) for n in range(CLIENTS)
        ]
        clients.append(threading.Thread(target=_watcher, args=(pool, journal, ended), daemon=True))
        for client in clients:
            client.start()
        ended.wait(seconds)
        ended.set()
        for client in clients[:-1]:
            client.join()
        pool.down()
    return journal


def _client(pool: FaultPool, journal: Path, number: int, ended: threading.Event) -> None:
    """Submit, set a quota, make and revoke a token, over and over; note each answer."""
    tenant = f"t{number}"
    with Api(ClientSettings(state_dir=str(pool.paths.root))) as api:
        api.request("POST", "tenants", {"name": tenant})
        acknowledge(journal, tenant=tenant)
        turn = 0
        while not ended.is_set():
            turn += 1
            body = {"shape": {"gpu_milli": 1000}, "launch": {"argv": ["sleep", "600"]}}
            acknowledge(journal, job=api.request("POST", "jobs", body)["first"]["id"])
            made = api.request("POST", "tokens", {"label": f"{tenant}-{turn}"})
            acknowledge(journal, token=made["id"])
            api.request("DELETE", f"tokens/{made['id']}")
            acknowledge(journal, revoked=made["id"])


def _watcher(pool: FaultPool, journal: Path, ended: threading.Event) -> None:
    with Api(ClientSettings(state_dir=str(pool.paths.root))) as api:
        for event in api.stream("GET", "watch", {"after": 0}):
            acknowledge(journal, event=event["seq"], subject=event["subject"], kind=event["kind"])
            if ended.is_set():
                return


@dataclass
class Verdict:
    """What so many cuts came to. A broken promise is a sentence."""

    cuts: int = 0
    acknowledged: int = 0
    broken: list[str] = field(default_factory=list)


def cut(journal: Path, folder: Path, cuts: int, seed: int) -> Verdict:
    """Cut the power at so many points of a record, and look at what is left after each."""
    chance = random.Random(seed)
    found = list(records(journal))
    first = next(n for n, record in enumerate(found) if record.kind == "a")
    points = sorted(chance.choices(range(first, len(found)), k=cuts))
    verdict = Verdict()
    disk, told = Disk(), list[dict[str, Any]]()
    for point, records_until in _until(points, found):
        for record in records_until:
            if record.kind == "a":
                told.append(json.loads(record.data))
            else:
                disk.follow(record)
        _leave(disk.cut(chance), folder)
        verdict.cuts += 1
        verdict.acknowledged += len(told)
        verdict.broken += [f"cut at {point}: {broken}" for broken in _look(folder, told)]
    return verdict


def _until(points: list[int], found: list[Record]) -> Iterator[tuple[int, list[Record]]]:
    before = 0
    for point in points:
        yield point, found[before:point]
        before = point


def _leave(files: dict[str, bytes], folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name in (*_FILES, "gpupool.db-shm"):
        (folder / name).unlink(missing_ok=True)
    for path, data in files.items():
        if Path(path).name in _FILES:
            (folder / Path(path).name).write_bytes(data)


def _look(folder: Path, told: Iterable[dict[str, Any]]) -> Iterator[str]:
    """What was acknowledged and is not there."""
    for name in ("pool.json", "identity"):
        try:
            json.loads((folder / name).read_text())
        except (OSError, ValueError) as error:
            yield f"{name}: {error}"
    connection = sqlite3.connect(folder / "gpupool.db")
    try:
        yield from _compare(connection, told)
    except sqlite3.DatabaseError as error:
        yield f"the database cannot be read: {error}"
    finally:
        connection.close()


def _compare(connection: sqlite3.Connection, told: Iterable[dict[str, Any]]) -> Iterator[str]:
    def column(query: str) -> set[Any]:
        return {row[0] for row in connection.execute(query)}

    (sound,) = connection.execute("PRAGMA quick_check").fetchone()
    if sound != "ok":
        yield f"quick_check: {sound}"
    there = {
        "job": column("SELECT public_id FROM jobs"),
        "tenant": column("SELECT name FROM tenants"),
        "token": column("SELECT id FROM tokens"),
        "revoked": column("SELECT id FROM tokens WHERE revoked_ns IS NOT NULL"),
    }
    events = {
        row[0]: (row[1], row[2])
        for row in connection.execute("SELECT seq, kind, subject FROM events")
    }
    for one in told:
        for kind, known in there.items():
            if kind in one and one[kind] not in known:
                yield f"{kind} {one[kind]} was acknowledged and is gone"
        if "event" in one and events.get(one["event"]) != (one["kind"], one["subject"]):
            yield f"event {one['event']} was seen and is {events.get(one['event'])}"
