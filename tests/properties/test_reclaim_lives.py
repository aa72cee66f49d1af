"""Lives of pools with guarantees: what was taken back for a claim is not borrowed again before that
claim sits.

A step plans, applies the plan, and then lets those leave who were told to; who was evicted waits
again, as it does in a pool. Borrowers have any priority and more of them keep coming.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from gpupool.base.units import GIB, WHOLE
from gpupool.model.claim import Shape
from gpupool.model.quota import ResourceAmount
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.preemption.beneficiaries import EvictionBeneficiaries
from gpupool.scheduling.preemption.victims import PreemptionRules
from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.scheduling.snapshot.claims import ClassKey, RunningJob, WaitingClass
from gpupool.scheduling.snapshot.plan import JobPlacement
from gpupool.scheduling.snapshot.snapshot import Snapshot
from gpupool.scheduling.workspace.planning_state import PlanningState
from tests.support.gang_builders import gang, occupied, role
from tests.support.properties import whole_pools
from tests.support.scheduling_builders import cards, snapshot, tenant, waiting, whole

STEP = 60 * 10**9
LEAVING = 2
"""Steps that a victim takes to leave at most."""
RULES = PreemptionRules(protected_s=0, per_hour=None)
BORROWERS = ("vision", "speech")

few = settings(whole_pools, max_examples=30)


@dataclass
class Life:
    """`nlp` is guaranteed every card; the others borrow."""

    pool: CardTable
    waits: dict[str, WaitingClass] = field(default_factory=dict)
    """By job, or gang by id, in the order in which they came."""
    running: dict[str, RunningJob] = field(default_factory=dict)
    leaves: dict[str, int] = field(default_factory=dict)
    """When a victim is gone."""
    told: Counter[str] = field(default_factory=Counter)
    """By claim, in how many plans jobs were told to leave for it."""
    owed: EvictionBeneficiaries = field(default_factory=EvictionBeneficiaries)
    of: dict[str, WaitingClass] = field(default_factory=dict)
    """What a job was when it waited."""
    at: int = 0
    board: PlanningState | None = None

    def come(self, one: WaitingClass) -> None:
        self.waits[one.gang.id if one.gang else one.job_ids[0]] = one
        self.of |= dict.fromkeys(one.job_ids, one)

    def now(self) -> Snapshot:
        tenants = {"nlp": tenant(WHOLE * len(self.pool), 0)} | {
            name: tenant(0, None) for name in BORROWERS
        }
        for job in self.running.values():
            view = tenants[job.tenant]
            held = view.held + ResourceAmount(sum(job.milli), sum(job.sizes))
            tenants[job.tenant] = replace(view, held=held)
        found = snapshot(
            occupied(self.pool, *self.running.values()),
            *_classes(self.waits.values()),
            tenants=tenants,
        )
        return replace(
            found,
            running=tuple(self.running.values()),
            beneficiaries=self.owed.list_claims(self.at * STEP),
        )

    def step(self, leaving: int = 1) -> None:
        before = self.now()
        self.board = self.board or PlanningState(before)
        plan = cycle(before, self.at * STEP, board=self.board, rules=RULES)
        awaited = {job.beneficiary for job in self.running.values()}
        due = {
            name
            for name in before.beneficiaries
            if name not in awaited and self.waits[name].tenant == "nlp"
        }
        assert due <= {one.gang or one.job for one in plan.placements}, (
            "its victims are gone: it sits now"
        )
        self.told.update({eviction.beneficiary for eviction in plan.evictions})
        for eviction in plan.evictions:
            self.running[eviction.job] = replace(
                self.running[eviction.job], beneficiary=eviction.beneficiary, preemptible=False
            )
            self.leaves[eviction.job] = self.at + leaving
            self.owed.add_eviction(eviction.job, eviction.beneficiary)
        for placement in plan.placements:
            self._start(before, placement)
        self.at += 1
        for job in [job for job, gone in self.leaves.items() if gone <= self.at]:
            del self.running[job], self.leaves[job]
            self.owed.record_departure(job, self.at * STEP)
            self.waits[job] = self.of[job]

    def _start(self, before: Snapshot, placement: JobPlacement) -> None:
        job = placement.job
        was = self.of[job]
        rows = tuple(before.cards.uuids.index(seat.device) for seat in placement.seats)
        milli, sizes = (
            tuple(getattr(s, name) for s in placement.seats)
            for name in ("gpu_milli", "memory_bytes")
        )
        self.running[job] = RunningJob(
            job, was.tenant, was.priority, rows, milli, sizes, was.shape, self.at * STEP,
            gang=placement.gang, preemptible=was.preemptible,
        )  # fmt: skip
        self.waits.pop(placement.gang or job, None)
        self.owed.remove_claim(placement.gang or job)


def _classes(waits: Iterable[WaitingClass]) -> list[WaitingClass]:
    """Equal claims as one class, as every host gives them."""
    found: dict[ClassKey, list[WaitingClass]] = {}
    for one in waits:
        found.setdefault(one.key, []).append(one)
    return [_class(each) if len(each) > 1 else each[0] for each in found.values()]


def _class(each: list[WaitingClass]) -> WaitingClass:
    heads = tuple(head for one in each for head in one.job_ids)
    ages = tuple(one.oldest_ns for one in each)
    return replace(each[0], job_ids=heads, count=len(heads), oldest_ns=min(ages), submitted_ns=ages)


def borrower(number: int, want: Shape, tenant: str, priority: int) -> WaitingClass:
    return replace(
        waiting(f"b{number}", want=want, tenant=tenant, priority=priority, at=number),
        preemptible=True,
    )


borrowers = st.tuples(
    st.builds(
        Shape, st.sampled_from([300, 500, 1000]), st.just(4 * GIB), st.sampled_from([1, 1, 2])
    ),
    st.sampled_from(BORROWERS),
    st.sampled_from([-10, 0, 10, 100]),
)
pools = st.sampled_from(["1x1xL40S", "1x2xL40S", "2x2xL40S", "1x4xL40S"])


@few
@given(
    pools,
    st.lists(borrowers, min_size=4, max_size=10),
    st.sampled_from([0, 10]),
    st.integers(1, LEAVING),
    st.data(),
)
def test_what_was_taken_back_is_not_borrowed_again_before_the_claim_sits(
    layout: str,
    others: list[tuple[Shape, str, int]],
    priority: int,
    leaving: int,
    data: st.DataObject,
) -> None:
    life = Life(cards(layout))
    for number, (want, name, level) in enumerate(others):
        life.come(borrower(number, want, name, level))
    life.step()
    life.step()
    members = data.draw(st.integers(1, len(life.pool)), label="cards that the owner asks for")
    as_gang = data.draw(st.booleans(), label="as a gang")
    claims = [gang("o", role("w", whole(), members), priority=priority, at=99)] if as_gang else []
    claims += [
        waiting(f"o{n}", want=whole(), priority=priority, at=99 + n)
        for n in range(0 if as_gang else members)
    ]
    for one in claims:
        life.come(one)
    for step in range(
        (leaving + 1) * len(claims) + 1
    ):  # told, gone after `leaving`, seated; one claim at a time at most
        for number in range(2):
            want, name, level = data.draw(borrowers)
            life.come(borrower(100 + 10 * step + number, want, name, level))
        life.step(leaving)
    sits = {job.gang or job.job for job in life.running.values() if job.tenant == "nlp"}
    assert sits == {one.gang.id if one.gang else one.job_ids[0] for one in claims}
    assert all(life.told[name] <= 1 for name in sits), "nobody has to leave for a claim twice"


def test_borrowers_do_not_evict_what_an_owner_waits_to_reclaim() -> None:
    """While seats are being freed for `o0`, the other card's jobs are left for `o1` to take back."""
    half = Shape(500, 4 * GIB, 1)
    life = Life(cards("1x2xL40S"))
    life.come(borrower(0, Shape(300, 4 * GIB, 2), "speech", 100))
    life.come(borrower(1, Shape(300, 4 * GIB, 1), "vision", 10))
    life.come(borrower(2, Shape(300, 4 * GIB, 1), "speech", 10))
    life.step()
    assert len(life.running) == 3
    for number in range(2):
        life.come(waiting(f"o{number}", want=whole(), at=99 + number))
    for number in range(6):  # of rising priority, so that each may evict the one before
        life.come(borrower(10 + number, half, BORROWERS[number % 2], 100 + number))
        life.step(leaving=2)
    assert {job for job in life.running if life.running[job].tenant == "nlp"} == {"o0", "o1"}
    assert set(life.told) == {"o0", "o1"}, "no borrower evicted another one meanwhile"
