"""Whole plans, on one core: placements a second of `cycle` itself, and what a plan costs beside
many waiting classes.

A pool like openb's (or of more nodes) is filled by plans of at most 64 claims, as a pool does it:
each plan is of a snapshot of its own, on the board that lives on, with its reasons, and is applied
to the columns before the next. The time is that of the plans alone. A class that waits is a shape
of its own; a full pool has one event, a job that ends. Once nobody has a limit; once each tenant
holds all that it is guaranteed, and every other one all that it may hold.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np

from bench.placement_lists import OPENB_NODES, cluster_like_openb, list_like_openb
from bench.rows import Row
from gpupool.base.units import GIB, WHOLE
from gpupool.model.claim import Shape
from gpupool.model.gang import Gang, GangGroup, GangRole
from gpupool.model.quota import Quota, ResourceAmount
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.filtering import native_library
from gpupool.scheduling.snapshot.claims import RunningJob, WaitingClass
from gpupool.scheduling.snapshot.plan import Plan
from gpupool.scheduling.snapshot.running_jobs_log import RunningJobsRegister
from gpupool.scheduling.snapshot.snapshot import Snapshot, TenantView
from gpupool.scheduling.workspace.planning_state import PlanningState
from gpupool.simulation.replay.protocol import count_pods, draw_arrivals
from gpupool_native import kernel_path
from tests.support.scheduling_builders import cards

NAME = "cycles"
COMMAND = "python -m bench cycles"
SEED = 42
HEADS = 64
RATES = {OPENB_NODES: (10_000, 127), 10_000: (8_000, 120), 50_000: (5_000, 120)}
"""By number of nodes, placements a second at least, and how many plans."""

CLASSES = {100: None, 1_000: None, 10_000: 20.0}
"""By number of classes, milliseconds at most; without limits."""

SCENES = (("", False, 100), (", a card comes free", False, WHOLE), (", with quotas", True, 100))
"""What a row is called, whether tenants have quotas, and how much comes free: thousandths of a
card."""

MEMBERS, TENANTS, EVENTS = 10, 20, 3
SECOND = 10**9


def run(out: Path) -> list[Row]:
    if not native_library.adopt_native_library(kernel_path()):
        raise RuntimeError(f"{kernel_path()} is no kernel of this version: make setup")
    return [*_rates(), *_classes()]


def _rates() -> Iterator[Row]:
    for nodes, (least, plans) in RATES.items():
        micros = _Filling(nodes).microseconds(plans)
        note = f"{1e6 / micros:,.0f} a second, {plans} plans, processor time"
        yield Row(
            f"whole plan, a placement at {nodes:,} nodes",
            "µs",
            micros,
            COMMAND,
            limit=1e6 / least,
            note=note,
        )


class _Filling:
    """A pool that is filled, and the claims of the list in the order in which they come."""

    def __init__(self, nodes: int) -> None:
        self.cards = cluster_like_openb(nodes)
        self.pods = list_like_openb()
        self.arriving = draw_arrivals(self.pods, int(self.cards.free_milli.sum()), Random(SEED))
        self.expected = count_pods(self.pods)
        self.row = {uuid: row for row, uuid in enumerate(self.cards.uuids)}
        self.node = {name: number for number, name in enumerate(self.cards.nodes)}

    def microseconds(self, plans: int) -> float:
        """Of processor time per placement."""
        board, spent, placed = PlanningState(self.snapshot(range(0))), 0.0, 0
        gc.collect()
        for number in range(plans):
            coming = range(number * HEADS, min(len(self.arriving), (number + 1) * HEADS))
            before = self.snapshot(coming)
            began = time.process_time()
            plan = cycle(before, 0, limit=HEADS, board=board)
            spent += time.process_time() - began
            placed += len(plan.placements)
            self.apply(plan)
        return spent / placed * 1e6

    def snapshot(self, coming: range) -> Snapshot:
        """The pool as it is now, and these claims."""
        heads: dict[Shape, list[int]] = {}
        for n in coming:
            heads.setdefault(self.pods.shapes[self.arriving[n]], []).append(n)
        classes = (
            WaitingClass(
                "nlp", 0, shape, tuple(f"j{n}" for n in mine), len(mine), mine[0], tuple(mine)
            )
            for shape, mine in heads.items()
        )
        now, hosts = self.cards, self.cards.hosts
        assert hosts is not None
        now = replace(
            now,
            free_milli=now.free_milli.copy(),
            hosts=replace(hosts, free_cpu_milli=hosts.free_cpu_milli.copy()),
        )
        tenants = {"nlp": TenantView(Quota(), ResourceAmount())}
        return Snapshot(coming.start, now, tenants, tuple(classes), expected=self.expected)

    def apply(self, plan: Plan) -> None:
        hosts = self.cards.hosts
        assert hosts is not None
        for placement in plan.placements:
            shape = self.pods.shapes[self.arriving[int(placement.job[1:])]]
            hosts.free_cpu_milli[self.node[placement.node]] -= shape.cpu_milli
            for seat in placement.seats:
                self.cards.free_milli[self.row[seat.device]] -= seat.gpu_milli


def _classes() -> Iterator[Row]:
    for count, most in CLASSES.items():
        for what in ("shapes", "gangs"):
            for words, quotas, freed in SCENES:
                millis = Full(count, what, quotas=quotas, freed=freed).milliseconds()
                limit = None if quotas else most
                note = f"{1000 * millis / count:.0f} µs a class, {count * MEMBERS:,} jobs wait, processor time"
                yield Row(
                    f"a plan beside {count:,} waiting {what}{words}",
                    "ms",
                    millis,
                    COMMAND,
                    limit=limit,
                    note=note,
                )


class Full:
    """A pool whose cards have a job each; what waits finds no room."""

    def __init__(
        self,
        count: int,
        what: str,
        layout: str = "1250x8xH200",
        *,
        quotas: bool = False,
        freed: int = 100,
    ) -> None:
        self.cards = cards(layout)
        self.quotas, self.freed = quotas, freed
        self.size = int(self.cards.memory_bytes[0])
        self.register = RunningJobsRegister()
        for row in range(len(self.cards)):
            end = 10**15 + row * SECOND if row % 2 else None
            shape, tenant = Shape(WHOLE), f"t{row % TENANTS}"
            self.register.put_job(
                RunningJob(f"r{row}", tenant, 0, (row,), (WHOLE,), (self.size,), shape, row, end)
            )
        self.free = np.zeros(len(self.cards), dtype=np.int64)
        make = _shape_of_its_own if what == "shapes" else _gang
        self.waiting = tuple(make(n) for n in range(count))

    def milliseconds(self) -> float:
        """Of processor time per plan after a job has ended and a class has become another one; the
        least of a few."""
        board, found = PlanningState(self.snapshot(0)), []
        cycle(self.snapshot(0), SECOND, board=board)
        for event in range(1, 1 + EVENTS):
            self.end_one(event)
            before = self.snapshot(event)
            began = time.process_time()
            plan = cycle(before, event * SECOND, board=board)
            found.append((time.process_time() - began) * 1000)
            assert len(plan.rejections) == len(self.waiting)
            assert (self.freed == WHOLE and self.waiting[0].gang is None) == bool(plan.placements)
        return min(found)

    def end_one(self, event: int) -> None:
        """A job ends, and the class of that number has one head less. What came free before is
        taken."""
        self.register.remove_job(f"r{event * 7}")
        self.free[:] = 0
        self.free[event * 7] = self.freed
        waiting = list(self.waiting)
        one = waiting[event]
        if one.gang is None:
            waiting[event] = replace(
                one, job_ids=one.job_ids[1:], submitted_ns=one.submitted_ns[1:], count=one.count - 1
            )
        self.waiting = tuple(waiting)

    def quota(self, tenant: int, held: ResourceAmount) -> Quota:
        """What it holds is guaranteed; every other tenant may borrow."""
        return Quota(held.gpu_milli, None if tenant % 2 else 0) if self.quotas else Quota()

    def snapshot(self, generation: int) -> Snapshot:
        held = ResourceAmount(
            WHOLE * len(self.cards) // TENANTS, self.size * len(self.cards) // TENANTS
        )
        tenants = {f"t{n}": TenantView(self.quota(n, held), held) for n in range(TENANTS)}
        now = replace(
            self.cards, free_milli=self.free.copy(), free_bytes=self.free * self.size // WHOLE
        )
        return Snapshot(generation, now, tenants, self.waiting, running=self.register.get_view())


def _shape_of_its_own(n: int) -> WaitingClass:
    heads, ages = (
        tuple(f"j{n}.{k}" for k in range(MEMBERS)),
        tuple(n * MEMBERS + k for k in range(MEMBERS)),
    )
    shape = Shape(200 + n % 800, (1 + n // 800) * GIB)
    return WaitingClass(f"t{n % TENANTS}", 0, shape, heads, MEMBERS, ages[0], ages, seconds=3600)


def _gang(n: int) -> WaitingClass:
    shape, members = Shape(WHOLE), tuple(f"g{n}.{k}" for k in range(MEMBERS))
    group = GangGroup("all", (GangRole("worker", shape, MEMBERS, MEMBERS),))
    gang = Gang(f"g{n}", group, members)
    return WaitingClass(f"t{n % TENANTS}", 0, shape, members, MEMBERS, n, seconds=3600, gang=gang)
