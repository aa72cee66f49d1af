"""What was noted is what the scheduler sees, however it came in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpupool.base.units import GIB
from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.resources.gpu_node import GpuNode
from gpupool.kubernetes.resources.gpu_node_status import SlotUse
from gpupool.kubernetes.resources.node import NodeFacts
from gpupool.scheduling.snapshot.cards import CARD_STATUS, CardStatus
from tests.support.cluster_caches import hold, note, note_node, plan, two_node_pool
from tests.support.kube_builders import asking, gang, gpu_node, node, pod


@pytest.fixture
def pool() -> ClusterCache:
    return two_node_pool()


def test_a_gated_pod_is_placed_and_a_plan_names_the_ledgers_version(pool: ClusterCache) -> None:
    note(pool, pod())
    (placement,) = plan(pool).placements
    assert placement.job == "uid-a/main"
    assert placement.generations == (1,)
    assert placement.seats[0].memory_bytes == 8 * GIB


def test_a_ledger_that_was_read_since_is_noted_though_its_version_is_lower(
    pool: ClusterCache,
) -> None:
    hold(pool, "n0", "x", 800, 40 * GIB)
    assert pool.note_ledger("n0", GpuNode.from_json(gpu_node("n0")), sure=True)
    assert (pool.ledger_node_of("x"), pool.take_snapshot().cards.free_milli[0]) == ("", 1000)


def test_an_older_ledger_is_not_noted(pool: ClusterCache) -> None:
    hold(pool, "n0", "x", 800, GIB)
    assert not pool.note_ledger("n0", GpuNode.from_json(gpu_node("n0")))
    assert pool.take_snapshot().cards.free_milli[0] == 200


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"mode": "observe"}, CardStatus.NOT_ADOPTED),
        ({"mode": "slot"}, CardStatus.OPEN),
    ],
)
def test_only_adopted_nodes_are_open(change: dict[str, Any], status: CardStatus) -> None:
    pool = ClusterCache()
    pool.note_host("n0", NodeFacts.from_json(node("n0")))
    pool.note_ledger("n0", GpuNode.from_json(gpu_node("n0", **change)))
    assert set(pool.take_snapshot().cards.status.tolist()) == {CARD_STATUS.index(status)}


def test_a_node_whose_agent_or_kubelet_is_silent_takes_nothing() -> None:
    silent = gpu_node("n0")
    silent["status"]["conditions"] = []
    pool = ClusterCache()
    pool.note_host("n0", NodeFacts.from_json(node("n0")))
    pool.note_ledger("n0", GpuNode.from_json(silent))
    assert (
        pool.take_snapshot().cards.status.tolist() == [CARD_STATUS.index(CardStatus.UNHEALTHY)] * 4
    )


def test_a_node_whose_cards_are_held_without_an_entry_takes_nothing_until_they_are_free(
    pool: ClusterCache,
) -> None:
    for name in ("n0", "n1"):
        pool.note_ledger(name, replace(pool.ledgers[name], slots=(SlotUse("uid-lost", "main"),)))
    note(pool, pod())
    assert not plan(pool).placements
    pool.note_ledger(
        "n1", replace(pool.ledgers["n1"], slots=(SlotUse("uid-lost", "main", released=True),))
    )
    assert [placement.node for placement in plan(pool).placements] == ["n1"]


def test_a_pod_goes_only_where_its_selector_and_taints_let_it() -> None:
    pool = ClusterCache()
    note_node(pool, "n0")
    note_node(pool, "n1", zone="b")
    note(
        pool,
        pod("a", spec={"nodeSelector": {"zone": "b"}}),
        pod("b", spec={"nodeSelector": {"zone": "c"}}),
    )
    found = plan(pool)
    assert [(one.job, one.node) for one in found.placements] == [("uid-a/main", "n1")]
    (rejection,) = found.rejections.values()
    assert not rejection.fits_ever


def test_a_cordoned_node_takes_nobody_and_comes_back() -> None:
    pool = ClusterCache()
    note_node(pool, "n0")
    cordoned = node("n0")
    cordoned["spec"]["unschedulable"] = True
    note(pool, pod())
    pool.note_host("n0", NodeFacts.from_json(cordoned))
    assert not plan(pool).placements
    pool.note_host("n0", NodeFacts.from_json(node("n0")))
    assert plan(pool).placements


def test_two_containers_with_cards_come_to_one_node_or_not_at_all(pool: ClusterCache) -> None:
    note(pool, pod(containers={"one": asking(3, 1000, None), "two": asking(1, 500, GIB)}))
    found = plan(pool).placements
    assert sorted(one.job for one in found) == ["uid-a/one", "uid-a/two"]
    assert len({one.node for one in found}) == 1
    note(pool, pod(containers={"one": asking(4, 1000, None), "two": asking(1, 500, GIB)}))
    assert not plan(pool).placements


def test_a_node_of_whole_cards_takes_whole_ones_alone_and_says_so_of_others(
    pool: ClusterCache,
) -> None:
    for name in ("n0", "n1"):
        pool.note_ledger(name, GpuNode.from_json(gpu_node(name, mode="whole", version=2)))
    share, part_of_memory = pod("a"), pod("b", {"main": asking(1, 1000, 8 * GIB)})
    note(pool, share, part_of_memory, pod("c", {"main": asking(2, 1000, None)}))
    assert [one.job for one in plan(pool).placements] == ["uid-c/main"]
    pool.note_ledger("n0", GpuNode.from_json(gpu_node("n0", mode="slot", version=3)))
    assert {one.node for one in plan(pool).placements if one.job != "uid-c/main"} == {"n0"}


@pytest.mark.parametrize(
    "of",
    [{"gang": gang(3)}, {"containers": {"main": asking(), "more": asking()}}],
    ids=["of a gang", "of two containers"],
)
def test_pod_with_more_processors_than_numbers_hold_leaves_others_placed(
    pool: ClusterCache, of: dict[str, Any]
) -> None:
    """The API server takes any request up to 2^63 - 1, and the scheduler's columns have 64 bits."""
    most = str(2**63 - 1)
    huge = pod("huge", **of)
    huge["spec"]["containers"][0]["resources"]["requests"] = {"cpu": most, "memory": most}
    note(pool, huge, pod())
    (placement,) = plan(pool).placements
    assert placement.job == "uid-a/main"


def test_rules_that_no_waiting_pod_has_any_more_are_forgotten(pool: ClusterCache) -> None:
    """Each rule is evaluated for each node that is read; a leader may lead for months."""
    lasting = [pod("waits", spec={"nodeSelector": {"zone": "a"}}), pod("w0", gang=gang(64))]
    note(pool, *lasting)
    for number in range(500):
        note(pool, pod("passes", spec={"nodeSelector": {"run": str(number)}}))
        pool.take_snapshot()
    assert len(pool.queue.marks) < 200
    for name in ("n0", "n1"):
        pool.note_host(name, NodeFacts.from_json(node(name, zone="a")))
    pool.note_pod("uid-passes", None)
    note(pool, pod("w0", gang=gang(2)))
    assert {one.job.partition("/")[0] for one in plan(pool).placements} >= {"uid-waits", "uid-w0"}
