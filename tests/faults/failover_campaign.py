"""Rounds in which the leader of two servers is killed, paused or cut off under load, and what must
hold afterwards.

`run_failovers` raises `Broken` with every broken promise; else it returns what was done and how
long takeovers took.
"""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpupool.base.errors import GpupoolError, ServiceUnavailable
from gpupool.client.transport import Api
from tests.faults import invariants
from tests.faults.harness import Broken
from tests.faults.load import MIB, Intent, Truth, stop
from tests.faults.pool import answer_of
from tests.faults.workers import Watcher, Workers
from tests.support.two_servers import Pair, Server, two_servers, until

WAYS = ("kill", "pause", "partition")
THREADS = 3
LIVE_AT_MOST = 24
RETURN_SECONDS = 120
"""A deposed leader begins anew, which is a second of a processor; no promise says how soon it is
the standby."""


@dataclass
class Failovers:
    """What was done. A takeover's seconds are from the harm until the other server answered as the
    leader."""

    ways: Counter[str] = field(default_factory=Counter)
    takeovers: list[Takeover] = field(default_factory=list)
    until_submitted: list[float] = field(default_factory=list)
    """From the harm until a client with both addresses had a submission accepted."""
    refused: Counter[str] = field(default_factory=Counter)
    """What a deposed server answered to a write, by code."""
    jobs: int = 0
    events: int = 0
    states: Counter[str] = field(default_factory=Counter)

    @property
    def seconds(self) -> list[float]:
        return [one.seconds for one in self.takeovers]


class _Load(Workers):
    """Threads that submit and stop jobs as a careful client does: under one key, until there is an
    answer."""

    def __init__(self, pair: Pair, truth: Truth, seed: int) -> None:
        super().__init__(self._work, seed, THREADS)
        self._pair, self._truth = pair, truth

    def _work(self, chance: random.Random) -> None:
        with self._pair.api() as api:
            while not self.stopping.is_set():
                if answer_of(api, "GET", "pool")["jobs_live"] < LIVE_AT_MOST:
                    submit(
                        api,
                        self._truth,
                        chance,
                        chance.choice(("quick", "nap", "nap", "fail", "hold")),
                    )
                else:
                    stop_one(api, self._truth, chance)
                self.stopping.wait(0.2)


def submit(api: Api, truth: Truth, chance: random.Random, kind: str) -> Intent:
    intent = truth.intend(kind, 1)
    launch = {
        "argv": truth.script(intent, chance.uniform(0.1, 2)),
        "cwd": "/",
        "env": {"PATH": "/usr/bin:/bin"},
    }
    body = {
        "shape": {"gpu_milli": chance.choice((50, 100, 200)), "memory_bytes": 512 * MIB},
        "launch": launch,
    }
    key = f"{chance.getrandbits(128):032x}"
    intent.first = answer_of(api, "POST", "jobs", body, idempotency_key=key)["first"]["id"]
    return intent


def stop_one(api: Api, truth: Truth, chance: random.Random) -> None:
    page = answer_of(api, "GET", "jobs", query={"live": True, "limit": 50})["items"]
    if page:
        stop(api, truth, chance.choice(page)["id"], 0)


@dataclass(frozen=True)
class Takeover:
    """One takeover: what was done to the leader, seconds until the other one answered as leader,
    and its own word.

    `late`: seconds after the end of the lease at which it saw that; `parts`: its work from then
    until it led.
    """

    way: str
    seconds: float
    late: str
    parts: str


