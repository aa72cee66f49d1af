"""A node that turned a pod away has less than was known of it, until more is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.cache.kubelet_rejections import COUNTED_SECONDS, rejection_message
from gpupool.kubernetes.resources.gpu_node import GpuNode
from gpupool.kubernetes.resources.gpu_node_status import ForeignUsage
from gpupool.kubernetes.resources.node import NodeFacts
from gpupool.kubernetes.resources.pod import read_pod
from tests.support.hand_clock import Clock
from tests.support.kube_builders import gpu_node, node, pod

REFUSED = {
    "phase": "Failed",
    "reason": "OutOfcpu",
    "message": "Node didn't have enough resource: cpu, requested: 4000, used: 6000, capacity: 8000",
}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pool(clock: Clock) -> ClusterCache:
    """One node of eight processors, with a pod that was turned away of which nobody knows why."""
    made = ClusterCache(seconds=clock)
    made.note_host("n0", NodeFacts.from_json(node("n0", cpu="8")))
    made.note_ledger("n0", GpuNode.from_json(gpu_node("n0")))
    for status in ({"phase": "Pending"}, REFUSED):
        made.note_pod("uid-a", read_pod(bound("a", status)))
    return made


def bound(name: str, status: dict[str, Any]) -> dict[str, Any]:
    found = pod(name, direct=True, spec={"nodeName": "n0"})
    found["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "4"}
    return {**found, "status": status}


def free(pool: ClusterCache) -> int:
    hosts = pool.take_snapshot().cards.hosts
    assert hosts is not None
    return int(hosts.free_cpu_milli[0])


def test_it_counts_as_if_it_ran_until_the_agent_tells_something_new(pool: ClusterCache) -> None:
    assert free(pool) == 4000
    pool.note_pod("uid-a", None)
    assert free(pool) == 4000, "its owner's next one must not go the same way"
    known = pool.ledgers["n0"]
    pool.note_ledger("n0", replace(known, others=ForeignUsage(cpu_milli=6000)))
    assert free(pool) == 2000


def test_where_the_agent_is_silent_it_counts_for_a_while(pool: ClusterCache, clock: Clock) -> None:
    assert pool.rejections.next_look() == COUNTED_SECONDS
    clock.now = COUNTED_SECONDS - 1
    pool.expire_rejections()
    assert free(pool) == 4000
    clock.now = COUNTED_SECONDS
    pool.expire_rejections()
    assert (free(pool), pool.rejections.next_look()) == (8000, None)


def test_a_pod_that_failed_by_itself_or_long_ago_counts_nowhere(clock: Clock) -> None:
    pool = ClusterCache(seconds=clock)
    pool.note_host("n0", NodeFacts.from_json(node("n0", cpu="8")))
    pool.note_ledger("n0", GpuNode.from_json(gpu_node("n0")))
    pool.note_pod("uid-old", read_pod(bound("old", REFUSED)))
    for status in ({"phase": "Running"}, {"phase": "Failed", "reason": "Evicted"}):
        pool.note_pod("uid-b", read_pod(bound("b", status)))
    assert free(pool) == 8000


def test_people_are_told_by_whom_why_and_what_comes() -> None:
    found = read_pod(bound("a", REFUSED))
    assert rejection_message(found) == (
        "n0 did not take it, its cards are free again; create it again: nobody makes another in its place. "
        f"OutOfcpu: {REFUSED['message']}"
    )
    assert "its owner makes another. OutOfcpu" in rejection_message(
        replace(found, owner="uid-of-a-job")
    )
