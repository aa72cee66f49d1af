"""A pod that was let go and stands in no ledger waits for cards of its own node, and is not let go
again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpupool.base.units import GIB
from gpupool.kubernetes.cache import ledger_restore
from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.controller import plan_entries
from gpupool.kubernetes.controller.release_patch import pin_affinity
from gpupool.kubernetes.resources import names
from gpupool.kubernetes.resources.gpu_node import Entry, GpuNode
from gpupool.kubernetes.resources.gpu_node_status import SlotUse
from gpupool.kubernetes.resources.node import NodeFacts
from gpupool.kubernetes.resources.pod import read_pod
from gpupool.model.allocation import Seat
from gpupool.scheduling.engine.cycle import cycle
from tests.support.kube_builders import gpu_node, node, pod

BOUND = {"schedulingGates": [], "nodeName": "n1"}
PINNED = {"schedulingGates": [], "affinity": pin_affinity(None, "n1")}


@pytest.fixture
def pool() -> ClusterCache:
    made = ClusterCache()
    for name in ("n0", "n1", "n2"):
        made.note_host(name, NodeFacts.from_json(node(name, cpu="4")))
        made.note_ledger(name, GpuNode.from_json(gpu_node(name, 1)))
    return made


def let_go(spec: dict[str, Any], **more: Any) -> dict[str, Any]:
    made = pod("a", spec=spec, **more)
    made["metadata"]["annotations"][names.PLACED] = "n1: main"
    return made


def note(pool: ClusterCache, spec: dict[str, Any], **more: Any) -> None:
    pool.note_pod("uid-a", read_pod(let_go(spec, **more)))


def planned(pool: ClusterCache) -> dict[str, list[str]]:
    found = plan_entries.entries_by_node(cycle(pool.take_snapshot(), 0).placements, pool)
    return {name: [entry.pod for entry in entries] for name, entries in found.items()}


@pytest.mark.parametrize("spec", [BOUND, PINNED], ids=["bound", "pinned"])
def test_it_gets_cards_of_that_node_and_of_no_other(
    pool: ClusterCache, spec: dict[str, Any]
) -> None:
    note(pool, spec)
    assert planned(pool) == {"n1": ["a"]}


@pytest.mark.parametrize("spec", [BOUND, PINNED], ids=["bound", "pinned"])
def test_it_waits_where_its_node_has_no_card(pool: ClusterCache, spec: dict[str, Any]) -> None:
    full = Entry("uid-b", "default", "b", "main", (Seat("GPU-n1-0", 1000, GIB),), "default")
    pool.note_ledger("n1", replace(pool.ledgers["n1"], entries=(full,), version=2))
    note(pool, spec)
    assert planned(pool) == {}
    assert "uid-a" in pool.queue


def test_a_bound_one_needs_no_processors_twice(pool: ClusterCache) -> None:
    made = let_go(BOUND)
    made["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "4"}
    pool.note_pod("uid-a", read_pod(made))
    assert planned(pool) == {"n1": ["a"]}


def test_it_waits_no_more_with_its_entry(pool: ClusterCache) -> None:
    note(pool, BOUND)
    mine = Entry("uid-a", "default", "a", "main", (Seat("GPU-n1-0", 300, GIB),), "default")
    pool.note_ledger("n1", replace(pool.ledgers["n1"], entries=(mine,), version=2))
    assert "uid-a" not in pool.queue


def test_one_whose_containers_run_waits_for_nothing(pool: ClusterCache) -> None:
    """Which cards they hold is not known: the node takes nobody until they have ended."""
    note(pool, BOUND)
    runs = replace(pool.ledgers["n1"], slots=(SlotUse("uid-a", "main", "s1", 2),))
    pool.note_ledger("n1", runs)
    assert "uid-a" not in pool.queue
    pool.note_ledger("n1", replace(runs, slots=()))
    assert "uid-a" in pool.queue


@pytest.mark.parametrize(
    "spec",
    [{"schedulingGates": []}, {"schedulingGates": [], "nodeSelector": {"a": "b"}}],
    ids=["free", "selected"],
)
def test_one_that_may_be_bound_anywhere_waits_until_it_is(
    pool: ClusterCache, spec: dict[str, Any]
) -> None:
    note(pool, spec)
    assert ledger_restore.as_waiting(pool.pods["uid-a"]) is None
    assert "uid-a" not in pool.queue


def test_one_that_somebody_else_bound_gets_none(pool: ClusterCache) -> None:
    pool.note_pod("uid-a", read_pod(pod("a", spec=BOUND)))
    assert "uid-a" not in pool.queue


def test_a_member_of_a_gang_gets_its_entry_as_a_member(pool: ClusterCache) -> None:
    note(pool, BOUND, gang={"name": "train", "size": 2})
    (entry,) = plan_entries.entries_by_node(cycle(pool.take_snapshot(), 0).placements, pool)["n1"]
    assert entry.gang == "default/train"


def test_who_leaves_or_has_ended_gets_none(pool: ClusterCache) -> None:
    note(pool, BOUND)
    for more in ({"deleting": True}, {"ended": True}, {"problem": "cannot be read"}):
        pool.note_pod("uid-a", replace(read_pod(let_go(BOUND)), **more))
        assert "uid-a" not in pool.queue
