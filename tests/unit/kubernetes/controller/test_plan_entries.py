"""A plan becomes entries of ledgers, and the annotation that names a pod's cards."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpupool.base.units import GIB
from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.controller.plan_entries import (
    entries_by_node,
    placement_annotation,
    planned_generations,
)
from gpupool.kubernetes.resources import names
from gpupool.kubernetes.resources.gpu_node import Entry
from gpupool.model.allocation import Seat
from gpupool.model.claim import SharingKind
from gpupool.model.isolation.claim_needs import IsolationKind
from gpupool.model.partition import PartitionSlot
from gpupool.model.sharing_default import SHARING_LABEL
from gpupool.scheduling.snapshot.plan import JobPlacement
from tests.support.cluster_caches import note, note_node, two_node_pool
from tests.support.kube_builders import asking, gang, pod

SEAT = Seat("GPU-n0-0", 300, 8 * GIB)


def place(job: str, node: str = "n0", of_gang: str = "", generation: int = 4) -> JobPlacement:
    return JobPlacement(job, node, (SEAT,), (generation,), "", of_gang)


@pytest.fixture
def pool() -> ClusterCache:
    return two_node_pool()


def test_entries_name_pod_container_and_what_it_asked(pool: ClusterCache) -> None:
    two = {"main": asking(), "side": asking(sharing="burst")}
    note(pool, pod("a", two, spec={"priority": 7}), pod("b"))
    found = entries_by_node(
        [place("uid-a/main"), place("uid-a/side"), place("uid-b/main", "n1")], pool
    )
    assert {node: [(one.pod, one.container) for one in made] for node, made in found.items()} == {
        "n0": [("a", "main"), ("a", "side")],
        "n1": [("b", "main")],
    }
    main, side = found["n0"]
    assert (main.sharing, side.sharing) == (SharingKind.FIXED, SharingKind.BURST)
    assert (main.priority, main.seats, main.uid) == (7, (SEAT,), "uid-a")


def test_entries_name_the_isolation_that_the_pod_demands(pool: ClusterCache) -> None:
    note(pool, pod("a", needs={"isolation": "hard"}), pod("b"))
    found = entries_by_node([place("uid-a/main"), place("uid-b/main", "n1")], pool)
    assert found["n0"][0].isolation is IsolationKind.HARD
    assert found["n0"][0].to_json()["isolation"] == "hard"
    assert "isolation" not in found["n1"][0].to_json()


def test_pod_that_left_meanwhile_gets_no_entry(pool: ClusterCache) -> None:
    note(pool, pod("a"))
    pool.note_pod("uid-a", None)
    deleted = pod("b")
    deleted["metadata"]["deletionTimestamp"] = "2026-11-22T00:00:05Z"
    note(pool, deleted)
    assert entries_by_node([place("uid-a/main"), place("uid-b/main")], pool) == {}


def test_future_member_is_described_by_a_waiting_one_without_its_name(pool: ClusterCache) -> None:
    note(pool, pod("w0", gang=gang(2), spec={"priority": 3}))
    job = "gang/default/train/0/main"
    (entry,) = entries_by_node([place(job, of_gang="default/train")], pool)["n0"]
    assert (entry.uid, entry.pod, entry.gang) == ("gang/default/train/0", "", "default/train")
    assert entry.priority == 3
    pool.note_pod("uid-w0", None)
    assert entries_by_node([place(job, of_gang="default/train")], pool) == {}


def test_generation_of_a_node_is_that_of_its_first_card() -> None:
    placements = [place("a/main", "n0", generation=4), place("b/main", "n1", generation=9)]
    assert planned_generations(placements) == {"n0": 4, "n1": 9}


def test_annotation_names_the_cards_of_each_container_in_whole_mib() -> None:
    # 30 % of an L40S of 46068 MiB is no whole number of MiB.
    part = Seat("GPU-1", 300, 46068 * (1 << 20) * 3 // 10)
    entry = Entry("u", "team", "a", "main", (SEAT, part), "team")
    text = placement_annotation("n0", [entry, replace(entry, container="side", seats=(part,))])
    share = "GPU-1 0.30 GPU (30 % compute) + 13820 MiB"
    first = "GPU-n0-0 0.30 GPU (30 % compute) + 8192 MiB"
    assert text == {names.PLACED: f"n0: main: {first}, {share}; side: {share}"}


def test_annotation_names_profile_and_first_unit_of_a_partition() -> None:
    slot = PartitionSlot(6, 1, "1g.18gb")
    seats = (Seat("GPU-m0-0", 142, 16 * GIB, slot),)
    entry = Entry("uid-a", "default", "a", "main", seats, "default")
    assert placement_annotation("m0", [entry]) == {
        names.PLACED: "m0: main: GPU-m0-0 1g.18gb at unit 6"
    }


def test_default_of_the_node_is_for_containers_that_name_no_sharing(pool: ClusterCache) -> None:
    note_node(pool, "n1", **{SHARING_LABEL: "burst"})
    note_node(pool, "n2", **{SHARING_LABEL: "offline"})
    unnamed = asking(names_sharing=False)
    note(pool, pod("a", {"main": unnamed, "side": asking()}))
    nodes = ("n0", "n1", "n2")
    jobs = [place(f"uid-a/{one}", node) for node in nodes for one in ("main", "side")]
    found = entries_by_node(jobs, pool)
    kinds = {node: [str(entry.sharing) for entry in found[node]] for node in nodes}
    # `offline` promises no compute, so it is no default of a node.
    assert kinds == {"n0": ["fixed"] * 2, "n1": ["burst", "fixed"], "n2": ["fixed"] * 2}


def test_annotation_names_sharing_other_than_fixed() -> None:
    entry = Entry("u", "team", "a", "main", (SEAT,), "team", SharingKind.BURST)
    (text,) = placement_annotation("n0", [entry]).values()
    assert text == "n0: main: GPU-n0-0 0.30 GPU (30 % compute) + 8192 MiB (burst)"
