"""Whole lives of small pools: nobody who is next starves, and seats that others leave reach whom
they were left for.

A step plans, applies the plan, and then lets jobs end and those leave who were told to. Small jobs
keep coming, each able to take what is given back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gpupool.base.units import GIB, WHOLE
from gpupool.model.claim import ANYWHERE, Shape, TopologyConstraint
from gpupool.model.quota import GPU, Quota, QuotaLimit, ResourceAmount
from gpupool.scheduling.admission.gang import judge_gang
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.preemption.beneficiaries import EvictionBeneficiaries
from gpupool.scheduling.preemption.victims import PreemptionRules
from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.scheduling.snapshot.claims import RunningJob, WaitingClass
from gpupool.scheduling.snapshot.plan import JobPlacement
from gpupool.scheduling.snapshot.snapshot import Snapshot, TenantView
from gpupool.scheduling.workspace.pending_members import (
    find_pending_members,
)
from gpupool.scheduling.workspace.planning_state import PlanningState
from tests.support.gang_builders import gang, occupied, racked, role
from tests.support.properties import whole_pools
from tests.support.scheduling_builders import snapshot, tenant, waiting, whole

RULES = PreemptionRules(protected_s=0)
STEP = 60 * 10**9
LONGEST = 4
"""Steps that a small job lasts at most."""

often = settings(whole_pools, max_examples=30)


@dataclass
class Life:
    """A pool that is planned step by step on one board; `ends` says when which job is over."""

    pool: CardTable
    gang: WaitingClass
    came: bool = False
    running: dict[str, RunningJob] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    small: dict[str, tuple[Shape, int]] = field(default_factory=dict)
    """Small jobs that wait, and for how many steps they will run."""
    rivals: dict[str, tuple[Shape, int]] = field(default_factory=dict)
    """The same of the gang's priority, of a tenant that had nothing of the pool yet."""
    owed: EvictionBeneficiaries = field(default_factory=EvictionBeneficiaries)
    told: dict[str, bool] = field(default_factory=dict)
    """For whom others were told to leave and that do not sit yet, and whether one told before it
    has sat down since."""
    at: int = 0
    board: PlanningState | None = None
    tenants: Mapping[str, TenantView] = field(default_factory=lambda: {"nlp": tenant()})

    def now(self) -> Snapshot:
        queue = [
            waiting(job, want=want, at=1 + n)
            for n, (job, (want, _)) in enumerate(self.small.items())
        ]
        mine = [self.gang] if self.came and not self.started else []
        queue += [
            waiting(job, want=want, tenant="vision", priority=self.gang.priority, at=1)
            for job, (want, _) in self.rivals.items()
        ]
        running = self.running.values()
        held = sum(sum(job.milli) for job in running), sum(sum(job.sizes) for job in running)
        views = {name: replace(view, held=ResourceAmount()) for name, view in self.tenants.items()}
        views["nlp"] = replace(views["nlp"], held=ResourceAmount(*held))
        before = snapshot(occupied(self.pool, *running), *mine, *queue, tenants=views)
        return replace(
            before, running=tuple(running), beneficiaries=self.owed.list_claims(self.at * STEP)
        )

    @property
    def started(self) -> bool:
        return self.gang.job_ids[0] in self.running

    def step(self) -> None:
        """Plan and apply, then time passes."""
        before = self.now()
        self.board = self.board or PlanningState(before)
        plan = cycle(before, self.at * STEP, board=self.board, rules=RULES)
        awaited = {job.beneficiary for job in self.running.values()}
        for n, eviction in enumerate(plan.evictions):
            self.running[eviction.job] = replace(
                self.running[eviction.job], beneficiary=eviction.beneficiary
            )
            self.ends[eviction.job] = self.at + 1 + n % 2
            self.owed.add_eviction(eviction.job, eviction.beneficiary)
        for placement in plan.placements:
            self._start(before, placement)
        sit = {one.gang or one.job for one in plan.placements}
        lent = any(name and (name in sit or name not in self.told) for name in awaited)
        first = next(iter(self.told), "")
        assert not first or self.told[first] or first in sit or first in awaited or lent
        for claim in [claim for claim in self.told if claim in sit]:
            later = list(self.told)[list(self.told).index(claim) + 1 :]
            self.told |= dict.fromkeys(later, True)
        self.told = {claim: before for claim, before in self.told.items() if claim not in sit}
        self.told |= {
            e.beneficiary: False for e in plan.evictions if e.beneficiary not in self.told
        }
        assert (self.now().cards.free_milli >= 0).all()
        assert (self.now().cards.free_bytes >= 0).all()
        self.at += 1
        for job in [job for job, end in self.ends.items() if end <= self.at]:
            del self.running[job], self.ends[job]
            self.owed.record_departure(job, self.at * STEP)

    def _start(self, before: Snapshot, placement: JobPlacement) -> None:
        job, rows = (
            placement.job,
            tuple(before.cards.uuids.index(seat.device) for seat in placement.seats),
        )
        rival, name = self.rivals.pop(job, None), placement.gang
        want, steps = rival or self.small.pop(job, (whole(), 10**6))
        self.owed.remove_claim(name or job)
        milli, sizes = (
            tuple(getattr(s, name) for s in placement.seats)
            for name in ("gpu_milli", "memory_bytes")
        )
        tenant, priority = ("vision", self.gang.priority) if rival else ("nlp", 0)
        low = not name and rival is None
        self.running[job] = RunningJob(
            job,
            tenant,
            priority,
            rows,
            milli,
            sizes,
            want,
            self.at * STEP,
            gang=name,
            preemptible=low,
        )
        self.ends[job] = self.at + steps


