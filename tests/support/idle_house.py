"""A house whose clock a test sets, with idle policies, and jobs that the test says are idle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpupool.allocations.idleness.watch import IdleWatch
from gpupool.base.clock import LedgerClock
from gpupool.wire.fleet import ReportsIn
from gpupool.wire.idleness.jobs import IdleJobOut
from gpupool.wire.idleness.policies import IdlePolicyIn, IdlePolicyOut
from gpupool.wire.samples import CardUse, JobSample
from tests.support.house import House
from tests.support.metering_books import Time
from tests.support.resizing import running

MINUTE = 60
#: warn, shrink and stop as the guide has them.
USUAL_STEPS = (("warn", 50, None), ("shrink", 60, 50), ("stop", 120, None))


class IdleHouse(House):
    """Two cards, tenant `nlp` with the user ann, and time that a test moves."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, cards=2)
        self.time = Time()
        self.time.wall_ns = self.store.clock.now_ns()
        self.store.clock = LedgerClock(
            wall=lambda: self.time.wall_ns, boot=lambda: self.time.boot_ns
        )
        self.restart()
        self.tenancy.tenants.create(self.admin, "nlp", None)
        self.ann = self.member("ann", "nlp")

    @property
    def watch(self) -> IdleWatch:
        return self.allocations.idleness.watch

    def set_policy(self, *steps: tuple[str, int, int | None], **more: Any) -> IdlePolicyOut:
        """A policy with steps after so many minutes; the usual ones unless it says otherwise."""
        ladder = [
            {"act": act, "after_seconds": minutes * MINUTE, "gpu_milli": milli}
            for act, minutes, milli in steps or USUAL_STEPS
        ]
        caller = more.pop("caller", self.admin)
        body = IdlePolicyIn.model_validate({"steps": ladder, **more})
        return self.allocations.idleness.policies.put(caller, body)

    def run_job(self, name: str = "job", milli: int = 500, **more: Any) -> None:
        """Run a job that is active now."""
        running(self, name, milli, **more)
        self.sample(name, 0)

    def sample(
        self,
        name: str,
        idle_minutes: float | None,
        launches: int = 1,
        terminal_minutes: float | None = None,
    ) -> None:
        """Report that a job and its terminal are idle for so long; None: it works, has none."""
        idle = None if idle_minutes is None else int(idle_minutes * MINUTE * 1000)
        rest = None if terminal_minutes is None else int(terminal_minutes * MINUTE * 1000)
        use = CardUse(uuid="GPU-node-1-0", launches=launches, gpu_nanoseconds=launches)
        job = self.job(name).id
        sample = JobSample(job=job, idle_milliseconds=idle, terminal_milliseconds=rest, cards=[use])
        self.allocations.agents.apply_reports("node-1", ReportsIn(jobs=[sample]))

    def pass_minutes(self, minutes: float) -> None:
        """Let time pass, without a look."""
        self.time.forward(minutes * MINUTE)

    def idle_until(self, name: str, minutes: float, total: float) -> None:
        """Let time pass in which a job stays idle; it is idle for `total` minutes then. Look."""
        self.pass_minutes(minutes)
        self.sample(name, total)
        self.watch.look()

    def read_state(self, name: str) -> IdleJobOut:
        return self.allocations.idleness.describe_job(self.admin, name)

    def list_events(self, *kinds: str) -> list[tuple[str, dict[str, Any]]]:
        """List kind and data of events about idle jobs, or of these kinds."""
        with self.store.read() as connection:
            rows = connection.exec_driver_sql("SELECT kind, data FROM events ORDER BY seq").all()
        import json

        found = [(row[0], json.loads(row[1])) for row in rows]
        return [one for one in found if (one[0] in kinds if kinds else "job.idle" in one[0])]

    def list_kinds(self) -> list[str]:
        """List the kinds of the events about idle jobs, without their common beginning."""
        return [kind.removeprefix("job.idle-") for kind, _ in self.list_events()]
