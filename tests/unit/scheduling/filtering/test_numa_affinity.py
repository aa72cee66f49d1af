"""Processors and main memory beside the cards: which cards a claim gets, and where its amounts come
from."""

from dataclasses import replace

import pytest

from gpupool.base.units import GIB
from gpupool.model.claim import ANYWHERE, Shape, TopologyConstraint
from gpupool.model.numa import NumaPart
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.preemption.victims import PreemptionRules
from gpupool.scheduling.rebalancing.workspace import MoveWorkspace, NodeClearing
from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from gpupool.scheduling.snapshot.snapshot import Snapshot
from tests.support.gang_builders import gang, occupied, role, running
from tests.support.numa_pools import REQUIRED, WISHED, Told, planned, pool, share, told
from tests.support.scheduling_builders import Used, cards, snapshot, tenant, waiting


def test_a_share_has_its_processors_from_the_numa_node_of_its_card() -> None:
    assert told(planned(pool(), share(3000))) == [(["node-1/0"], [(0, 3000)])]


def test_shares_go_on_to_the_other_socket_when_the_first_has_no_processors_left() -> None:
    shapes = [share(3000)] * 4
    found = [
        cards_[0]
        for cards_, _ in told(
            cycle(snapshot(pool(), waiting("a", "b", "c", "d", want=shapes[0])), 0)
        )
    ]
    assert found == ["node-1/0", "node-1/0", "node-1/2", "node-1/2"]


def test_what_the_near_numa_node_lacks_is_no_wall() -> None:
    full = {f"node-1/{n}": (1000, GIB) for n in (2, 3)}
    assert told(planned(pool(used=full, held={0: 6000}), share(4000))) == [
        (["node-1/0"], [(0, 2000), (1, 2000)])
    ]


def test_whole_cards_with_equal_links_are_those_beside_free_processors() -> None:
    want = Shape(1000, None, 2, cpu_milli=6000)
    assert told(planned(pool(held={0: 4000}), want)) == [(["node-1/2", "node-1/3"], [(1, 6000)])]
    assert told(planned(pool(held={0: 4000}), replace(want, cpu_milli=0)))[0][0] == [
        "node-1/0",
        "node-1/1",
    ]


def test_better_links_go_before_near_processors() -> None:
    used = {"node-1/3": (100, GIB)}
    want = Shape(1000, None, 2, cpu_milli=6000)
    assert told(planned(pool(used=used, held={0: 4000}), want)) == [
        (["node-1/0", "node-1/1"], [(0, 4000), (1, 2000)])
    ]


def test_several_shares_go_together_to_the_numa_node_that_has_the_most() -> None:
    assert told(planned(pool(held={0: 6000}), share(5000, count=2))) == [
        (["node-1/2", "node-1/3"], [(1, 5000)])
    ]


def test_required_whole_cards_come_from_the_numa_node_that_has_the_processors() -> None:
    want = Shape(1000, None, 2, cpu_milli=6000, within=REQUIRED)
    assert told(planned(pool(held={0: 4000}), want)) == [(["node-1/2", "node-1/3"], [(1, 6000)])]
    busy = pool(used={"node-1/3": (100, GIB)}, held={0: 4000})
    assert planned(busy, want).placements == ()


def test_a_node_that_says_nothing_of_its_numa_nodes_never_meets_the_condition() -> None:
    silent = cards("4xH200", hosts=(16_000, 64 * GIB))
    assert planned(silent, share(1000, within=REQUIRED)).placements == ()


def test_a_gang_has_as_many_members_on_a_node_as_its_numa_nodes_hold() -> None:
    member = share(5000, within=REQUIRED)
    before = snapshot(pool("2x4xH200"), gang("g", role("worker", member, 5)))
    assert cycle(before, 0).placements == ()
    four = cycle(snapshot(pool("2x4xH200"), gang("g", role("worker", member, 4))), 0)
    assert sorted(told(four)) == [
        (["node-1/0"], [(0, 5000)]),
        (["node-1/2"], [(1, 5000)]),
        (["node-2/0"], [(0, 5000)]),
        (["node-2/2"], [(1, 5000)]),
    ]


def placed_where_claims_are_known(held: dict[int, int], within: TopologyConstraint) -> Told:
    """By the default policy once it knows what comes: it leaves ties, where a policy without a
    future leaves none."""
    before = snapshot(pool("2x4xH200", held=held), waiting("j", want=share(6000, within=within)))
    return told(cycle(replace(before, expected=ExpectedDemand((share(6000),), (1.0,))), 10))


@pytest.mark.parametrize(
    ("held", "node"),
    [({0: 4000, 1: 4000, 2: 8000}, "node-2"), ({2: 4000, 3: 4000, 0: 8000}, "node-1")],
)
def test_of_nodes_that_are_equal_for_the_policy_one_that_grants_the_wish_is_taken(
    held: dict[int, int], node: str
) -> None:
    """Both nodes have 8 processors left: one has them on one NUMA node, the other 4 on each."""
    assert placed_where_claims_are_known(held, WISHED) == [([f"{node}/2"], [(1, 6000)])]


def test_a_wish_that_no_node_grants_changes_nothing() -> None:
    held = dict.fromkeys(range(4), 4000)
    wished, plain = (placed_where_claims_are_known(held, within) for within in (WISHED, ANYWHERE))
    assert wished == plain
    assert len(wished) == 1


def holding(columns: CardTable, want: Shape) -> Snapshot:
    """The pool in which one preemptible job has what a plan gave it."""
    (one,) = planned(columns, want).placements
    job = running(columns, "old", *(seat.device for seat in one.seats), want=want)
    job = replace(job, numa=one.numa)
    taken = occupied(columns, job)
    assert taken.hosts is not None
    assert taken.hosts.numa is not None
    taken.hosts.free_cpu_milli[0] -= want.cpu_milli
    taken.hosts.numa.add_usage(0, one.numa)
    return replace(snapshot(taken, tenants={"other": tenant(), "nlp": tenant()}), running=(job,))


def test_a_victim_gives_back_the_numa_node_that_the_urgent_claim_requires() -> None:
    before = holding(pool(), share(7000, milli=1000))
    urgent = waiting("urgent", want=share(6000, milli=1000, within=REQUIRED), priority=100)
    full = {f"node-1/{n}": (1000, GIB) for n in (1, 2, 3)}
    before = replace(
        before, cards=replace(before.cards, free_milli=before.cards.free_milli - _used(full))
    )
    plan = cycle(replace(before, waiting=(urgent,)), 3600 * 10**9, rules=PreemptionRules())
    assert [eviction.job for eviction in plan.evictions] == ["old"]


def _used(full: Used) -> list[int]:
    return [full.get(f"node-1/{n}", (0, 0))[0] for n in range(4)]


def test_a_job_moves_only_to_where_its_condition_holds() -> None:
    columns = pool("2x4xH200", used={"node-2/0": (200, GIB)}, held={2: 3000, 3: 3000})
    before = holding(columns, share(6000, within=REQUIRED))
    off_its_node = NodeClearing(0, (0,), (0,), 0, 0, 0)
    assert MoveWorkspace(before, 0, block=4).clear_node(off_its_node) is None
    assert before.cards.hosts is not None
    assert before.cards.hosts.numa is not None
    before.cards.hosts.numa.add_usage(1, [NumaPart(0, 3000, 0)], -1)
    mover = MoveWorkspace(before, 0, block=4)
    (move,) = mover.clear_node(off_its_node) or ()
    assert move.rows == (4,)
    assert mover.free.numa.cpu_milli.tolist() == [8000, 8000, 2000, 5000]
