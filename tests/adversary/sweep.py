"""The n-th system call of a kind fails while a job lives: afterwards every thread lives and every
promise holds.

Used by `test_threads.py`: a sample in `make test-adversary`, every n in its slow tests.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpupool.base.client_settings import client_settings
from gpupool.base.errors import GpupoolError, PoolNotRunning
from gpupool.client.transport import Api
from tests.adversary.injected import ALL, KINDS, Faults
from tests.e2e.pool_fixture import RealPool

SECONDS = 60.0
ENDED = frozenset({"done", "failed", "stopped", "lost"})


@dataclass(frozen=True)
class Round:
    """What one round did. `wrong` is empty where every promise holds."""

    kind: str
    nth: int
    hit: bool
    outcome: str
    wrong: str


class Sweep:
    """Rounds on one running pool, whose server was started with `faults.environ`."""

    def __init__(self, pool: RealPool, faults: Faults) -> None:
        self.pool, self.faults = pool, faults
        self.pid = pool.server_pid()
        self._names = 0

    def begin(self) -> None:
        """Start the server where it has ended and doctor says so: after five times anew, or by an
        abort."""
        if "ended without being told to" not in self.pool.run("doctor").stdout:
            return
        self.pool.up()
        self.pid = self.pool.server_pid()

    def api(self) -> Api:
        return Api(client_settings(state_dir=str(self.pool.state_dir)))

    def calls(self, kind: str) -> int:
        """How many calls of the kind the life of one job takes."""
        with self.faults.armed(self.pid, KINDS[kind], after=ALL):
            self._live()
        return self.faults.seen

    def round(self, kind: str, nth: int) -> Round:
        """One job's life in which the n-th call of the kind fails, from 1."""
        with self.faults.armed(self.pid, KINDS[kind], after=nth - 1):
            outcome = self._live()
        return Round(kind, nth, self.faults.hits > 0, outcome, self.wrong())

    def _live(self) -> str:
        """Submit a job and see it end; how it ended, or the error that the server answered."""
        self._names += 1
        body = {
            "name": f"swept-{self._names}",
            "shape": {"gpu_milli": 1000},
            "launch": {"argv": ["/bin/sh", "-c", "echo out"], "cwd": "/"},
        }
        with self.api() as api:
            try:
                job = api.request("POST", "jobs", body)["first"]["id"]
            except GpupoolError as error:
                return error.code
        return f"{self._ended(job)['state']}"

    def _ended(self, job: str) -> dict[str, Any]:
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            try:
                with self.api() as api:
                    found: dict[str, Any] = api.request("GET", f"jobs/{job}", timeout=10)
            except GpupoolError:
                continue  # the fault has hit this look
            if found["state"] in ENDED:
                return found
            time.sleep(0.02)  # between two looks from outside
        return {"state": "not ended"}

    def wrong(self) -> str:
        """Which promise does not hold once everything has had its time; empty for none."""
        deadline = time.monotonic() + SECONDS
        while (wrong := self._look()) and time.monotonic() < deadline:
            time.sleep(0.05)  # between two looks from outside
        return wrong

    def _look(self) -> str:
        with self.api() as api:
            try:
                live = [
                    job["name"]
                    for job in api.request("GET", "jobs", query={"live": "true"})["items"]
                ]
                held = sum(card["used_milli"] for card in api.request("GET", "devices")["items"])
                ill = [
                    one
                    for one in api.request("GET", "checks")
                    if one["name"] == "threads" and one["state"] != "ok"
                ]
            except PoolNotRunning as error:
                self.begin()  # a library that aborts for want of memory ends the process; doctor says so
                return str(error)
            except GpupoolError as error:
                return f"the server answers {error}"
        left = [] if live else leftovers(self.pool.state_dir)
        found = {"live jobs": live, "milli held": held, "threads": ill, "left on the node": left}
        return "; ".join(f"{what}: {value}" for what, value in found.items() if value)


def leftovers(state_dir: Path) -> list[str]:
    """What a node without live jobs must not have."""
    agent = state_dir / "agent"
    prepared = [f"prepared/{path.name}" for path in (agent / "prepared").glob("*")]
    names = ("allocation.json", "spec", "sock")
    return prepared + [
        f"{path.parent.name}/{path.name}" for name in names for path in agent.glob(f"jobs/*/{name}")
    ]