smalls = st.tuples(
    st.builds(
        Shape,
        st.sampled_from([100, 300, 500, 1000]),
        st.sampled_from([GIB, 4 * GIB]),
        st.sampled_from([1, 1, 2]),
    ),
    st.integers(1, LONGEST),
)


@st.composite
def lives(draw: st.DrawFn, priority: int = 0, *, full: bool = False) -> Life:
    """A gang that the empty pool could hold, and a pool in which small jobs run already; `full`: on
    every card."""
    nodes = draw(st.integers(1, 4))
    pool = racked(
        f"{nodes}x{draw(st.integers(1, 3))}xL40S",
        rack=tuple(draw(st.integers(0, 1)) for _ in range(nodes)),
    )
    near = draw(
        st.sampled_from(
            [
                ANYWHERE,
                TopologyConstraint("rack"),
                TopologyConstraint("node"),
                TopologyConstraint(None, "rack"),
            ]
        )
    )
    parts = [role("a", whole(draw(st.integers(1, 2))), draw(st.integers(1, 4)))]
    parts += [role("b", Shape(500, GIB), draw(st.integers(1, 3)))] if draw(st.booleans()) else []
    asked = gang("gang", *parts, within=near, priority=priority)
    assert asked.gang is not None
    assume(judge_gang(asked.gang, tenant(), pool, tenant_name="nlp") is None)
    life = Life(pool, asked)
    life.small |= {f"old-{n}": job for n, job in enumerate(draw(st.lists(smalls, max_size=8)))}
    life.small |= {
        f"full-{n}": (Shape(500, GIB), LONGEST + 2) for n in range(2 * len(pool) if full else 0)
    }
    life.step()
    life.came = True
    return life


@often
@given(lives(), st.data())
def test_a_gang_that_is_next_starts_when_what_ran_before_it_has_ended_however_many_small_jobs_come(
    life: Life, data: st.DataObject
) -> None:
    for step in range(LONGEST + 1):
        for n, job in enumerate(data.draw(st.lists(smalls, min_size=3, max_size=6))):
            life.small[f"new-{step}-{n}"] = job
        life.step()
    assert life.started


@often
@given(lives(), st.data())
def test_neither_a_full_quota_nor_what_others_do_not_lend_lets_small_jobs_pass_a_gang_for_ever(
    life: Life, data: st.DataObject
) -> None:
    assert life.gang.gang is not None
    asked = find_pending_members(life.gang, (), life.pool.node)
    needs = sum(
        asked.roles[path].shape.held_milli * asked.roles[path].shape.count * n
        for path, n in asked.least.items()
    )
    spare = len(life.pool) * WHOLE - needs
    nominal = needs + data.draw(st.integers(0, max(0, spare)))
    kept = data.draw(st.integers(0, max(0, spare)))
    life.tenants = {
        "nlp": replace(
            tenant(),
            quota=Quota.from_limits(
                {GPU: QuotaLimit(nominal, 0)} if data.draw(st.booleans()) else {}
            ),
        ),
        "idle": replace(tenant(), quota=Quota.from_limits({GPU: QuotaLimit(kept, 0, 0)})),
    }
    # Ends are unknown: first it collects its quota, and once it has that, its cards. It hoards no
    # cards beyond a quota.
    for step in range(2 * LONGEST + 1):
        for n, job in enumerate(data.draw(st.lists(smalls, min_size=3, max_size=6))):
            life.small[f"new-{step}-{n}"] = job
        life.step()
    assert life.started


@often
@given(lives(priority=100), st.data())
def test_who_has_others_evicted_starts_as_soon_as_they_have_left(
    life: Life, data: st.DataObject
) -> None:
    for step in range(3):
        for n, job in enumerate(data.draw(st.lists(smalls, min_size=3, max_size=6))):
            life.small[f"new-{step}-{n}"] = job
        life.step()
    assert life.started
    assert np.all([not job.beneficiary for job in life.running.values()])


@often
@given(lives(priority=100, full=True), st.data())
def test_for_whom_others_were_told_to_leave_first_sits_whoever_of_its_priority_comes_meanwhile(
    life: Life, data: st.DataObject
) -> None:
    """Every step asserts it of whom others were told to leave for first: it sits, or counts on who
    is still leaving.

    Only one for whom others had left before it may have sat down on its seats.
    """
    life.tenants = {"nlp": replace(tenant(), past=10**12), "vision": tenant()}
    for step in range(LONGEST):
        for n, job in enumerate(
            data.draw(st.lists(smalls, min_size=1, max_size=3)) if step else ()
        ):
            life.rivals[f"rival-{step}-{n}"] = job
        life.step()
