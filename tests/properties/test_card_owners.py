"""A card in use has MPS shares of one owner or shares without MPS, whatever comes and goes.

Pools live through many plans with claims of all kinds, preemption included. The plan of a pool that
lived is that of a new one, and NumPy and the native library give the same plan.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import pytest

from gpupool.base.units import GIB
from gpupool.model.claim import Shape, SharingKind
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.filtering import native_library
from gpupool.scheduling.rebalancing.defragment import plan_defragmentation
from gpupool.scheduling.rebalancing.load_balance import plan_rebalancing
from gpupool.scheduling.scoring.registry import POLICIES
from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.scheduling.snapshot.claims import RunningJob, WaitingClass
from gpupool.scheduling.snapshot.plan import Plan
from gpupool.scheduling.snapshot.running_jobs_log import RunningJobsRegister
from gpupool.scheduling.snapshot.snapshot import Snapshot
from gpupool.scheduling.workspace.planning_state import PlanningState
from tests.support.gang_builders import occupied
from tests.support.scheduling_builders import cards, snapshot

POOLS = ("3x2xH200", "1x4xT4+2x2xH200", "4x1xH200", "2x3xH200")
#: Those that answer the same when they are asked again.
LASTING = [name for name in sorted(POLICIES) if not name.startswith("random")]
SECOND = 10**9
PLANS = 8


def mps(owner: str, milli: int) -> Shape:
    return Shape(milli, 2 * GIB, sharing=SharingKind.MPS, owner=owner)


SHAPES = (
    mps("nlp/alice", 300),
    mps("nlp/alice", 1000),
    mps("nlp/bob", 300),
    mps("nlp/bob", 100),
    Shape(300, 2 * GIB),
    Shape(600, 4 * GIB),
    Shape(200, 2 * GIB, sharing=SharingKind.BEST_EFFORT),
    Shape(1000, None),
    Shape(1000, None, 2),
)


def find_mixed_cards(jobs: list[RunningJob]) -> dict[int, set[str]]:
    """Cards with shares of several owners, or with and without MPS."""
    owners = defaultdict[int, set[str]](set)
    for job in jobs:
        for row in job.rows:
            owners[row].add(job.shape.owner)
    return {row: names for row, names in owners.items() if len(names) > 1}


@dataclass
class Life:
    """A pool as its ledger has it, and the chance that moves it."""

    seed: int
    running: dict[str, RunningJob] = field(default_factory=dict)
    number: int = 0
    evictions: int = 0
    shared: int = 0

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.pool = cards(POOLS[self.seed % len(POOLS)])
        self.policy = LASTING[self.seed % len(LASTING)]

    def take_snapshot(self, now_ns: int) -> Snapshot:
        register = RunningJobsRegister()
        for job in self.running.values():
            register.put_job(job)
        now = replace(
            occupied(self.pool, *self.running.values()), owners=register.list_card_owners()
        )
        taken = snapshot(now, *self._list_arrivals(now_ns), policy=self.policy)
        return replace(taken, running=register.get_view())

    def _list_arrivals(self, now_ns: int) -> Iterator[WaitingClass]:
        for shape in self.random.sample(SHAPES, self.random.randint(1, 5)):
            names = tuple(f"j{self.number + n}" for n in range(self.random.randint(1, 3)))
            self.number += len(names)
            yield WaitingClass(
                "nlp",
                self.random.choice((0, 0, 100)),
                shape,
                names,
                len(names),
                now_ns,
                seconds=self.random.choice((None, 600)),
                preemptible=True,
            )

    def follow(self, before: Snapshot, plan: Plan, now_ns: int) -> None:
        """Write the plan: jobs start, victims leave, some jobs end."""
        classes = {name: one for one in before.waiting for name in one.job_ids}
        for eviction in plan.evictions:
            self.evictions += self.running.pop(eviction.job, None) is not None
        for one in plan.placements:
            waits = classes[one.job]
            rows = tuple(self.pool.uuids.index(seat.device) for seat in one.seats)
            self.running[one.job] = RunningJob(
                one.job,
                "nlp",
                waits.priority,
                rows,
                tuple(seat.gpu_milli for seat in one.seats),
                tuple(seat.memory_bytes for seat in one.seats),
                waits.shape,
                now_ns,
                preemptible=True,
            )
        owners = [job.shape.owner for job in self.running.values() if job.shape.owner]
        self.shared += len(owners) - len(set(owners))
        for name in list(self.running):
            if self.random.random() < 0.15:
                del self.running[name]


@pytest.fixture
def both_libraries(kernel_library: Path) -> Iterator[list[Path | None]]:
    before = native_library.get_native_library_path()
    yield [None, kernel_library]
    native_library.adopt_native_library(before)


def live(seed: int, libraries: list[Path | None]) -> Life:
    life = Life(seed)
    native_library.adopt_native_library(libraries[-1])
    board = PlanningState(life.take_snapshot(0))
    for turn in range(PLANS):
        # Past the time for which a job is protected from eviction.
        now_ns = turn * 3600 * SECOND
        before = life.take_snapshot(now_ns)
        native_library.adopt_native_library(libraries[-1])
        plan = cycle(before, now_ns, board=board)
        for library in libraries:
            native_library.adopt_native_library(library)
            assert plan == cycle(before, now_ns), "a plan is a function of its snapshot"
        life.follow(before, plan, now_ns)
        assert not find_mixed_cards(list(life.running.values()))
    return life


def test_no_card_has_shares_of_two_owners(both_libraries: list[Path | None]) -> None:
    lives = [live(seed, both_libraries) for seed in range(10)]
    assert sum(life.evictions for life in lives) > 5, "no life had a preemption"
    assert sum(life.shared for life in lives) > 20, "no card was shared by MPS"


def list_moved(jobs: tuple[RunningJob, ...], moves: tuple[object, ...]) -> list[RunningJob]:
    """The jobs after their moves."""
    moved = {job.job: job for job in jobs}
    for move in moves:
        moved[move.job] = replace(moved[move.job], rows=move.rows)  # type: ignore[attr-defined]
    return list(moved.values())


def crowded(seed: int) -> Snapshot:
    """A pool in which each card has shares of one kind, and many cards are half empty."""
    random = Random(seed)
    pool: CardTable = cards("4x3xH200")
    register = RunningJobsRegister()
    for row in range(len(pool)):
        shape = random.choice(SHAPES[:6])
        for number in range(random.randint(0, 2)):
            if shape.gpu_milli * (number + 1) <= 1000:
                register.put_job(
                    RunningJob(
                        f"j{row}-{number}",
                        "nlp",
                        0,
                        (row,),
                        (shape.gpu_milli,),
                        (shape.memory_bytes or 0,),
                        shape,
                        0,
                        preemptible=True,
                    )
                )
    jobs = register.get_view()
    now = replace(occupied(pool, *jobs), owners=register.list_card_owners())
    return replace(snapshot(now), running=jobs)


def test_moves_leave_each_card_to_one_owner() -> None:
    moves = 0
    for seed in range(30):
        before = crowded(seed)
        assert not find_mixed_cards(list(before.running))
        for plan in (plan_defragmentation(before, 0), plan_rebalancing(before, 0)):
            moves += len(plan.moves)
            assert not find_mixed_cards(list_moved(before.running, plan.moves))
    assert moves > 20


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_share_without_a_promise_starts_beside_what_gives_way(
    both_libraries: list[Path | None], policy: str
) -> None:
    """More is promised of the card than it has until the evicted job is gone."""
    pool, now_ns = cards("1x1xH200"), 10 * 3600 * SECOND
    victim = RunningJob(
        "victim", "nlp", 0, (0,), (600,), (4 * GIB,), Shape(600, 4 * GIB), 0, preemptible=True
    )
    best_effort = Shape(200, 2 * GIB, sharing=SharingKind.BEST_EFFORT)
    waits = (
        WaitingClass("nlp", 100, Shape(600, 4 * GIB), ("urgent",), 1, now_ns),
        WaitingClass("nlp", 0, best_effort, ("beside",), 1, now_ns),
    )
    before = snapshot(occupied(pool, victim), *waits, policy=policy)
    before = replace(before, running=(victim,))
    for library in both_libraries:
        native_library.adopt_native_library(library)
        plan = cycle(before, now_ns)
        assert [one.job for one in plan.evictions] == ["victim"]
        assert [one.job for one in plan.placements] == ["beside"]
