"""Who is told of, who is deleted and who inherits, when no node takes a pod that has its cards."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.eviction.unschedulable_pods import (
    MOST_AT_ONCE,
    UnschedulableActions,
    UnschedulablePods,
    unschedulable_message,
)
from gpupool.kubernetes.resources.gpu_node import GpuNode
from tests.support.hand_clock import Clock
from tests.support.kube_builders import gpu_node
from tests.support.released_pods import NO, let_go, note, one_node_pool

GRACE = 300.0


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pool(clock: Clock) -> ClusterCache:
    return one_node_pool(clock)


def names(pods: tuple[Any, ...]) -> list[str]:
    return [one.name for one in pods]


def test_people_are_told_once_and_an_owners_pod_goes_after_the_grace(
    pool: ClusterCache, clock: Clock
) -> None:
    stuck = UnschedulablePods(clock, GRACE)
    let_go(pool, "a")
    assert stuck.find_due_pods(pool).tell == ()
    assert stuck.next_look(pool) == 30
    clock.now = 30
    assert names(stuck.find_due_pods(pool).tell) == ["a"]
    assert (stuck.find_due_pods(pool).tell, stuck.next_look(pool)) == ((), GRACE - 30)
    clock.now = GRACE
    assert names(stuck.find_due_pods(pool).delete) == ["a"]


@pytest.mark.parametrize("more", [{"owner": ""}, {"said": "GP-2003: all cards are in use"}])
def test_nobody_is_deleted_who_has_no_owner_or_of_whom_the_scheduler_said_nothing(
    pool: ClusterCache, clock: Clock, more: dict[str, str]
) -> None:
    stuck = UnschedulablePods(clock, GRACE)
    let_go(pool, "a", **more)
    stuck.find_due_pods(pool)
    clock.now = 100 * GRACE
    due = stuck.find_due_pods(pool)
    assert (names(due.tell), due.delete, stuck.next_look(pool)) == (["a"], (), None)


def test_a_grace_of_nothing_deletes_nobody(pool: ClusterCache, clock: Clock) -> None:
    stuck = UnschedulablePods(clock, 0.0)
    let_go(pool, "a")
    stuck.find_due_pods(pool)
    clock.now = 10**6
    assert (stuck.find_due_pods(pool).delete, stuck.next_look(pool)) == ((), None)


def test_the_next_of_an_owner_has_twice_as_long_and_one_of_another_has_not(
    pool: ClusterCache, clock: Clock
) -> None:
    stuck = UnschedulablePods(clock, GRACE)
    let_go(pool, "a")
    stuck.find_due_pods(pool)
    clock.now = GRACE
    stuck.note_deleted(stuck.find_due_pods(pool).delete)
    pool.note_pod("uid-a", None)
    let_go(pool, "b")
    let_go(pool, "c", owner="other")
    stuck.find_due_pods(pool)
    clock.now = 2 * GRACE
    assert names(stuck.find_due_pods(pool).delete) == ["c"]
    clock.now = 3 * GRACE
    assert names(stuck.find_due_pods(pool).delete) == ["b", "c"]


def test_no_more_than_a_few_go_at_once(pool: ClusterCache, clock: Clock) -> None:
    stuck = UnschedulablePods(clock, GRACE)
    for n in range(MOST_AT_ONCE + 4):
        let_go(pool, f"p{n:02}")
    stuck.find_due_pods(pool)
    clock.now = GRACE
    assert len(stuck.find_due_pods(pool).delete) == MOST_AT_ONCE


def test_who_is_bound_is_not_stuck_and_a_later_pod_counts_anew(
    pool: ClusterCache, clock: Clock
) -> None:
    stuck = UnschedulablePods(clock, GRACE)
    let_go(pool, "a")
    stuck.find_due_pods(pool)
    clock.now = 2 * GRACE
    note(pool, "a", schedulingGates=[], nodeName="n0")
    assert stuck.find_due_pods(pool) == type(stuck.find_due_pods(pool))()
    assert stuck.next_look(pool) is None


def test_pod_whose_node_went_before_it_was_bound_goes_after_the_grace(
    pool: ClusterCache, clock: Clock
) -> None:
    """Its entry went with the node, and its affinity names that node for ever."""
    stuck = UnschedulablePods(clock, GRACE)
    let_go(pool, "a", placed=True)
    let_go(pool, "b", placed=True, owner="")
    pool.note_host("n0", None)
    pool.note_ledger("n0", None)
    stuck.find_due_pods(pool)
    clock.now = GRACE
    due = stuck.find_due_pods(pool)
    assert (names(due.tell), names(due.delete)) == (["a", "b"], ["a"])
    said = unschedulable_message(due.delete[0], "", GRACE)
    assert said.startswith("has no cards on its node and no scheduling gate, and is not bound")


def test_pod_that_nothing_of_ours_released_is_left_alone(pool: ClusterCache, clock: Clock) -> None:
    stuck = UnschedulablePods(clock, GRACE)
    note(pool, "a", schedulingGates=[])
    stuck.find_due_pods(pool)
    clock.now = GRACE
    assert stuck.find_due_pods(pool) == UnschedulableActions()


def test_the_sentence_says_what_comes_and_keeps_the_schedulers_word(pool: ClusterCache) -> None:
    let_go(pool, "a")
    let_go(pool, "b", owner="", said="")
    said = [unschedulable_message(pool.pods[uid], "n0", GRACE) for uid in ("uid-a", "uid-b")]
    assert said[0].endswith(NO)
    assert "deleted after 300 s" in said[0]
    assert "nobody would make another" in said[1]
    assert "does it run?" in said[1]


def test_a_node_that_is_known_to_be_full_keeps_nothing(pool: ClusterCache) -> None:
    let_go(pool, "a")
    assert pool.has_room("n0")
    full = gpu_node("n0", version=9)
    full["status"]["others"] = {"cpuMilli": 64_001}
    pool.note_ledger("n0", GpuNode.from_json(full))
    assert not pool.has_room("n0")
    assert not pool.has_room("nowhere")
