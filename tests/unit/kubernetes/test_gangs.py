"""A gang of pods has all its seats or none, also those of members that do not exist yet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpupool.base.units import GIB
from gpupool.kubernetes import gangs
from gpupool.kubernetes.bookkeeping import settled
from gpupool.kubernetes.holding import EMPTY_SECONDS, HALF_SECONDS, MISSING_SECONDS, Holding
from gpupool.kubernetes.hosts import Host
from gpupool.kubernetes.objects import GpuNode
from gpupool.kubernetes.placing import entries_by_node
from gpupool.kubernetes.pods import read_pod
from gpupool.kubernetes.pool import Pool
from gpupool.scheduling.cycle import cycle
from tests.support.kube_builders import asking, gang, gpu_node, node, pod

WHOLE = {"main": asking(1, 1000, None)}


def pool_of(nodes: int) -> Pool:
    pool = Pool()
    for number in range(nodes):
        pool.note_host(f"n{number}", Host.from_json(node(f"n{number}")))
        pool.note_ledger(f"n{number}", GpuNode.from_json(gpu_node(f"n{number}")))
    return pool


def member(name: str, size: int, minimum: int | None = None, containers: Any = None) -> dict[str, Any]:
    return pod(name, containers or WHOLE, gang=gang(size, minimum))


def note(pool: Pool, *pods: dict[str, Any]) -> None:
    for each in pods:
        pool.note_pod(each["metadata"]["uid"], read_pod(each))


def write(pool: Pool, given_up: frozenset[str] = frozenset()) -> int:
    """One round without an API server; how many placements it made."""
    plan = cycle(pool.snapshot(), 0)
    added, claimed = entries_by_node(plan.placements, pool), pool.claimed()
    given_up |= pool.useless()
    for name, known in list(pool.ledgers.items()):
        entries = settled(known, pool.pods, claimed=claimed, given_up=given_up)
        entries += tuple(replace(entry, generation=known.version + 1) for entry in added.get(name, ()))
        if entries != known.entries:
            pool.note_ledger(name, replace(known, entries=entries, version=known.version + 1))
    return len(plan.placements)


def holders(pool: Pool) -> list[str]:
    return sorted(entry.uid for known in pool.ledgers.values() for entry in known.entries)


def test_the_first_pod_reserves_for_all_and_the_others_take_their_seats_as_they_come() -> None:
    pool = pool_of(2)
    note(pool, member("w0", 6))
    assert write(pool) == 6
    assert holders(pool) == [*(f"gang/default/train/{n}" for n in range(5)), "uid-w0"]
    for n in range(1, 6):
        note(pool, member(f"w{n}", 6))
        assert pool.snapshot().waiting == (), "its seat is there: nothing is planned for it"
        assert write(pool) == 0
    assert holders(pool) == [f"uid-w{n}" for n in range(6)]


def test_a_gang_that_does_not_fit_has_nothing_and_says_so() -> None:
    pool = pool_of(1)
    note(pool, member("w0", 6))
    assert write(pool) == 0
    assert holders(pool) == []
    (rejection,) = cycle(pool.snapshot(), 0).rejections.values()
    assert "6" in rejection.sentence


def test_a_minimum_starts_with_what_there_is_room_for() -> None:
    pool = pool_of(1)
    note(pool, member("w0", 6, 3))
    assert write(pool) == 4


def test_a_half_written_gang_rolls_forward() -> None:
    pool = pool_of(2)
    note(pool, member("w0", 6))
    write(pool)
    lost = next(name for name, known in pool.ledgers.items() if len(known.entries) < 4)
    known = pool.ledgers[lost]
    pool.note_ledger(lost, replace(known, entries=(), version=known.version + 1))
    write(pool)
    assert len(holders(pool)) == 6


def test_members_that_ended_are_not_reserved_for_again() -> None:
    pool = pool_of(2)
    over = {**member("w0", 3), "status": {"phase": "Succeeded"}}
    over["spec"]["schedulingGates"] = []
    note(pool, over, member("w1", 3))
    write(pool)
    assert holders(pool) == ["gang/default/train/0", "uid-w1"]


def test_a_pod_of_another_shape_does_not_take_the_seat_and_the_gang_keeps_one_less() -> None:
    pool = pool_of(2)
    note(pool, member("w0", 3))
    write(pool)
    note(pool, member("odd", 3, containers={"main": asking(1, 100, GIB)}))
    write(pool)
    assert holders(pool) == ["gang/default/train/1", "uid-odd", "uid-w0"]


@pytest.mark.parametrize("half", [True, False])
def test_seats_of_a_gang_that_does_not_come_together_are_given_up_in_time(half: bool) -> None:
    now = 0.0
    pool = pool_of(2)
    note(pool, member("w0", 6))
    write(pool)
    if half:
        known = pool.ledgers["n1"]
        pool.note_ledger("n1", replace(known, entries=(), version=known.version + 1))
    else:
        pool.note_pod("uid-w0", None)
        for known in list(pool.ledgers.values()):
            ghosts = tuple(entry for entry in known.entries if gangs.expected(entry.uid))
            pool.note_ledger(known.name, replace(known, entries=ghosts, version=known.version + 1))
    holding = Holding(lambda: now)
    assert holding.given_up(pool) == frozenset()
    patience = HALF_SECONDS if half else EMPTY_SECONDS
    assert holding.next_look() == patience
    now = patience
    assert holding.given_up(pool) == {"default/train"}
    for known in pool.ledgers.values():
        assert settled(known, pool.pods, given_up=frozenset({"default/train"})) == ()


def test_a_seat_that_nobody_comes_for_is_given_back_once_everybody_else_is_ready() -> None:
    now = 0.0
    pool, holding = pool_of(2), Holding(lambda: now)
    note(pool, member("w0", 3), member("w1", 3))
    write(pool)
    runs = [member(name, 3) for name in ("w0", "w1")]
    for made in runs:
        made["spec"] |= {"schedulingGates": [], "nodeName": pool.ledger_of(made["metadata"]["uid"])}
    note(pool, *runs)
    assert holders(pool) == ["gang/default/train/0", "uid-w0", "uid-w1"]
    assert (holding.given_up(pool), holding.next_look()) == (frozenset(), None), "one may come when they are ready"
    for made in runs:
        made["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    note(pool, *runs)
    assert (holding.given_up(pool), holding.next_look()) == (frozenset(), MISSING_SECONDS)
    now = MISSING_SECONDS
    given_up = holding.given_up(pool)
    write(pool, given_up)
    assert holders(pool) == ["uid-w0", "uid-w1"]
    assert write(pool) == 0, "it is not reserved again"
    note(pool, member("w2", 3))
    write(pool)
    assert holders(pool) == ["uid-w0", "uid-w1", "uid-w2"]


def test_a_released_member_keeps_its_cards_when_the_rest_is_given_up() -> None:
    pool = pool_of(2)
    note(pool, member("w0", 2))
    write(pool)
    released = member("w0", 2)
    released["spec"]["schedulingGates"] = []
    note(pool, released)
    write(pool, frozenset({"default/train"}))
    assert holders(pool) == ["uid-w0"]


def with_volume(made: dict[str, Any]) -> dict[str, Any]:
    """A member with a claim of its own name."""
    name = made["metadata"]["name"]
    made["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
    return made


def volumes(pool: Pool, **nodes: str) -> None:
    """By claim the one node that reaches its volume."""
    known = pool.rules.volumes
    known.listed()
    for name, reached in nodes.items():
        done = {"pv.kubernetes.io/bind-completed": "yes"}
        meta = {"name": name, "namespace": "default", "annotations": done}
        known.note_claim({"metadata": meta, "spec": {"volumeName": name, "storageClassName": ""}}, False)
        field = {"key": "metadata.name", "operator": "In", "values": [reached]}
        required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        known.note_volume({"metadata": {"name": name}, "spec": {"nodeAffinity": {"required": required}}}, False)


def nodes_of(pool: Pool) -> dict[str, str]:
    return {entry.uid: name for name, known in pool.ledgers.items() for entry in known.entries}


def test_a_seat_that_the_last_members_volume_is_not_at_is_given_up_for_one_that_it_is_at() -> None:
    pool = pool_of(2)
    volumes(pool, w1="n1")
    note(pool, member("w0", 2))
    write(pool)
    there = nodes_of(pool)["uid-w0"]
    assert nodes_of(pool) == {"uid-w0": there, "gang/default/train/0": there}, "both on one node, as is nearest"
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
    assert pool.useless() == frozenset()
