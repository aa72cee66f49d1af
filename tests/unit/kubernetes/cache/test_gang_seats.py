"""Kept seats are matched with waiting members, and surplus ones are named."""

from __future__ import annotations

from typing import Any

from gpupool.base.units import GIB
from gpupool.kubernetes.cache.cluster import ClusterCache
from tests.support.gang_rounds import holders, member, note, pool_of, write
from tests.support.kube_builders import asking


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
