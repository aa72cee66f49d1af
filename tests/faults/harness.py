"""A campaign: kills by a seeded plan while load runs, checks after each restart, and everything
checked at the end.

`run_campaign` raises `Broken` with the seed and every broken promise; else it returns what was
done.
"""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpupool.client.transport import Api
from tests.faults import invariants
from tests.faults.load import ENDLESS, TENANTS, Load, Truth, settle_clients, stop
from tests.faults.pool import FaultPool, answer_of, kill, until
from tests.faults.shortages import own_disk, shortage
from tests.faults.workers import Watcher

HAS_REST = "stopped_ns IS NULL AND made < size"
"""Arrays with members that are no jobs yet."""
CI = {
    "server": 5,
    "agent": 5,
    "client": 12,
    "supervisor": 36,
    "job": 36,
    "pause": 2,
    "disk": 2,
    "files": 2,
}
SHORT = {
    "server": 15,
    "agent": 10,
    "client": 10,
    "supervisor": 25,
    "job": 25,
    "pause": 5,
    "disk": 5,
    "files": 5,
}
"""Parts of a hundred in a run of twenty kills: each comes at least once."""
LONG = {
    "server": 1,
    "agent": 1,
    "client": 2,
    "supervisor": 46,
    "job": 47,
    "pause": 1,
    "disk": 1,
    "files": 1,
}
"""Parts of a hundred kills and shortages. Without an agent of its own the server takes the agent's
part too."""
SHORTAGES = frozenset({"pause", "disk", "files"})
SHORT_SECONDS = 1.5
"""A shortage lasts at most so long; a job or a supervisor may be killed meanwhile."""


class Broken(AssertionError):
    """A promise did not hold."""


@dataclass
class Counts:
    """What a campaign did."""

    kills: Counter[str] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)
    jobs: int = 0
    ran: int = 0
    placed_again: int = 0
    events: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    """Events by their kind."""
    capacity_card_milliseconds: int = 0
    seconds: float = 0.0

    def add(self, other: Counts) -> None:
        self.kills += other.kills
        self.states += other.states
        self.kinds += other.kinds
        for name in (
            "jobs",
            "ran",
            "placed_again",
            "events",
            "capacity_card_milliseconds",
            "seconds",
        ):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def __str__(self) -> str:
        kills = ", ".join(f"{count} {what}" for what, count in sorted(self.kills.items()))
        states = ", ".join(f"{count} {state}" for state, count in sorted(self.states.items()))
        return (
            f"{sum(self.kills.values())} kills ({kills}) in {self.seconds:.0f} s: {self.jobs} jobs ({states}), "
            f"{self.ran} commands ran, {self.placed_again} placements repeated, {self.events} events"
        )


