"""One account does its worst for a minute while another one works: what the second notices, and
what is left.

The attacks come one after the other, each from WORKERS processes of one uid. The other account asks
for its jobs and submits one, again and again. Needs root, which alone can be several people.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.pool_fixture import RealPool

MALLORY, ALICE = 54351, 54352
WORKERS = 8
PATIENCE_SECONDS = 60


class Local(http.client.HTTPConnection):
    """HTTP over the pool's socket."""

    def __init__(self, path: str) -> None:
        super().__init__("pool", timeout=PATIENCE_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE_SECONDS)
        self.sock.connect(self._path)


@dataclass
class Account:
    """Raw requests of one account: what no client checks before it sends."""

    path: str
    chance: random.Random

    def ask(
        self, method: str, target: str, body: Any = None, *, content: bytes | None = None
    ) -> tuple[int, bytes]:
        """Status and answer; status 0 where the connection was closed."""
        connection = Local(self.path)
        try:
            payload = json.dumps(body).encode() if content is None and body is not None else content
            headers = {"content-type": "application/json"} if payload is not None else {}
            connection.request(method, f"/api/v1/{target}", payload, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            return 0, b""
        finally:
            connection.close()


def job(**more: Any) -> dict[str, Any]:
    launch = {"argv": ["/bin/sleep", "600"], "env": {"PATH": "/usr/bin:/bin"}}
    return {"shape": {"gpu_milli": 1000}, "launch": launch, **more}


def huge_arrays(me: Account) -> int:
    return me.ask("POST", "jobs", job(array=1_000_000))[0]


def submissions(me: Account) -> int:
    """Each of a shape of its own, so that each is a class of the queue."""
    shape = {"gpu_milli": me.chance.randint(1, 999), "memory_bytes": me.chance.randint(1, 10**10)}
    return me.ask("POST", "jobs", job() | {"shape": shape})[0]


def gangs(me: Account) -> int:
    roles = [{"name": "worker", "count": 2000}]
    return me.ask(
        "POST", "jobs", job(gang={"name": "all", "parts": roles}) | {"shape": {"gpu_milli": 1}}
    )[0]


def watches(me: Account) -> int:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(PATIENCE_SECONDS)
        connection.connect(me.path)
        connection.sendall(b"GET /api/v1/watch HTTP/1.1\r\nHost: pool\r\n\r\n")
        said = connection.recv(65536)
    except OSError:
        connection.close()
        return 0
    _HELD.append(connection)
    return int(said.split(b" ")[1]) if said else 0


_HELD: list[socket.socket] = []


def stops(me: Account) -> int:
    return me.ask(
        "POST", f"jobs/{me.chance.choice(('last', 'alice', 'nobody', 'job.1'))}/stop", {}
    )[0]


def questions(me: Account) -> int:
    if me.chance.random() < 0.1:
        return me.ask("POST", "whatif", {"horizon_seconds": 86400})[0]
    return me.ask(
        "GET",
        me.chance.choice(("jobs/last/explain", "queue?limit=1000", "jobs?limit=1000", "quotas")),
    )[0]


def crowds(me: Account) -> int:
    """Thirty requests at once for what is longest to answer; the commonest status."""
    seen = Counter[int]()

    def ask() -> None:
        one = Account(me.path, random.Random(threading.get_ident()))
        seen[
            one.ask(
                "GET",
                one.chance.choice(("queue?limit=1000", "jobs?limit=1000", "jobs/last/explain")),
            )[0]
        ] += 1

    crowd = [threading.Thread(target=ask) for _ in range(30)]
    for one in crowd:
        one.start()
    for one in crowd:
        one.join()
    return seen.most_common(1)[0][0]


def large_bodies(me: Account) -> int:
    body = job()
    body["launch"]["env"] |= {f"NOISE{n}": "x" * 120_000 for n in range(30)}
    return me.ask("POST", "jobs", body)[0]


def nonsense(me: Account) -> int:
    content = me.chance.choice(
        (b"{", b"[" * 100_000, b"\0" * 1000, b'{"shape":{"gpu_milli":1e400}}', b"\xff" * 1000)
    )
    target = me.chance.choice(("jobs", "tokens", "jobs/%00/stop", "users", "tenants", "arrays"))
    return me.ask("POST", target, content=content)[0]


def tokens(me: Account) -> int:
    return me.ask("POST", "tokens", {"label": "more"})[0]


ATTACKS: tuple[Callable[[Account], int], ...] = (
    huge_arrays, submissions, crowds, gangs, watches, stops, questions, large_bodies, nonsense, tokens,
)  # fmt: skip


@dataclass
class Found:
    """What came of it."""

    attacks: dict[str, Counter[int]]
    ps_seconds: list[tuple[float, str]]
    submit_seconds: list[tuple[float, str]]
    statuses: Counter[int]
    pinned_milli: int
    log_bytes: int

    @property
    def failures(self) -> int:
        """Answers of the other account that say that the server failed."""
        return sum(count for status, count in self.statuses.items() if status == 0 or status >= 500)


def child(uid: int, act: Callable[[], object]) -> tuple[int, Any]:
    """The process of that account, and where its answer is read."""
    read, write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write)
        return pid, os.fdopen(read)
    os.close(read)
    try:
        os.setgroups([uid])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        with os.fdopen(write, "w") as said:
            json.dump(act(), said)
    finally:
        os._exit(0)


