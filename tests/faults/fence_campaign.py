"""Fenced jobs that allocate, launch, are resized, start and end, while whatever serves them is
killed by a plan.

After each kill whatever is down is brought back, and ledgers, limits pages and arbiter must be what
they should; the card is watched all the time. `run_fence_campaign` raises `Broken` with the seed
and every broken promise.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from gpupool.base.errors import NotFound, RequestRejection, WrongState
from gpupool.client.transport import Api
from tests.faults import invariants
from tests.faults.fence_truth import Card, Guard, arbiters, fence_leftovers, limits_as_granted
from tests.faults.harness import Broken
from tests.faults.pool import FaultPool, answer_of, kill, until

MIB = 1 << 20
TENANT = Path(__file__).with_name("fence_tenant.py")
ENDED = ("done", "failed", "stopped", "lost")
PARTS = {
    "process": 40,
    "server": 15,
    "arbiter": 15,
    "supervisor": 10,
    "command": 10,
    "resize": 20,
    "stop": 10,
}
"""Weights of what happens next; `stop` kills nobody. An agent apart is killed as often as the
server."""
JOBS, PROCESSES = 3, 2
SIZES = (800, 1200, 2000, 3000)
"""MiB of memory. A context is 120, a tenant runs up to eight."""


@dataclass
class FenceCounts:
    """What a campaign did. `cleared`: seconds from each death of a process to its ledger without
    it."""

    did: Counter[str] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)
    cleared: list[float] = field(default_factory=list)
    looks: int = 0

    def add(self, other: FenceCounts) -> None:
        self.did += other.did
        self.states += other.states
        self.cleared += other.cleared
        self.looks += other.looks

    def __str__(self) -> str:
        did = ", ".join(f"{count} {what}" for what, count in sorted(self.did.items()))
        states = ", ".join(f"{count} {state}" for state, count in sorted(self.states.items()))
        worst = f"{max(self.cleared) * 1000:.0f} ms" if self.cleared else "none"
        return f"{did}; jobs: {states}; {self.looks} looks at the card; slowest clearing of a dead process: {worst}"


class FenceCampaign:
    """One pool with one card."""

    def __init__(self, directory: Path, seed: int, *, separate_agent: bool) -> None:
        self.wrong = directory / "wrong"
        self.wrong.mkdir(parents=True)
        self.seed, self.counts = seed, FenceCounts()
        self.pool = FaultPool(directory / "state", sim="1xT4", separate_agent=separate_agent)
        self._chance = random.Random(seed)
        self._ways: dict[str, Callable[[Api, str], None]] = {
            "process": self._kill_process,
            "server": lambda _api, _job: self._kill_service(self.pool.kill_server),
            "agent": lambda _api, _job: self._kill_service(self.pool.kill_agent),
            "arbiter": lambda _api, _job: self._kill_arbiter(),
            "supervisor": self._kill_supervisor,
            "command": self._kill_command,
            "resize": self._resize,
            "stop": self._stop,
        }

    def run(self, steps: int) -> FenceCounts:
        try:
            self.pool.up()
            self.card = Card(self.pool)
            self.guard = Guard(self.card)
            self.guard.start()
            try:
                with self.pool.api() as api:
                    self._run(api, steps)
            finally:
                self.guard.stop()
                self.counts.looks = self.guard.looks
                self.card.close()
        except Exception as error:
            mode = "agent apart" if self.pool.separate_agent else "agent inside"
            raise Broken(
                f"{self.pool.log_tail()}\n---\nseed {self.seed}, {mode}, {self.counts}: {error}"
            ) from error
        finally:
            self.pool.destroy()
        return self.counts

    def _run(self, api: Api, steps: int) -> None:
        parts = dict(PARTS)
        if self.pool.separate_agent:
            parts["agent"] = parts["server"]
        for what in self._chance.choices(list(parts), list(parts.values()), k=steps):
            job = self._chance.choice(self._jobs_at_work(api))
            time.sleep(self._chance.uniform(0, 0.3))  # the random moment; nothing is awaited by it
            self._ways[what](api, job)
            self.counts.did[what] += 1
            self._check_running()
        self._end(api)

    # The load ------------------------------------------------------------------------------------------

    def _jobs_at_work(self, api: Api) -> list[str]:
        """As many as there should be, each with a process on the card."""
        live = self._live()
        for _ in range(JOBS - len(live)):
            live.append(self._submit(api))
        until(
            lambda: (
                self._none_waits()
                and all(self.card.processes(job) or self._is_over(job) for job in live)
            ),
            "jobs on the card",
        )
        left = [job for job in live if not self._is_over(job)]
        return left or self._jobs_at_work(api)

    def _none_waits(self) -> bool:
        rows = self.pool.rows("SELECT count(*) n FROM jobs WHERE state IN ('pending', 'starting')")
        return bool(rows[0]["n"] == 0)

    def _submit(self, api: Api) -> str:
        words = [
            sys.executable,
            str(TENANT),
            str(PROCESSES),
            f"{self.seed}-{self._chance.random()}",
            str(self.wrong),
        ]
        env = {"PATH": "/usr/bin:/bin", "FAULT_POOL": str(self.pool.paths.root)}
        size = self._chance.choice(SIZES) * MIB
        body = {
            "shape": {"gpu_milli": self._chance.choice((100, 200, 300)), "memory_bytes": size},
            "launch": {"argv": words, "env": env, "cwd": "/"},
        }
        job = str(
            answer_of(api, "POST", "jobs", body, idempotency_key=str(self._chance.random()))[
                "first"
            ]["id"]
        )
        self.guard.give(job, size)
        return job

    def _live(self) -> list[str]:
        rows = self.pool.rows(
            "SELECT public_id FROM jobs WHERE state IN ('pending', 'starting', 'running') ORDER BY id"
        )
        return [row["public_id"] for row in rows]

    def _is_over(self, job: str) -> bool:
        return (
            self.pool.rows("SELECT state FROM jobs WHERE public_id = ?", job)[0]["state"] in ENDED
        )

    # What happens --------------------------------------------------------------------------------------

    def _kill_process(self, _api: Api, job: str) -> None:
        found = self.card.processes(job)
        if not found or not kill(pid := self._chance.choice(found).pid):
            return
        until(lambda: pid not in [use.pid for use in self.card.processes()], f"the death of {pid}")
        self.counts.cleared.append(self.card.await_cleared(job, pid))

    def _kill_service(self, way: Callable[[], bool]) -> None:
        """And leave the jobs alone for a moment."""
        way()
        time.sleep(self._chance.uniform(0, 0.4))  # a random time without it
        self.pool.up()

    def _kill_arbiter(self) -> None:
        for pid in arbiters(self.pool):
            kill(pid)

    def _kill_supervisor(self, _api: Api, job: str) -> None:
        for one in self.pool.supervisors():
            if one.job == job:
                kill(one.pid)
        until(partial(self._is_over, job), f"the end of {job}, whose supervisor was killed")

    def _kill_command(self, _api: Api, job: str) -> None:
        if pid := self.pool.command_pid(job):
            kill(pid)

    def _resize(self, api: Api, job: str) -> None:
        """Half of the time the agent, and so the resize, is killed at a random moment of it."""
        body = {
            "gpu_milli": self._chance.choice((100, 200, 300)),
            "memory_bytes": self._chance.choice(SIZES) * MIB,
        }
        self.guard.give(job, body["memory_bytes"])
        try:
            answer_of(api, "POST", f"jobs/{job}/resize", body)
        except (RequestRejection, NotFound, WrongState):
            return  # it has ended, or there is no room
        if self._chance.random() < 0.5:
            time.sleep(self._chance.uniform(0, 0.02))  # a random moment of it
            self._kill_service(
                self.pool.kill_agent if self.pool.separate_agent else self.pool.kill_server
            )

    def _stop(self, api: Api, job: str) -> None:
        try:
            answer_of(api, "POST", f"jobs/{job}/stop", {"grace_seconds": 0})
        except (RequestRejection, NotFound, WrongState):
            return

    # What must hold ------------------------------------------------------------------------------------

    def _check_running(self) -> None:
        self._come_true(lambda: limits_as_granted(self.card), "limits as granted")
        for job in self._live():
            self.card.await_exact(job)
        self._come_true(self._arbiter_is_right, "one arbiter, exactly while a job is fenced")
        self._demand(self.guard.wrong, self._cuda_errors(), invariants.books(self.pool))

    def _arbiter_is_right(self) -> list[str]:
        running, live = arbiters(self.pool), self._live()
        wanted = 1 if live else 0
        return [] if len(running) == wanted else [f"{len(running)} arbiters for {len(live)} jobs"]

    def _cuda_errors(self) -> list[str]:
        """What a program under the fence was told that a smaller card would not say."""
        return [f"{path.name}: {path.read_text()}" for path in self.wrong.iterdir()]

    def _come_true(self, look: Callable[[], list[str]], what: str) -> None:
        """Looked at until nothing is wrong; the last thing that was is told."""
        said: list[str] = []

        def none_wrong() -> bool:
            said[:] = look()
            return not said

        try:
            until(none_wrong, what, 30)
        except AssertionError as error:
            raise AssertionError(f"{error}: {said}") from error

    def _demand(self, *wrong: list[str]) -> None:
        found = [sentence for sentences in wrong for sentence in sentences]
        if found:
            raise AssertionError("\n".join([f"{len(found)} promises broken:", *found[:20]]))

    def _end(self, api: Api) -> None:
        for job in self._live():
            self._stop(api, job)
        until(lambda: not self._live(), "the end of every job", 90)
        self._come_true(
            lambda: [*invariants.node_leftovers(self.pool), *fence_leftovers(self.card)],
            "a clean node",
        )
        report: Any = answer_of(api, "GET", "report", query={"since": "1d"})
        self._demand(
            self.guard.wrong,
            self._cuda_errors(),
            self._findings(),
            invariants.books(self.pool),
            invariants.report_closes(report),
            invariants.report_matches_intervals(self.pool, report),
        )
        rows = self.pool.rows("SELECT state, count(*) n FROM jobs GROUP BY state")
        self.counts.states = Counter({row["state"]: row["n"] for row in rows})

    def _findings(self) -> list[str]:
        """Nobody leaves his fence here, so whatever was found is an error of ours."""
        rows = self.pool.rows("SELECT kind, subject, data FROM events WHERE kind LIKE 'fence.%'")
        return [f"{row['kind']} of {row['subject']}: {row['data']}" for row in rows]


def run_fence_campaign(
    directory: Path, seed: int, steps: int, *, separate_agent: bool
) -> FenceCounts:
    """So many kills, resizes and ends by this seed. Raises Broken."""
    return FenceCampaign(directory, seed, separate_agent=separate_agent).run(steps)
