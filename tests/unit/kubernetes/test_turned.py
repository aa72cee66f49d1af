"""A node that turned a pod away has less than was known of it, until more is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpupool.kubernetes.hosts import Host
from gpupool.kubernetes.objects import GpuNode
from gpupool.kubernetes.pods import read_pod
from gpupool.kubernetes.pool import Pool
from gpupool.kubernetes.reported import Others
from gpupool.kubernetes.turned import COUNTED_SECONDS, sentence
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
def pool(clock: Clock) -> Pool:
    """One node of eight processors, with a pod that was turned away of which nobody knows why."""
    made = Pool(seconds=clock)
    made.note_host("n0", Host.from_json(node("n0", cpu="8")))
    made.note_ledger("n0", GpuNode.from_json(gpu_node("n0")))
    for status in ({"phase": "Pending"}, REFUSED):
        made.note_pod("uid-a", read_pod(bound("a", status)))
    return made


def bound(name: str, status: dict[str, Any]) -> dict[str, Any]:
    found = pod(name, direct=True, spec={"nodeName": "n0"})
    found["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "4"}
    return {**found, "status": status}


def free(pool: Pool) -> int:
    hosts = pool.snapshot().cards.hosts
    assert hosts is not None
    return int(hosts.free_cpu_milli[0])


def test_it_counts_as_if_it_ran_until_the_agent_tells_something_new(pool: Pool) -> None:
    assert free(pool) == 4000
    pool.note_pod("uid-a", None)
    assert free(pool) == 4000, "its owner's next one must not go the same way"
    known = pool.ledgers["n0"]
    pool.note_ledger("n0", replace(known, others=Others(cpu_milli=6000)))
    assert free(pool) == 2000


def test_where_the_agent_is_silent_it_counts_for_a_while(pool: Pool, clock: Clock) -> None:
    assert pool.turned.next_look() == COUNTED_SECONDS
    clock.now = COUNTED_SECONDS - 1
    pool.forget_turned()
    assert free(pool) == 4000
    clock.now = COUNTED_SECONDS
    pool.forget_turned()
    assert (free(pool), pool.turned.next_look()) == (8000, None)


def test_a_pod_that_failed_by_itself_or_long_ago_counts_nowhere(clock: Clock) -> None:
    pool = Pool(seconds=clock)
    pool.note_host("n0", Host.from_json(node("n0", cpu="8")))
    pool.note_ledger("n0", GpuNode.from_json(gpu_node("n0")))
    pool.note_pod("uid-old", read_pod(bound("old", REFUSED)))
    for status in ({"phase": "Running"}, {"phase": "Failed", "reason": "Evicted"}):
        pool.note_pod("uid-b", read_pod(bound("b", status)))
    assert free(pool) == 8000


def test_people_are_told_by_whom_why_and_what_comes() -> None:
    found = read_pod(bound("a", REFUSED))
    assert sentence(found) == (
        "n0 did not take it, its cards are free again; create it again: nobody makes another in its place. "
        f"OutOfcpu: {REFUSED['message']}"
    )
    assert "its owner makes another. OutOfcpu" in sentence(replace(found, owner="uid-of-a-job"))
