"""Claims without a card hold processors and main memory of nodes, and never a card.

Pools live through many plans with claims of all kinds, preemption and closed cards. No node gives
more than it has, no such claim is on a node without an open card, and what it holds comes back.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from gpupool.base.units import GIB
from gpupool.model.claim import Shape
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.filtering import native_library
from gpupool.scheduling.rebalancing.defragment import plan_defragmentation
from gpupool.scheduling.rebalancing.load_balance import plan_rebalancing
from gpupool.scheduling.scoring.registry import POLICIES
from gpupool.scheduling.snapshot.cards import CARD_STATUS, CardStatus, HostColumns
from gpupool.scheduling.snapshot.claims import RunningJob, WaitingClass
from gpupool.scheduling.snapshot.plan import Plan
from gpupool.scheduling.snapshot.snapshot import Snapshot
from gpupool.scheduling.workspace.planning_state import PlanningState
from tests.support.gang_builders import occupied
from tests.support.scheduling_builders import cards, snapshot

POOLS = ("3x2xH200", "1x4xT4+2x2xH200", "4x1xH200")
#: As in test_card_owners: those that answer the same when they are asked again.
LASTING = [name for name in sorted(POLICIES) if not name.startswith("random")]
SECOND = 10**9
PLANS = 8
CPU_MILLI = 16_000
HOST_BYTES = 64 * GIB
SHAPES = (
    Shape(0, None, 0, cpu_milli=2_000, host_bytes=4 * GIB),
    Shape(0, None, 0, cpu_milli=12_000, host_bytes=8 * GIB),
    Shape(0, None, 0, host_bytes=48 * GIB),
    Shape(300, 2 * GIB, cpu_milli=4_000),
    Shape(1000, None, cpu_milli=8_000, host_bytes=32 * GIB),
    Shape(1000, None, 2),
)


@dataclass
class Life:
    """A pool as its ledger has it, and the chance that moves it."""

    seed: int
    running: dict[str, RunningJob] = field(default_factory=dict)
    number: int = 0
    evictions: int = 0
    starts: int = 0

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        pool = cards(POOLS[self.seed % len(POOLS)])
        # Every card of node 0 is closed: nothing may go there.
        closed = np.where(pool.node == 0, CARD_STATUS.index(CardStatus.DRAINING), pool.status)
        self.pool = replace(pool, status=closed.astype(pool.status.dtype))
        self.policy = LASTING[self.seed % len(LASTING)]

    def take_snapshot(self, now_ns: int) -> Snapshot:
        nodes = len(self.pool.nodes)
        cpu = np.full(nodes, CPU_MILLI, dtype=np.int64)
        memory = np.full(nodes, HOST_BYTES, dtype=np.int64)
        free_cpu = cpu.copy()
        free_memory = memory.copy()
        for job in self.running.values():
            node = job.find_node(self.pool.node)
            assert node, "node 0 takes nothing"
            free_cpu[node] -= job.shape.cpu_milli
            free_memory[node] -= job.shape.host_bytes
        assert (free_cpu >= 0).all()
        assert (free_memory >= 0).all()
        with_cards = [job for job in self.running.values() if job.rows]
        now = replace(
            occupied(self.pool, *with_cards),
            hosts=HostColumns(cpu, memory, free_cpu, free_memory),
        )
        taken = snapshot(now, *self._list_arrivals(now_ns), policy=self.policy)
        return replace(taken, running=tuple(self.running.values()))

    def _list_arrivals(self, now_ns: int) -> Iterator[WaitingClass]:
        for shape in self.random.sample(SHAPES, self.random.randint(2, 6)):
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
                preemptible=shape.count > 0,
            )

    def follow(self, before: Snapshot, plan: Plan, now_ns: int) -> None:
        """Write the plan: jobs start, victims leave, some jobs end."""
        classes = {name: one for one in before.waiting for name in one.job_ids}
        for eviction in plan.evictions:
            victim = self.running.pop(eviction.job, None)
            self.evictions += victim is not None
            assert victim is None or victim.rows, "a job without a card was evicted"
        for one in plan.placements:
            waits = classes[one.job]
            rows = tuple(self.pool.uuids.index(seat.device) for seat in one.seats)
            self.starts += not rows
            self.running[one.job] = RunningJob(
                one.job,
                "nlp",
                waits.priority,
                rows,
                tuple(seat.gpu_milli for seat in one.seats),
                tuple(seat.memory_bytes for seat in one.seats),
                waits.shape,
                now_ns,
                ends_ns=None if waits.seconds is None else now_ns + waits.seconds * SECOND,
                preemptible=waits.preemptible,
                node=None if rows else self.pool.nodes.index(one.node),
            )
        for name in list(self.running):
            if self.random.random() < 0.2:
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
        now_ns = turn * 300 * SECOND
        before = life.take_snapshot(now_ns)
        native_library.adopt_native_library(libraries[-1])
        plan = cycle(before, now_ns, board=board)
        for library in libraries:
            native_library.adopt_native_library(library)
            assert plan == cycle(before, now_ns), "a plan is a function of its snapshot"
        life.follow(before, plan, now_ns)
        after = life.take_snapshot(now_ns)
        for moves in (plan_defragmentation(after, now_ns), plan_rebalancing(after, now_ns)):
            assert all(life.running[move.job].rows for move in moves.moves)
    return life


def test_nodes_give_what_they_have_and_no_card_with_it(both_libraries: list[Path | None]) -> None:
    lives = [live(seed, both_libraries) for seed in range(12)]
    assert sum(life.starts for life in lives) > 40, "too few claims without a card started"
    assert sum(life.evictions for life in lives) > 5, "no life had a preemption"


def test_a_claim_is_promised_the_processors_that_come_back() -> None:
    hosts = (8_000, 64 * GIB)
    pool = cards("1x2xH200", hosts=hosts)
    assert pool.hosts is not None
    empty = np.zeros(1, dtype=np.int64)
    full = replace(pool, hosts=replace(pool.hosts, free_cpu_milli=empty))
    machine = RunningJob(
        "vm",
        "nlp",
        0,
        (),
        (),
        (),
        Shape(0, None, 0, cpu_milli=8_000),
        0,
        ends_ns=100 * SECOND,
        node=0,
    )
    waits = WaitingClass("nlp", 0, Shape(1000, cpu_milli=4_000), ("a",), 1, 0, seconds=600)
    before = replace(snapshot(full, waits), running=(machine,))
    plan = cycle(before, 10 * SECOND)
    assert plan.placements == ()
    assert plan.starts[waits.key].at_ns == 100 * SECOND
    # Without the machine's node nothing would say when they come back.
    unknown = replace(before, running=(replace(machine, node=None),))
    assert waits.key not in cycle(unknown, 10 * SECOND).starts
    # Processors alone cannot be held, so a claim without a card is promised nothing.
    other = replace(waits, shape=Shape(0, None, 0, cpu_milli=4_000))
    assert cycle(replace(before, waiting=(other,)), 10 * SECOND).starts == {}


def test_a_job_that_leaves_frees_its_processors_for_the_next_claim() -> None:
    pool = cards("1x1xH200", hosts=(8_000, 64 * GIB))
    machine = RunningJob("vm", "nlp", 0, (), (), (), Shape(0, None, 0, cpu_milli=5_000), 0, node=0)
    assert pool.hosts is not None
    left = replace(pool.hosts, free_cpu_milli=pool.hosts.cpu_milli - 5_000)
    state = PlanningState(replace(snapshot(replace(pool, hosts=left)), running=(machine,)))
    mark = state.mark()
    state.release_job(machine)
    assert state.free.cpu_milli.tolist() == [8_000]
    state.rollback(mark)
    assert state.free.cpu_milli.tolist() == [3_000]
