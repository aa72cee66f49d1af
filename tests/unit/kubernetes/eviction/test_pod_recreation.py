"""A pod that no node takes is deleted in the version that was read, and its cards wait."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.eviction.eviction_api import EvictionResult
from gpupool.kubernetes.eviction.pod_recreation import (
    CARD_FAILED,
    build_event,
    delete_pod,
    post_event,
)
from gpupool.kubernetes.resources.gpu_node import GpuNode
from tests.support.hand_clock import Clock
from tests.support.kube_builders import gpu_node
from tests.support.released_pods import let_go, one_node_pool
from tests.support.scripted_api import CONFLICT, FORBIDDEN, NOT_FOUND, ScriptedApi

POD = "/api/v1/namespaces/default/pods/a"
EVENTS = "/api/v1/namespaces/default/events"


@pytest.fixture
def pool() -> ClusterCache:
    made = one_node_pool(Clock())
    let_go(made, "a")
    return made


def delete(
    pool: ClusterCache, answer: Exception | None = None
) -> tuple[EvictionResult, ScriptedApi]:
    api = ScriptedApi({("DELETE", POD): answer} if answer else None)
    return asyncio.run(delete_pod(api, pool, pool.pods["uid-a"])), api


def test_pod_is_deleted_in_its_version_and_its_cards_are_kept(pool: ClusterCache) -> None:
    done, api = delete(pool)
    assert done is EvictionResult.GOES
    assert api.sent == [
        ("DELETE", POD, {"preconditions": {"uid": "uid-a", "resourceVersion": "1"}})
    ]
    assert "uid-a" in pool.handover


def test_cards_on_a_node_that_is_too_full_are_not_kept(pool: ClusterCache) -> None:
    full = gpu_node("n0", version=9)
    full["status"]["others"] = {"cpuMilli": 64_001}
    read = GpuNode.from_json(full)
    pool.note_ledger("n0", replace(read, entries=pool.ledgers["n0"].entries))
    assert delete(pool)[0] is EvictionResult.GOES
    assert "uid-a" not in pool.handover


def test_cards_of_a_victim_are_not_kept(pool: ClusterCache) -> None:
    known = pool.ledgers["n0"]
    ordered = tuple(replace(entry, leaving_for="uid-z/main") for entry in known.entries)
    pool.note_ledger("n0", replace(known, entries=ordered, version=known.version + 1))
    assert delete(pool)[0] is EvictionResult.GOES
    assert "uid-a" not in pool.handover


@pytest.mark.parametrize(
    ("answer", "done"),
    [
        (CONFLICT, EvictionResult.CHANGED),
        (NOT_FOUND, EvictionResult.CHANGED),
        (FORBIDDEN, EvictionResult.REFUSED),
    ],
    ids=["changed", "gone", "forbidden"],
)
def test_pod_that_stays_keeps_no_cards_for_another(
    pool: ClusterCache, answer: Exception, done: EvictionResult
) -> None:
    assert delete(pool, answer)[0] is done
    assert "uid-a" not in pool.handover


def test_event_of_a_pod_has_one_name_for_each_reason(pool: ClusterCache) -> None:
    pod = pool.pods["uid-a"]
    made = build_event(pod, "why", 1_800_000_000 * 10**9)
    again = build_event(pod, "why", 1_900_000_000 * 10**9)
    assert made["metadata"] == again["metadata"]
    assert made["metadata"]["name"] == "gpupool-not-bound-uid-a"
    assert made["firstTimestamp"] == "2027-01-15T08:00:00Z"
    other = build_event(pod, "why", 0, CARD_FAILED)
    assert other["metadata"]["name"] == "gpupool-card-failed-uid-a"


def test_event_that_is_refused_stops_nothing(pool: ClusterCache) -> None:
    for answer in (CONFLICT, FORBIDDEN):
        api = ScriptedApi({("POST", EVENTS): answer})
        asyncio.run(post_event(api, pool.pods["uid-a"], "why", 0))
        assert api.calls == [("POST", EVENTS)]