def attack(path: str, seconds: float) -> dict[str, Counter[int]]:
    """Each attack for its part of the time; statuses by attack."""
    found: dict[str, Counter[int]] = {}
    for one in ATTACKS:

        def act(one: Callable[[Account], int] = one) -> object:
            me = Account(path, random.Random(os.getpid()))
            until, seen = time.monotonic() + seconds / len(ATTACKS), Counter[int]()
            while time.monotonic() < until:
                seen[one(me)] += 1
            return seen

        running = [child(MALLORY, act) for _ in range(WORKERS)]
        found[one.__name__] = Counter()
        for pid, said in running:
            with said:
                found[one.__name__].update(
                    {int(status): count for status, count in json.load(said).items()}
                )
            os.waitpid(pid, 0)
    return found


def work(path: str, stop: Path) -> object:
    """The other account's minute: seconds of each `ps` and submission with when they began, and the
    statuses."""
    me, begun = Account(path, random.Random(1)), time.monotonic()
    ps, submits, statuses = list[tuple[float, float]](), list[tuple[float, float]](), Counter[int]()
    while not stop.exists():
        small = job() | {"shape": {"gpu_milli": 1}}
        for times, asked in ((ps, ("GET", "jobs?limit=100")), (submits, ("POST", "jobs", small))):
            at = time.monotonic()
            statuses[me.ask(*asked)[0]] += 1
            times.append((time.monotonic() - at, at - begun))
    return {"ps": ps, "submits": submits, "statuses": statuses}


def worst(pool: RealPool, seconds: float) -> Found:
    """Let both go at it. The directory of the pool is open to every account."""
    path, stop = str(pool.state_dir / "gpupool.sock"), pool.state_dir.parent / "stop"
    pid, said = child(ALICE, lambda: work(path, stop))
    try:
        attacks = attack(path, seconds)
    finally:
        stop.touch()
    with said:
        heard = json.load(said)
    os.waitpid(pid, 0)
    names = [one.__name__ for one in ATTACKS]

    def during(times: list[tuple[float, float]]) -> list[tuple[float, str]]:
        return [
            (took, names[min(len(names) - 1, int(at / seconds * len(names)))]) for took, at in times
        ]

    _stop_all(Account(path, random.Random(0)))
    statuses = Counter({int(status): count for status, count in heard["statuses"].items()})
    log = sum(file.stat().st_size for file in pool.state_dir.glob("server.log*"))
    return Found(
        attacks, during(heard["ps"]), during(heard["submits"]), statuses, _pinned(pool), log
    )


def _stop_all(root: Account) -> None:
    """What both left, as root: arrays and gangs by their names, the rest by id."""
    while True:
        _, answer = root.ask("GET", "jobs?live=true&limit=1000")
        live = [one for one in json.loads(answer)["items"] if one["state"] != "stopped"]
        if not live:
            return
        for name in {one["array"] or one["id"] for one in live}:
            root.ask("POST", f"jobs/{name}/stop", {"grace_seconds": 0})


def _pinned(pool: RealPool) -> int:
    """What is held that no live job accounts for."""
    live = json.loads(pool.do("ps", "--live", "-o", "json"))
    held: int = sum(seat["gpu_milli"] for one in live for seat in one["seats"])
    return pool.held_milli() - held
