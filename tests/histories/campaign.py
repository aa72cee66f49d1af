"""One history: clients at work on a real pool while its server is killed, paused and its wall clock
stepped."""

from __future__ import annotations

import os
import random
import signal
import struct
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from gpupool.client.transport import Api
from tests.faults.harness import Broken
from tests.faults.pool import FaultPool, answer_of, until
from tests.histories.linearizability import Model, check
from tests.histories.models import EXISTENCE, HOLDER, QUOTA, RUNNING_JOB, SUBMISSION
from tests.histories.recorder import GIB, Client, History, Objects

MODELS: dict[str, Model] = {
    "quota": QUOTA,
    "tenant": EXISTENCE,
    "name": HOLDER,
    "submission": SUBMISSION,
    "running": RUNNING_JOB,
}
CLIENTS = 5
FAULTS = ("kill", "kill", "pause", "clock")
FAULT_EVERY_SECONDS = 1.2
STEPS_NS = (-3600 * 10**9, -(10**9), 10**9, 86400 * 10**9)


@dataclass
class Counts:
    """What histories did."""

    operations: int = 0
    unanswered: int = 0
    objects: int = 0
    faults: Counter[str] = field(default_factory=Counter)

    def add(self, other: Counts) -> None:
        self.operations += other.operations
        self.unanswered += other.unanswered
        self.objects += other.objects
        self.faults += other.faults

    def __str__(self) -> str:
        faults = ", ".join(f"{count} × {what}" for what, count in sorted(self.faults.items()))
        return f"{self.operations} requests ({self.unanswered} without an answer) to {self.objects} objects; {faults}"


def run_history(directory: Path, seed: int, *, faults: int = 4) -> Counts:
    """Record one history and check it. Raises Broken with the seed and the part that no order
    explains."""
    directory.mkdir(parents=True, exist_ok=True)
    pool = FaultPool(directory / "state", sim="4xL40S")
    step = _Clock(directory)
    try:
        return _run(pool, step, seed, faults)
    except AssertionError as error:
        raise Broken(f"{pool.log_tail()}\n---\nseed {seed}: {error}") from error
    finally:
        pool.destroy()


def _run(pool: FaultPool, clock: _Clock, seed: int, faults: int) -> Counts:
    chance, history, counts = random.Random(seed), History(), Counts()
    pool.up(**clock.environment)
    objects = _objects(pool)
    clients = [Client(pool, objects, history, number, str(seed)) for number in range(CLIENTS)]
    ways: dict[str, Callable[[], None]] = {
        "kill": lambda: _kill(pool, clock),
        "pause": lambda: _pause(pool, chance.uniform(0.2, 2)),
        "clock": lambda: clock.step(chance.choice(STEPS_NS)),
    }
    try:
        for _ in range(faults):
            time.sleep(
                chance.uniform(0, FAULT_EVERY_SECONDS)
            )  # the random moment; nothing is awaited by it
            what = chance.choice(FAULTS)
            ways[what]()
            counts.faults[what] += 1
    finally:
        for client in clients:
            client.end()
    _read_all_once_more(pool, objects, history)
    wrong = broken(history)
    assert not wrong, "\n\n".join(wrong)
    counts.operations, counts.unanswered, counts.objects = (
        history.count,
        history.unanswered,
        len(history.by_object),
    )
    pool.down()
    return counts


def broken(history: History) -> list[str]:
    """One text for each object whose requests no order explains."""
    wrong = []
    for (kind, name), operations in sorted(history.by_object.items()):
        verdict = check(MODELS[kind], operations)
        if not verdict.linearizable:
            explained = "\n".join(map(str, verdict.explained[-12:]))
            stuck = "\n".join(map(str, verdict.stuck))
            wrong.append(
                f"{kind} {name}: no order explains it. Explained:\n{explained}\nnext, but impossible:\n{stuck}"
            )
    return wrong


def _objects(pool: FaultPool) -> Objects:
    """Fill the pool: two cards with whole jobs, two with a job each that is resized."""
    running = []
    with pool.api() as api:
        answer_of(api, "POST", "tenants", {"name": "registers"}, idempotency_key="registers")
        for number in range(4):
            milli = 1000 if number < 2 else 600
            environment = {"PATH": "/usr/bin:/bin", "FAULT_POOL": str(pool.paths.root)}
            body = {
                "shape": {"gpu_milli": milli, "memory_bytes": 30 * GIB},
                "launch": {"argv": ["sleep", "600"], "cwd": "/", "env": environment},
            }
            job = answer_of(api, "POST", "jobs", body, idempotency_key=f"fill-{number}")["first"][
                "id"
            ]
            until(partial(_runs, api, job), f"{job} running")
            if milli < 1000:
                running.append(job)
    return Objects("registers", ("red", "green"), ("alpha", "beta"), tuple(running))


def _runs(api: Api, job: str) -> bool:
    return bool(answer_of(api, "GET", f"jobs/{job}")["state"] == "running")


def _read_all_once_more(pool: FaultPool, objects: Objects, history: History) -> None:
    """What an acknowledged write left is read after the last fault, so that a lost one shows."""
    reader = Client(pool, objects, history, CLIENTS, "the last reader")
    count = history.count
    until(lambda: history.count >= count + 60, "sixty more requests")
    reader.end()


def _kill(pool: FaultPool, clock: _Clock) -> None:
    pool.kill_server()
    pool.up(**clock.environment)


def _pause(pool: FaultPool, seconds: float) -> None:
    pid = pool.server_pid()
    if pid is None:
        return
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(seconds)  # how long it is paused; nothing is awaited by it
    finally:
        os.kill(pid, signal.SIGCONT)


class _Clock:
    """The wall clock of a pool's server, by a preloaded library that adds what a file says."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "clock-step"
        self._file.write_bytes(struct.pack("q", 0))
        self._now_ns = 0
        library = directory / "clock_step.so"
        source = Path(__file__).with_name("clock_step.c")
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source)], check=True
        )
        self.environment = {"LD_PRELOAD": str(library), "CLOCK_STEP_FILE": str(self._file)}

    def step(self, by_ns: int) -> None:
        """Set the clock of the server that runs, and of those that are started later."""
        self._now_ns += by_ns
        with open(self._file, "r+b") as file:
            file.write(struct.pack("q", self._now_ns))
