"""What holds for processors and main memory by NUMA node, whatever the pool, the queue and what
ended before."""

from dataclasses import replace

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpupool.base.units import GIB
from gpupool.model.claim import ANYWHERE, Shape, TopologyConstraint
from gpupool.model.gang import Gang, GangGroup, GangRole
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.preemption.victims import PreemptionRules
from gpupool.scheduling.snapshot.cards import CardTable, HostColumns
from gpupool.scheduling.snapshot.claims import ExpectedDemand, WaitingClass
from gpupool.scheduling.snapshot.numa_nodes import NumaNodes
from gpupool.scheduling.snapshot.plan import JobPlacement
from gpupool.scheduling.snapshot.snapshot import Snapshot
from gpupool.scheduling.workspace.planning_state import PlanningState
from gpupool.simulation.replay.world import SimulatedJob, SimulatedPool
from tests.support.gang_builders import gang, role
from tests.support.scheduling_builders import cards, tenant

often = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])

shapes = st.builds(
    Shape,
    gpu_milli=st.sampled_from([200, 500, 1000]),
    memory_bytes=st.sampled_from([None, GIB]),
    count=st.sampled_from([1, 1, 2, 3]),
    cpu_milli=st.sampled_from([0, 1500, 4000, 9000]),
    host_bytes=st.sampled_from([0, GIB, 20 * GIB]),
    within=st.sampled_from(
        [ANYWHERE, ANYWHERE, TopologyConstraint("numa"), TopologyConstraint(None, "numa")]
    ),
)
pools = st.builds(
    lambda layout, numa: cards(layout, hosts=(16_000, 48 * GIB), numa=numa),
    st.sampled_from(["2x4xT4", "1x8xH200", "3x2xL40S", "1x4xH200+2x3xT4"]),
    st.integers(1, 4),
)
expected = st.sampled_from(
    [ExpectedDemand(), ExpectedDemand((Shape(200, GIB, cpu_milli=1500), Shape(1000)), (3.0, 1.0))]
)


@st.composite
def worlds(draw: st.DrawFn) -> SimulatedPool:
    """A pool with a queue of single claims and gangs, some of them preemptible."""
    nobody = {name: tenant() for name in ("a", "b")}
    world = SimulatedPool(Snapshot(1, draw(pools), nobody, (), expected=draw(expected)))
    for number in range(draw(st.integers(1, 8))):
        priority, preemptible = draw(st.sampled_from([(0, True), (0, False), (100, False)]))
        who = draw(st.sampled_from(["a", "b"]))
        if draw(st.integers(0, 3)) == 0:
            one = gang(f"g{number}", role("r", draw(shapes), draw(st.integers(1, 3))), tenant=who)
            asked = replace(one, priority=priority)
            heads, whole = one.job_ids, one.gang
        else:
            asked, heads, whole = (
                WaitingClass(who, priority, draw(shapes), (f"j{number}",), 1, 0),
                (f"j{number}",),
                None,
            )
        world.enqueue_jobs(
            SimulatedJob(job, asked.key, asked.shape, 0, None, whole, preemptible) for job in heads
        )
    return world


def numa_of(pool: CardTable) -> NumaNodes:
    assert pool.hosts is not None
    assert pool.hosts.numa is not None
    return pool.hosts.numa


def check(world: SimulatedPool) -> None:
    """No NUMA node has given more than it has; hosts and NUMA nodes tell of the same use."""
    hosts = world.cards.hosts
    numa = numa_of(world.cards)
    assert hosts is not None
    assert (numa.free_cpu_milli >= 0).all()
    assert (numa.free_memory_bytes >= 0).all()
    for of_numa, of_host in (
        (numa.free_cpu_milli, hosts.free_cpu_milli),
        (numa.free_memory_bytes, hosts.free_memory_bytes),
    ):
        assert np.bincount(numa.node, weights=of_numa).tolist() == of_host.tolist()


