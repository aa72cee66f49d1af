"""Kept seats are matched with waiting members, and surplus ones are named."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.base.units import GIB
from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.resources.gpu_node import GpuNode
from tests.support.cluster_caches import note_mig_node
from tests.support.gang_rounds import holders, member, note, pool_of, write
from tests.support.kube_builders import asking, cards, gpu_node

#: Compute of a partition of one unit of an H200.
MILLI = 142


def test_a_pod_of_another_shape_does_not_take_the_seat_and_the_gang_keeps_one_less() -> None:
    pool = pool_of(2)
    note(pool, member("w0", 3))
    write(pool)
    note(pool, member("odd", 3, containers={"main": asking(1, 100, GIB)}))
    write(pool)
    assert holders(pool) == ["gang/default/train/1", "uid-odd", "uid-w0"]


def with_volume(made: dict[str, Any]) -> dict[str, Any]:
    """A member with a claim of its own name."""
    name = made["metadata"]["name"]
    made["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
    return made


def volumes(pool: ClusterCache, **nodes: str) -> None:
    """By claim the one node that reaches its volume."""
    known = pool.predicates.volumes
    known.mark_listed()
    for name, reached in nodes.items():
        done = {"pv.kubernetes.io/bind-completed": "yes"}
        meta = {"name": name, "namespace": "default", "annotations": done}
        known.note_claim(
            {"metadata": meta, "spec": {"volumeName": name, "storageClassName": ""}}, False
        )
        field = {"key": "metadata.name", "operator": "In", "values": [reached]}
        required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        known.note_volume(
            {"metadata": {"name": name}, "spec": {"nodeAffinity": {"required": required}}}, False
        )


def nodes_of(pool: ClusterCache) -> dict[str, str]:
    return {entry.uid: name for name, known in pool.ledgers.items() for entry in known.entries}


def test_a_seat_that_the_last_members_volume_is_not_at_is_given_up_for_one_that_it_is_at() -> None:
    pool = pool_of(2)
    volumes(pool, w1="n1")
    note(pool, member("w0", 2))
    write(pool)
    there = nodes_of(pool)["uid-w0"]
    assert nodes_of(pool) == {"uid-w0": there, "gang/default/train/0": there}, (
        "both on one node, as is nearest"
    )
    note(pool, with_volume(member("w1", 2)))
    for _ in range(2):
        write(pool)
    assert nodes_of(pool) == {"uid-w0": there, "uid-w1": "n1"}


def test_a_member_takes_the_seat_that_its_volume_is_at_and_leaves_the_other_to_who_comes() -> None:
    pool = pool_of(2)
    volumes(pool, w1="n1")
    note(pool, member("w0", 8))
    write(pool)
    note(pool, with_volume(member("w1", 8)))
    write(pool)
    assert nodes_of(pool)["uid-w1"] == "n1"
    assert len(holders(pool)) == 8
    assert pool.gang_seats.surplus_seats() == frozenset()


@pytest.mark.parametrize(
    "select",
    [{"models": ["H200"]}, {"not_models": ["L40S"]}, {"uuids": ["GPU-n1-0"]}],
    ids=["model", "model excluded", "card"],
)
def test_member_that_names_other_cards_does_not_take_the_kept_seat(
    select: dict[str, list[str]],
) -> None:
    """The seat is made by the request of the first member; a leader and its workers differ."""
    pool = pool_of(2)
    other = gpu_node("n1")
    other["status"]["cards"] = cards("n1", 4, "H200")
    pool.note_ledger("n1", GpuNode.from_json(other))
    leader = {"main": asking(1, 1000, None, select={"models": ["L40S"]})}
    note(pool, member("w0", 2, containers=leader))
    write(pool)
    assert nodes_of(pool) == {"uid-w0": "n0", "gang/default/train/0": "n0"}
    note(pool, member("w1", 2, containers={"main": asking(1, 1000, None, select=select)}))
    for _ in range(2):
        write(pool)
    assert nodes_of(pool) == {"uid-w0": "n0", "uid-w1": "n1"}


def asking_partition(profile: str, memory_bytes: int) -> dict[str, Any]:
    return asking(1, MILLI, memory_bytes, profile=profile)


def test_member_does_not_take_a_seat_with_more_memory_than_it_counts() -> None:
    pool = ClusterCache()
    note_mig_node(pool, "n0")
    for name, memory_bytes in (("w0", 16 * GIB), ("w1", GIB)):
        containers = {"main": asking_partition("1g.18gb", memory_bytes)}
        note(pool, member(name, 2, containers=containers))
        for _ in range(2):
            write(pool)
    assert holders(pool) == ["uid-w0"]


def test_member_does_not_take_a_seat_of_another_partition() -> None:
    pool = ClusterCache()
    note_mig_node(pool, "n0")
    (plain, media) = ("1g.18gb", "1g.18gb+me")
    for name, profile in (("w0", plain), ("w1", media)):
        containers = {"main": asking_partition(profile, 16 * GIB)}
        note(pool, member(name, 2, containers=containers))
        for _ in range(2):
            write(pool)
    cut = {entry.uid: entry.seats[0].partition for entry in pool.ledgers["n0"].entries}
    assert {uid: slot.profile for uid, slot in cut.items() if slot} == {
        "uid-w0": plain,
        "uid-w1": media,
    }
