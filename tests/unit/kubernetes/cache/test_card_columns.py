"""Columns of nodes and cards follow every change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpupool.base.units import GIB
from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.controller.plan_entries import entries_by_node
from gpupool.model.partition import ForeignPiece, PartitionSlot, is_valid_set
from gpupool.probes.mig_tables import list_mig_profiles
from tests.support.cluster_caches import hold, note, note_mig_node, note_node, plan, two_node_pool
from tests.support.kube_builders import asking, pod


@pytest.fixture
def pool() -> ClusterCache:
    return two_node_pool()


def test_nodes_and_pods_that_vanish_are_forgotten(pool: ClusterCache) -> None:
    note(pool, pod())
    pool.note_pod("uid-a", None)
    pool.note_host("n0", None)
    assert pool.take_snapshot().cards.nodes == ("n1",)
    assert pool.take_snapshot().waiting == ()


def test_what_stands_in_a_ledger_runs_and_says_what_it_holds(pool: ClusterCache) -> None:
    running = pod(spec={"nodeName": "n1", "schedulingGates": [], "activeDeadlineSeconds": 60})
    running["status"] = {"startTime": "2026-11-22T00:00:10Z"}
    note(pool, running)
    hold(pool, "n1", "uid-a", 300, 8 * GIB)
    (job,) = pool.take_snapshot().running
    assert (job.job, job.rows, job.milli, job.sizes) == ("uid-a/main", (4,), (300,), (8 * GIB,))
    assert job.ends_ns is not None
    assert job.ends_ns - job.started_ns == 60 * 10**9
    note_node(pool, "m0")
    (job,) = pool.take_snapshot().running
    assert pool.take_snapshot().cards.uuids[job.rows[0]] == "GPU-n1-0"


def ask_partition(profile: str = "1g.18gb", milli: int = 142) -> dict[str, object]:
    size = {one.name: one.memory_bytes for one in list_mig_profiles("H200")}[profile]
    return asking(milli=milli, memory_bytes=size, profile=profile)


def apply_plan(pool: ClusterCache) -> dict[str, list[PartitionSlot | None]]:
    """Plan, write the entries into the ledgers; returns each pod's partitions."""
    found = {}
    for name, entries in entries_by_node(plan(pool).placements, pool).items():
        known = pool.ledgers[name]
        held = (*known.entries, *entries)
        assert pool.note_ledger(name, replace(known, entries=held, version=known.version + 1))
        for entry in entries:
            found[entry.pod] = [seat.partition for seat in entry.seats]
    return found


def test_pods_that_name_a_profile_get_slots_of_cards_in_mig_mode_alone(pool: ClusterCache) -> None:
    note_mig_node(pool, "m0")
    note(pool, *[pod(f"p{number}", {"main": ask_partition()}) for number in range(8)])
    placed = apply_plan(pool)
    assert len(placed) == 7, "an H200 has seven slices"
    slots = []
    for (slot,) in placed.values():
        assert slot is not None
        slots.append(slot)
    assert is_valid_set(list_mig_profiles("H200"), slots)
    assert {entry.pod for entry in pool.ledgers["m0"].entries} == set(placed)
    assert apply_plan(pool) == {}, "the eighth waits"


def test_a_partition_that_comes_free_is_given_out_again(pool: ClusterCache) -> None:
    note_mig_node(pool, "m0")
    note(pool, pod("wide", {"main": ask_partition("4g.71gb", 571)}))
    assert apply_plan(pool) == {"wide": [PartitionSlot(0, 4, "4g.71gb")]}
    before = pool.take_snapshot().cards
    (running,) = pool.take_snapshot().running
    assert running.slots == (PartitionSlot(0, 4, "4g.71gb"),)
    note(pool, pod("next", {"main": ask_partition("4g.71gb", 571)}))
    assert apply_plan(pool) == {}
    known = pool.ledgers["m0"]
    pool.note_pod("uid-wide", None)
    assert pool.note_ledger("m0", replace(known, entries=(), version=known.version + 1))
    (row,) = before.layouts
    assert before.layouts[row].slots != (), "a snapshot stays as it was taken"
    assert apply_plan(pool) == {"next": [PartitionSlot(0, 4, "4g.71gb")]}


def test_a_share_never_sits_on_a_card_in_mig_mode() -> None:
    pool = ClusterCache()
    note_mig_node(pool, "m0")
    note(pool, pod("share"))
    assert apply_plan(pool) == {}


def test_a_card_that_lost_the_mode_takes_nothing_until_its_partitions_have_gone() -> None:
    pool = ClusterCache()
    note_mig_node(pool, "m0")
    note(pool, pod("cut", {"main": ask_partition()}))
    apply_plan(pool)
    known = pool.ledgers["m0"]
    plain = replace(known.cards[0], profiles=None)
    assert pool.note_ledger("m0", replace(known, cards=(plain,), version=known.version + 1))
    note(pool, pod("share"), pod("next", {"main": ask_partition()}))
    assert apply_plan(pool) == {}
    (running,) = pool.take_snapshot().running
    assert len(running.slots) == 1
    pool.note_pod("uid-cut", None)
    now = pool.ledgers["m0"]
    assert pool.note_ledger("m0", replace(now, entries=(), version=now.version + 1))
    assert apply_plan(pool) == {"share": [None]}


def test_an_entry_without_its_pod_still_holds_its_slot(pool: ClusterCache) -> None:
    note_mig_node(pool, "m0")
    note(pool, pod("gone", {"main": ask_partition("7g.141gb", 1000)}))
    apply_plan(pool)
    pool.note_pod("uid-gone", None)
    (running,) = pool.take_snapshot().running
    assert (running.shape.profile, running.shape.gpu_milli) == ("7g.141gb", 1000)
    note(pool, pod("next", {"main": ask_partition()}))
    assert apply_plan(pool) == {}


def set_foreign(pool: ClusterCache, *pieces: ForeignPiece) -> None:
    """As the agent of the node reports its card from now on."""
    known = pool.ledgers["m0"]
    card = replace(known.cards[0], foreign=pieces)
    assert pool.note_ledger("m0", replace(known, cards=(card,)))


def test_no_pod_gets_a_slot_that_another_tool_has_until_it_is_free() -> None:
    pool = ClusterCache()
    note_mig_node(pool, "m0")
    upper = ForeignPiece("made by hand", PartitionSlot(4, 4, "3g.71gb"))
    set_foreign(pool, upper, ForeignPiece("an MPS process"))
    note(pool, *[pod(f"p{number}", {"main": ask_partition("3g.71gb", 428)}) for number in range(2)])
    placed = apply_plan(pool)
    assert list(placed.values()) == [[PartitionSlot(0, 4, "3g.71gb")]]
    assert apply_plan(pool) == {}, "the other slot is taken"
    set_foreign(pool)
    assert list(apply_plan(pool).values()) == [[PartitionSlot(4, 4, "3g.71gb")]]


def test_piece_in_the_slot_of_an_entry_counts_once() -> None:
    """The agent looked before the record of the pod's own instance was complete."""
    pool = ClusterCache()
    note_mig_node(pool, "m0")
    note(pool, pod("own", {"main": ask_partition("4g.71gb", 571)}))
    assert apply_plan(pool) == {"own": [PartitionSlot(0, 4, "4g.71gb")]}
    set_foreign(pool, ForeignPiece("seems foreign", PartitionSlot(0, 4, "4g.71gb")))
    (layout,) = pool.take_snapshot().cards.layouts.values()
    assert layout.slots == (PartitionSlot(0, 4, "4g.71gb"),)