def check_placed(world: SimulatedPool, one: JobPlacement, shape: Shape) -> None:
    """What a claim asks for is divided to the last thousandth and byte, and in one NUMA node where
    that is required."""
    assert sum(part.cpu_milli for part in one.numa) == shape.cpu_milli
    assert sum(part.host_bytes for part in one.numa) == shape.host_bytes
    if shape.within.required == "numa" and one.numa:
        of_card = numa_of(world.cards).of_card[
            [world.cards.uuids.index(seat.device) for seat in one.seats]
        ]
        assert {part.numa for part in one.numa} == {
            int(numa_of(world.cards).number[entry]) for entry in of_card
        }
        assert len(one.numa) == 1


@often
@given(worlds(), st.data())
def test_no_numa_node_gives_more_than_it_has_and_all_comes_back(
    world: SimulatedPool, data: st.DataObject
) -> None:
    before, board = numa_of(world.cards).copy(), PlanningState(world.take_snapshot(0))
    for now in range(1, 5):
        plan = cycle(
            world.take_snapshot(now), now, board=board, rules=PreemptionRules(protected_s=0)
        )
        for one in plan.placements:
            shape = world.place_job(one, now).shape
            check_placed(world, one, shape)
        check(world)
        leaving = {eviction.job for eviction in plan.evictions}
        ended = (
            data.draw(st.lists(st.sampled_from(sorted(world.running)), unique=True))
            if world.running
            else []
        )
        for job in sorted(leaving | set(ended)):
            world.release_job(job, now)
        check(world)
    for job in list(world.running):
        world.release_job(job, 9)
    after = numa_of(world.cards)
    assert after.free_cpu_milli.tolist() == before.free_cpu_milli.tolist()
    assert after.free_memory_bytes.tolist() == before.free_memory_bytes.tolist()


@often
@given(worlds())
def test_a_board_that_lives_on_plans_what_a_new_one_does(world: SimulatedPool) -> None:
    board = PlanningState(world.take_snapshot(0))
    for now in range(1, 4):
        snapshot = world.take_snapshot(now)
        plan = cycle(snapshot, now, board=board)
        assert plan == cycle(snapshot, now)
        for one in plan.placements:
            world.place_job(one, now)
        for job in list(world.running)[::2]:
            world.release_job(job, now)


def without(snapshot: Snapshot) -> Snapshot:
    hosts = snapshot.cards.hosts
    assert hosts is not None
    bare: HostColumns = replace(hosts, numa=None)
    return replace(snapshot, cards=replace(snapshot.cards, hosts=bare))


def asking(snapshot: Snapshot, **less: object) -> Snapshot:
    """The queue with every claim's shape changed so."""

    def shape(one: Shape) -> Shape:
        return replace(one, **less)  # type: ignore[arg-type]

    def group(one: GangGroup) -> GangGroup:
        parts = (
            replace(p, shape=shape(p.shape)) if isinstance(p, GangRole) else group(p)
            for p in one.parts
        )
        return replace(one, parts=tuple(parts))

    def waiting(one: WaitingClass) -> WaitingClass:
        whole = one.gang and Gang(one.gang.id, group(one.gang.root), one.gang.members)
        return replace(one, shape=shape(one.shape), gang=whole)

    return replace(snapshot, waiting=tuple(map(waiting, snapshot.waiting)))


@often
@given(worlds())
def test_numa_nodes_change_no_choice_of_a_node_where_one_claim_is_placed(
    world: SimulatedPool,
) -> None:
    """Only which cards of it; one claim, because those that follow find other cards taken."""
    snapshot = asking(world.take_snapshot(1), within=ANYWHERE)
    with_, bare = (cycle(one, 1, limit=1).placements for one in (snapshot, without(snapshot)))
    assert [(one.job, one.node) for one in with_] == [(one.job, one.node) for one in bare]


@often
@given(worlds())
def test_claims_to_cards_alone_are_placed_as_if_nothing_were_known_of_numa_nodes(
    world: SimulatedPool,
) -> None:
    cards_alone = asking(world.take_snapshot(1), within=ANYWHERE, cpu_milli=0, host_bytes=0)
    assert cycle(cards_alone, 1) == cycle(without(cards_alone), 1)
