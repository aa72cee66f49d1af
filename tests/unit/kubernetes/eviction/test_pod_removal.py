"""Victims are evicted once per version, and asked again later where a budget keeps them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from gpupool.base.errors import ApiServerRejection
from gpupool.base.units import GIB
from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.eviction import pod_removal
from gpupool.kubernetes.eviction.failed_cards import FailedCards
from gpupool.kubernetes.eviction.pod_removal import LEAST_SECONDS, MOST_SECONDS, PodRemoval
from gpupool.kubernetes.eviction.unschedulable_pods import UnschedulablePods
from gpupool.kubernetes.reporting.counters import ControllerCounters
from gpupool.kubernetes.reporting.events import EventWriter
from gpupool.kubernetes.resources.gpu_node import EvictionOrder
from gpupool.kubernetes.resources.pod import read_pod
from gpupool.scheduling.snapshot.plan import Eviction
from tests.support.cluster_caches import hold, note, two_node_pool
from tests.support.hand_clock import Clock
from tests.support.kube_builders import pod
from tests.support.released_pods import let_go, one_node_pool
from tests.support.scripted_api import FORBIDDEN, ScriptedApi

EVICT = "/api/v1/namespaces/default/pods/victim/eviction"
POD = "/api/v1/namespaces/default/pods/victim"
BUDGET = ApiServerRejection("the budget needs 1 healthy pod", status=429)
FOR_WAITER = Eviction("uid-victim/main", "uid-waiter/main", 0, "")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock(100.0)
    monkeypatch.setattr(pod_removal, "time", SimpleNamespace(monotonic=made))
    return made


class Removal:
    """A victim that runs on `n0`, and a pod that waits for its cards."""

    def __init__(self, cluster: ClusterCache, clock: Clock, grace: float = 300.0) -> None:
        self.api = ScriptedApi()
        self.cluster = cluster
        self.counts = ControllerCounters()
        self.events = EventWriter(self.api, self.counts, lambda: 0)
        self.stuck = UnschedulablePods(clock, grace)
        self.removal = PodRemoval(
            self.api,
            cluster,
            self.counts,
            self.stuck,
            FailedCards(clock),
            self.events,
            lambda: 0,
        )

    def decide(self, *evictions: Eviction) -> dict[str, EvictionOrder]:
        """The orders of a plan, which are written into the ledger."""
        orders = asyncio.run(self.removal.decide_orders(evictions))
        known = self.cluster.ledgers["n0"]
        entries = []
        for entry in known.entries:
            order = orders.get(f"{entry.uid}/{entry.container}", EvictionOrder())
            changed = replace(entry, leaving_for=order.beneficiary, leaving_at=order.pod_version)
            entries.append(changed)
        self.cluster.note_ledger(
            "n0", replace(known, entries=tuple(entries), version=known.version + 1)
        )
        return orders

    def evict(self) -> list[tuple[str, str]]:
        """The requests of one pass."""
        del self.api.sent[:]
        asyncio.run(self.removal.evict_pods())
        return self.api.calls


@pytest.fixture
def removal(clock: Clock) -> Removal:
    cluster = two_node_pool()
    victim = pod("victim", spec={"nodeName": "n0", "schedulingGates": []})
    note(cluster, victim, pod("waiter"))
    hold(cluster, "n0", "uid-victim", 300, 8 * GIB)
    return Removal(cluster, clock)


def change_victim(removal: Removal, version: str, **meta: Any) -> None:
    found = pod("victim", spec={"nodeName": "n0", "schedulingGates": []})
    found["metadata"] |= {"resourceVersion": version, **meta}
    removal.cluster.note_pod("uid-victim", read_pod(found))


def test_victim_is_evicted_in_the_version_of_its_order(removal: Removal) -> None:
    assert removal.decide(FOR_WAITER) == {"uid-victim/main": EvictionOrder("uid-waiter/main", "1")}
    assert removal.evict() == [("POST", EVICT)]
    named = removal.api.sent[0][2]["deleteOptions"]["preconditions"]
    assert named == {"uid": "uid-victim", "resourceVersion": "1"}
    assert removal.counts.evictions == 1
    (event,) = removal.events.pending_events
    assert event.note == "evicted for default/waiter, which has precedence"


def test_victim_that_goes_is_not_asked_again_within_a_second(
    removal: Removal, clock: Clock
) -> None:
    removal.decide(FOR_WAITER)
    assert removal.evict() == [("POST", EVICT)]
    assert removal.evict() == []
    assert removal.removal.next_look() == LEAST_SECONDS
    clock.now += LEAST_SECONDS
    assert removal.evict() == [("POST", EVICT)]


def test_victim_that_its_budget_keeps_is_asked_later_each_time(
    removal: Removal, clock: Clock
) -> None:
    removal.api.answer_with("POST", EVICT, BUDGET)
    removal.decide(FOR_WAITER)
    waits = []
    for _ in range(6):
        assert removal.evict() == [("POST", EVICT)]
        waits.append(removal.removal.next_look())
        clock.now += waits[-1] or 0
    assert waits == [1.0, 2.0, 4.0, 8.0, MOST_SECONDS, MOST_SECONDS]
    assert removal.counts.evictions == 0
    assert removal.removal.refused == {
        "uid-waiter/main": "default/victim is to leave for it, and its disruption budget does "
        "not allow that now: the budget needs 1 healthy pod"
    }


def test_order_whose_claim_waits_no_more_is_taken_back_by_a_patch(removal: Removal) -> None:
    removal.decide(FOR_WAITER)
    removal.cluster.note_pod("uid-waiter", None)
    del removal.api.sent[:]
    assert removal.decide() == {}
    assert removal.api.calls == [("PATCH", POD)]


def test_order_stays_where_the_patch_is_refused(removal: Removal) -> None:
    removal.decide(FOR_WAITER)
    removal.cluster.note_pod("uid-waiter", None)
    removal.api.answer_with("PATCH", POD, ApiServerRejection("no", status=403))
    assert removal.decide() == {"uid-victim/main": EvictionOrder("uid-waiter/main", "1")}


def test_order_is_renewed_only_when_the_pod_is_due(removal: Removal, clock: Clock) -> None:
    removal.api.answer_with("POST", EVICT, BUDGET)
    removal.decide(FOR_WAITER)
    removal.evict()
    change_victim(removal, "2")
    assert removal.decide(FOR_WAITER)["uid-victim/main"].pod_version == "1"
    clock.now += LEAST_SECONDS
    assert removal.decide(FOR_WAITER)["uid-victim/main"].pod_version == "2"


def test_pod_that_no_node_takes_is_told_then_deleted(clock: Clock) -> None:
    cluster = one_node_pool(clock)
    removal = Removal(cluster, clock, grace=60.0)
    let_go(cluster, "a")
    asyncio.run(removal.removal.replace_pods())
    assert removal.api.calls == []
    clock.now += 30
    asyncio.run(removal.removal.replace_pods())
    assert removal.api.calls == [("POST", "/api/v1/namespaces/default/events")]
    clock.now += 30
    asyncio.run(removal.removal.replace_pods())
    assert removal.api.calls[-1] == ("DELETE", "/api/v1/namespaces/default/pods/a")
    assert removal.counts.replacements == 1
    assert [event.reason for event in removal.events.pending_events] == ["StuckReplaced"]


def test_pod_whose_deletion_is_refused_is_neither_told_nor_counted_as_deleted(
    clock: Clock,
) -> None:
    cluster = one_node_pool(clock)
    let_go(cluster, "a")
    removal = Removal(cluster, clock, grace=30.0)
    removal.api.answer_with("DELETE", "/api/v1/namespaces/default/pods/a", FORBIDDEN)
    asyncio.run(removal.removal.replace_pods())
    clock.now += 30
    asyncio.run(removal.removal.replace_pods())
    assert ("DELETE", "/api/v1/namespaces/default/pods/a") in removal.api.calls
    assert (removal.counts.replacements, removal.events.pending_events) == (0, [])
    asked = len(removal.api.calls)
    asyncio.run(removal.removal.replace_pods())
    assert len(removal.api.calls) == asked, "it is asked again later"