class Campaign:
    """One pool with two servers, from its start to the last check."""

    def __init__(self, pair: Pair, truth: Truth, seed: int) -> None:
        self._pair, self._truth, self._chance = pair, truth, random.Random(seed)
        self._load = _Load(pair, truth, seed)
        self.done = Failovers()

    def run(self, rounds: int) -> Failovers:
        plan = [WAYS[number % len(WAYS)] for number in range(rounds)]
        self._chance.shuffle(plan)
        watcher = Watcher(self._pair.api())
        with self._pair.api() as api:
            held = submit(api, self._truth, self._chance, "hold")
            until(
                lambda: answer_of(api, "GET", f"jobs/{held.first}")["state"] == "running",
                "the first job running",
            )
        self._load.start()
        for way in plan:
            self._round(way)
        self._load.stop()
        self._settle(watcher)
        return self.done

    def _round(self, way: str) -> None:
        old, agent = self._pair.leader(), self._pair.agent_pid()
        new = self._pair.other(old)
        until(lambda: new.role() == "standby", "the standby")
        time.sleep(
            self._chance.uniform(0, 1.5)
        )  # a random moment of the lease; nothing is awaited by it
        began = time.monotonic()
        self._harm(way, old)
        client = threading.Thread(target=self._submitted, args=(began,), daemon=True)
        client.start()
        until(lambda: new.role() == "leader", "the takeover", RETURN_SECONDS)
        seconds = time.monotonic() - began
        client.join(60)
        late = new.last_words(" is over (").partition(" s ago")[0]
        self.done.takeovers.append(
            Takeover(way, seconds, late, new.last_words("this server leads after "))
        )
        self._repair(way, old)
        until(lambda: old.role() == "standby", "the old leader standing by", RETURN_SECONDS)
        assert self._pair.agent_pid() == agent
        until(self._pair.nodes_ready, "the nodes' readiness", 30)
        self.done.ways[way] += 1
        self._load.check()

    def _harm(self, way: str, old: Server) -> None:
        {"kill": old.kill, "pause": lambda: old.signal(signal.SIGSTOP), "partition": old.cut}[way]()

    def _submitted(self, began: float) -> None:
        with self._pair.api() as api:
            submit(api, self._truth, self._chance, "quick")
        self.done.until_submitted.append(time.monotonic() - began)

    def _repair(self, way: str, old: Server) -> None:
        if way == "kill":
            old.start()
            return
        if way == "pause":
            old.signal(signal.SIGCONT)
        self._write_at_deposed(old)
        if way == "partition":
            old.mend()

    def _write_at_deposed(self, old: Server) -> None:
        """A write at the old leader alone: refused, and in the books there is nothing of it."""
        intent = self._truth.intend("quick", 0)
        launch = {
            "argv": self._truth.script(intent, 0.1),
            "cwd": "/",
            "env": {"PATH": "/usr/bin:/bin"},
        }
        body = {"shape": {"gpu_milli": 50, "memory_bytes": 64 * MIB}, "launch": launch}
        try:
            with old.api(self._pair.token) as alone:
                alone.request("POST", "jobs", body, timeout=10)
        except GpupoolError as error:
            assert isinstance(error, ServiceUnavailable), error
            self.done.refused[error.code] += 1
        else:
            raise AssertionError("a deposed server accepted a job")

    def _settle(self, watcher: Watcher) -> None:
        with self._pair.api() as api:
            for job in self._live(api):
                stop(api, self._truth, job["id"], 0)
            until(lambda: not self._live(api), "the end of every job", 90)
        last = self._pair.rows("SELECT event_seq FROM pool")[0][0]
        until(lambda: len(watcher.seen) >= last, "the watcher having seen all", 30)
        watcher.leave()
        books = Books(self._pair)
        wrong = [
            *invariants.books(books),  # type: ignore[arg-type]  # asks for `database` alone
            *invariants.nothing_ran_twice(self._truth),
            *invariants.states_are_true(books, self._truth),  # type: ignore[arg-type]
            *invariants.every_submission_once(books, self._truth),  # type: ignore[arg-type]
            *invariants.watcher_saw_all(books, list(watcher.seen)),  # type: ignore[arg-type]
        ]
        if wrong:
            raise AssertionError("\n".join([f"{len(wrong)} promises broken:", *wrong[:30]]))
        self.done.states = Counter(row["state"] for row in books.rows("SELECT state FROM jobs"))
        self.done.jobs, self.done.events = sum(self.done.states.values()), last

    def _live(self, api: Api) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = answer_of(
            api, "GET", "jobs", query={"live": True, "limit": 200}
        )["items"]
        return found


class Books:
    """The books of the two servers' database, as `tests.faults.invariants` asks a pool for them."""

    def __init__(self, pair: Pair) -> None:
        self.database = pair.database

    def rows(self, query: str) -> list[Any]:
        with self.database() as connection:
            return connection.execute(query).fetchall()


def run_failovers(directory: Path, seed: int, rounds: int) -> Failovers:
    """So many takeovers by this seed, then everything is checked. Raises Broken."""
    lines = directory / "lines"
    lines.mkdir(parents=True)
    lines.chmod(0o777)
    with two_servers(directory) as pair:
        campaign = Campaign(pair, Truth(lines), seed)
        try:
            return campaign.run(rounds)
        except Exception as error:
            logs = "".join(server.log_tail() for server in pair.servers)
            raise Broken(f"seed {seed}, {campaign.done}: {error}{logs}") from error
