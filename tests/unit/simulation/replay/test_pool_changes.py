"""A pool with nodes less and more: what is known of NUMA nodes stays with the nodes and cards that
it is about."""

from dataclasses import replace

from gpupool.base.units import GIB
from gpupool.model.claim import Shape
from gpupool.model.numa import NumaPart
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.idle_suspension import replace_suspended
from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.scheduling.snapshot.claims import SuspendedJob
from gpupool.simulation.replay.pool_changes import alter_pool
from gpupool.simulation.traces.trace import TraceNode
from tests.support.offered_nodes import NODES
from tests.support.scheduling_builders import cards, snapshot, waiting


def told(pool: CardTable) -> list[tuple[str, int, int, list[str]]]:
    """Per NUMA node its node, number, free processors and cards."""
    assert pool.hosts is not None
    numa = pool.hosts.numa
    assert numa is not None
    columns = (numa.node.tolist(), numa.number.tolist(), numa.free_cpu_milli.tolist())
    on = [
        [uuid for uuid, of in zip(pool.uuids, numa.of_card, strict=True) if of == n]
        for n in range(len(numa.node))
    ]
    return [
        (pool.nodes[node], number, free, mine)
        for node, number, free, mine in zip(*columns, on, strict=True)
    ]


def test_numa_nodes_go_and_stay_with_their_nodes() -> None:
    pool = cards("3x2xT4", hosts=(8000, 64 * GIB), numa=2)
    assert pool.hosts is not None
    assert pool.hosts.numa is not None
    pool.hosts.numa.add_usage(2, [NumaPart(1, 1500, GIB)])
    more = (TraceNode("new", (("T4", 16 * GIB),), 8000, 64 * GIB),)
    after = alter_pool(snapshot(pool), more, {"node-2"}).snapshot.cards
    assert told(after) == [
        ("node-1", 0, 4000, ["node-1/0"]),
        ("node-1", 1, 4000, ["node-1/1"]),
        ("node-3", 0, 4000, ["node-3/0"]),
        ("node-3", 1, 2500, ["node-3/1"]),
    ]


def test_offers_stay_with_their_cards() -> None:
    offers = {0: NODES[0].offers, 2: NODES[1].offers}
    pool = replace(cards("3x1xT4"), offers=offers)
    after = alter_pool(snapshot(pool), (), {"node-2"}).snapshot.cards
    assert after.uuids == ("node-1/0", "node-3/0")
    assert after.offers == {0: NODES[0].offers, 1: NODES[1].offers}


def test_what_is_kept_for_suspended_jobs_stays_with_their_cards() -> None:
    away = [SuspendedJob(f"s{row}", (row,), 500, (4 * GIB + row,)) for row in range(3)]
    whole = waiting("a", "b", "c", "d", want=Shape(1000, 10 * GIB))
    pool = replace_suspended(snapshot(cards("3x1xT4"), whole), tuple(away))
    more = (TraceNode("new", (("T4", 16 * GIB),)),)
    after = alter_pool(pool, more, {"node-2"}).snapshot
    assert after.cards.unlent_bytes is not None
    assert after.cards.unlent_bytes.tolist() == [4 * GIB, 4 * GIB + 2, 0]
    assert [(one.job, one.rows) for one in after.suspended] == [("s0", (0,)), ("s2", (1,))]
    plan = cycle(after, 0)
    assert sorted(one.seats[0].device for one in plan.placements) == [
        "new:0",
        "node-1/0",
        "node-3/0",
    ]
