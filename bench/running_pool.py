"""A pool of thousands of cards on which so many jobs run, as a plan sees it from one change to the
next.

Every job has a card of its own; half of them are known to end, an hour to a few hours from now. The
node of T4s is full, and a claim for all of it waits: it is promised a start in every plan. Nothing
else waits but the claim that a plan is for, which fits at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from gpupool.base.units import GIB, WHOLE
from gpupool.model.claim import Shape
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.snapshot.claims import RunningJob, WaitingClass
from gpupool.scheduling.snapshot.plan import Plan
from gpupool.scheduling.snapshot.running_jobs_log import RunningJobsRegister
from gpupool.scheduling.snapshot.snapshot import Snapshot
from gpupool.scheduling.workspace.planning_state import PlanningState
from tests.support.scheduling_builders import cards, snapshot

LAYOUT = "1x8xT4+1260x8xH200"
SECOND = 10**9
HOUR = 3600 * SECOND


@dataclass
class RunningPool:
    """`board` lives on from plan to plan as in a pool; without it every plan begins from
    nothing."""

    size: int
    register: RunningJobsRegister = field(default_factory=RunningJobsRegister)
    board: PlanningState | None = None
    now_ns: int = HOUR

    def __post_init__(self) -> None:
        self._empty = cards(LAYOUT)
        self._names = [f"r{row}" for row in range(self.size)]
        for row in range(8 + self.size):
            self.register.put_job(self._job(f"t{row}" if row < 8 else f"r{row - 8}", row))
        self._last = self.size

    def turn_over(self) -> None:
        """The job that runs longest has ended and another one sits on its card, a second later."""
        self.now_ns += SECOND
        gone = self._names.pop(0)
        row = next(job for job in self.register.get_view() if job.job == gone).rows[0]
        self._names.append(f"r{self._last}")
        self.register.remove_job(gone)
        self.register.put_job(self._job(self._names[-1], row))
        self._last += 1

    def snapshot(self) -> Snapshot:
        milli, size = self._empty.free_milli.copy(), self._empty.free_bytes.copy()
        rows = list(range(8 + self.size))
        milli[rows] = size[rows] = 0
        full = WaitingClass("nlp", 0, Shape(WHOLE, None, 8, "T4"), ("head",), 1, 0, seconds=3600)
        fits = WaitingClass("nlp", 0, Shape(300, 8 * GIB, 1, "H200"), ("new",), 1, 1, seconds=600)
        before = snapshot(replace(self._empty, free_milli=milli, free_bytes=size), full, fits)
        return replace(before, running=self.register.get_view())

    def plan(self, before: Snapshot) -> Plan:
        """Of the claim that fits, beside the one that is promised a start."""
        plan = cycle(before, self.now_ns, board=self.board)
        assert [placement.job for placement in plan.placements] == ["new"]
        assert list(plan.starts) == [before.waiting[0].key]
        return plan

    def _job(self, name: str, row: int) -> RunningJob:
        size = int(self._empty.memory_bytes[row])
        end = self.now_ns + HOUR + row * SECOND if row < 8 or row % 2 else None
        return RunningJob(
            name, "nlp", 0, (row,), (WHOLE,), (size,), Shape(WHOLE), self.now_ns - row, end
        )