class Campaign:
    """One pool from its first start to its purge."""

    def __init__(
        self, directory: Path, seed: int, *, separate_agent: bool, sim: str = "2x4xL40S"
    ) -> None:
        lines = directory / "lines"
        lines.mkdir(parents=True)
        lines.chmod(0o777)
        self.seed, self.counts, self.truth = seed, Counts(), Truth(lines)
        self._disk = directory / "disk"
        self.pool = FaultPool(self._disk / "state", separate_agent=separate_agent, sim=sim)
        self.load = Load(self.pool, self.truth, seed)
        self._chance = random.Random(seed)
        self._down: list[int] = []

    def run(self, kills: int, parts: Mapping[str, int], pause_seconds: float) -> Counts:
        started = time.monotonic()
        with own_disk(self._disk):
            try:
                self._run(kills, parts, pause_seconds)
            except Exception as error:
                mode = "agent apart" if self.pool.separate_agent else "agent inside"
                what = f"seed {self.seed}, {mode}, {self.counts}: {error}"
                raise Broken(f"{self.pool.log_tail()}\n---\n{what}") from error
            finally:
                self.pool.destroy()
        self.counts.seconds = time.monotonic() - started
        return self.counts

    def _run(self, kills: int, parts: Mapping[str, int], pause_seconds: float) -> None:
        self.pool.up()
        watcher = Watcher(self.pool.api())
        with self.pool.api() as api:
            for tenant in TENANTS[1:]:
                quota = {
                    "nominal_milli": 1000,
                    "borrowing_milli": 4000,
                }  # of 8 cards: some are nobody's
                answer_of(
                    api, "POST", "tenants", {"name": tenant, "quota": quota}, idempotency_key=tenant
                )
        self.load.start()
        for what in self._plan(kills, parts):
            time.sleep(
                self._chance.uniform(0, pause_seconds)
            )  # the random moment; nothing is awaited by it
            self._kill(what)
        self._restart()
        self.load.stop()
        self._check(watcher)
        groups = self.pool.pool_cgroups()
        self.pool.down()
        watcher.end()
        left = [str(path) for path in (self.pool.paths.root, *groups) if path.exists()]
        _demand(left + invariants.node_processes(self.pool))

    def _plan(self, kills: int, parts: Mapping[str, int]) -> list[str]:
        counts = {what: kills * part // 100 for what, part in parts.items()}
        if not self.pool.separate_agent:
            counts["server"] += counts.pop("agent")
        counts["job"] += kills - sum(counts.values())
        plan = [what for what, count in counts.items() for _ in range(count)]
        self._chance.shuffle(plan)
        return plan

    # Killing -------------------------------------------------------------------------------------------

    def _kill(self, what: str) -> None:
        if self._is_down() and (
            what in ("server", "agent", *SHORTAGES) or self._chance.random() < 0.5
        ):
            self._restart()
        if what in SHORTAGES:
            self._run_short(what)
            return
        ways: dict[str, Callable[[], bool]] = {
            "server": self.pool.kill_server,
            "agent": self.pool.kill_agent,
            "client": self._kill_client,
            "supervisor": self._kill_supervisor,
            "job": self._kill_job,
        }
        until(lambda: ways[what]() or self._restart(), f"a {what} to kill")
        self.counts.kills[what] += 1

    def _run_short(self, what: str) -> None:
        self.truth.shortages.add(what)
        with shortage(what, self.pool, self._chance.choice):
            time.sleep(
                self._chance.uniform(0, SHORT_SECONDS)
            )  # how long it lasts; nothing is awaited by it
            if self._chance.random() < 0.5:
                self._chance.choice((self._kill_supervisor, self._kill_job))()
        self.counts.kills[what] += 1

    def _is_down(self) -> bool:
        return self.pool.server_pid() is None or not self.pool.agent_runs()

    def _restart(self) -> bool:
        """Bring back what is away, and look at the books at once. False, for `until`."""
        self.load.check()
        if self._is_down():
            self.pool.up()
            _demand(invariants.books(self.pool))
        return False

    def _kill_client(self) -> bool:
        with self.load.clients_lock:
            alive = [client for client in self.load.clients if client.process.poll() is None]
            client = self._chance.choice(alive) if alive else self.load.attach(self._chance)
        if not alive:
            time.sleep(self._chance.uniform(0, 0.5))  # a random moment of its life
        client.intent.client_gone = True
        client.end(signal.SIGKILL)
        return True

    def _kill_supervisor(self) -> bool:
        found = self.pool.supervisors()
        if not found:
            return False
        victim = self._chance.choice(found)
        self.truth.killed_supervisors.add(victim.job)
        return kill(victim.pid)

    def _kill_job(self) -> bool:
        jobs = sorted({one.job for one in self.pool.supervisors()} - self.truth.killed_supervisors)
        job = self._chance.choice(jobs) if jobs else None
        pid = None if job is None else self.pool.command_pid(job)
        if job is None or pid is None:
            return False
        self.truth.killed_jobs.add(job)
        return kill(pid)

    # The end -------------------------------------------------------------------------------------------

    def _check(self, watcher: Watcher) -> None:
        with self.pool.api() as api:
            self._end_the_endless(api)  # first, as an attached client may wait for their cards
            settle_clients(self.load)
            until(self._nothing_live, "the end of every job", 90)
            self._await_clean_node()
            report = answer_of(api, "GET", "report", query={"since": "7d"})
        last = self.pool.rows("SELECT event_seq FROM pool")[0][0]
        until(lambda: len(watcher.seen) >= last, "the watcher having seen all", 30)
        _demand([
            *invariants.books(self.pool),
            *invariants.report_closes(report),
            *invariants.report_matches_intervals(self.pool, report),
            *invariants.node_leftovers(self.pool),
            *self.by_their_lines(),
            *invariants.every_submission_once(self.pool, self.truth),
            *invariants.watcher_saw_all(self.pool, list(watcher.seen)),
        ])  # fmt: skip
        self._count(report["capacity_card_milliseconds"])

    def by_their_lines(self) -> list[str]:
        """What the jobs wrote themselves, against the pool's word."""
        return [
            *invariants.nothing_ran_twice(self.truth),
            *invariants.states_are_true(self.pool, self.truth),
        ]

    def _await_clean_node(self) -> None:
        try:
            until(lambda: not invariants.node_leftovers(self.pool), "the node being clean", 30)
        except AssertionError:
            _demand(invariants.node_leftovers(self.pool))

    def _end_the_endless(self, api: Api) -> None:
        """All that would not end by itself. What is left to its lease is left to it."""
        for row in self.pool.rows(f"SELECT public_id, command FROM arrays WHERE {HAS_REST}"):
            intent = self.truth.intents[invariants.token_of(row)]
            if intent.kind in ENDLESS:
                intent.stopped = True
                stop(api, self.truth, row["public_id"], 0)
        for row in self.pool.rows(
            "SELECT public_id, command FROM jobs WHERE state IN ('pending','starting','running')"
        ):
            intent = self.truth.intents[invariants.token_of(row)]
            if intent.kind in ENDLESS and not intent.attached:
                stop(api, self.truth, row["public_id"], 0)

    def _nothing_live(self) -> bool:
        live = "SELECT count(*) FROM jobs WHERE state IN ('pending','starting','running')"
        waits = f"SELECT count(*) FROM arrays WHERE {HAS_REST}"
        return bool(self.pool.rows(live)[0][0] == self.pool.rows(waits)[0][0] == 0)

    def _count(self, capacity: int) -> None:
        found = self.pool.rows("SELECT state, count(*) n FROM jobs GROUP BY state")
        self.counts.states = Counter({row["state"]: row["n"] for row in found})
        self.counts.jobs = sum(self.counts.states.values())
        self.counts.ran = len(list(self.truth.lines.iterdir()))
        again = "SELECT count(*) FROM events WHERE kind = 'job.requeued'"
        self.counts.placed_again = self.pool.rows(again)[0][0]
        self.counts.events = self.pool.rows("SELECT event_seq FROM pool")[0][0]
        kinds = self.pool.rows("SELECT kind, count(*) n FROM events GROUP BY kind")
        self.counts.kinds = Counter({row["kind"]: row["n"] for row in kinds})
        self.counts.capacity_card_milliseconds = capacity


def _demand(wrong: list[str]) -> None:
    if wrong:
        raise AssertionError("\n".join([f"{len(wrong)} promises broken:", *wrong[:30]]))


def run_campaign(
    directory: Path,
    seed: int,
    kills: int,
    *,
    separate_agent: bool,
    parts: Mapping[str, int] = CI,
    pause: float = 0.3,
) -> Counts:
    """Kill so many times, by this seed, then check everything. Raises Broken."""
    return Campaign(directory, seed, separate_agent=separate_agent).run(kills, parts, pause)
