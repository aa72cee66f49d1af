"""The cards of a deleted pod go to its replacement, and to no other pod."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.cache.seat_handover import KEPT_SECONDS, can_be_replaced
from gpupool.kubernetes.ledger import entry_lifecycle
from gpupool.kubernetes.resources.gpu_node import Entry, EntryState
from tests.support.hand_clock import Clock
from tests.support.kube_builders import asking, gang
from tests.support.released_pods import enter, let_go, note, one_node_pool


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pool(clock: Clock) -> ClusterCache:
    return one_node_pool(clock)


def die(pool: ClusterCache, name: str) -> None:
    pool.handover.keep_seats(pool.pods[f"uid-{name}"], "n0")
    pool.note_pod(f"uid-{name}", None)


def settled(pool: ClusterCache) -> tuple[Entry, ...]:
    return entry_lifecycle.reconcile_entries(
        pool.ledgers["n0"], pool.pods, claimed=pool.gang_seats.match_seats(), kept=pool.handover
    )


def write(pool: ClusterCache) -> tuple[Entry, ...]:
    known, now = pool.ledgers["n0"], settled(pool)
    pool.note_ledger("n0", replace(known, entries=now, version=known.version + 1))
    return now


def test_the_next_pod_of_the_owner_has_the_seats_and_never_stands_in_the_queue(
    pool: ClusterCache,
) -> None:
    let_go(pool, "a")
    die(pool, "a")
    assert settled(pool) == pool.ledgers["n0"].entries
    note(pool, "b")
    assert "uid-b" not in pool.queue
    (entry,) = write(pool)
    assert (entry.uid, entry.pod, entry.state, entry.generation) == (
        "uid-b",
        "b",
        EntryState.RESERVED,
        3,
    )
    assert entry.seats[0].device == "GPU-n0-0"
    assert "uid-a" not in pool.handover
    assert settled(pool) == (entry,)


@pytest.mark.parametrize("more", [{"owner": "other"}, {"nodeSelector": {"zone": "b"}}])
def test_nobody_else_inherits(pool: ClusterCache, more: dict[str, Any]) -> None:
    let_go(pool, "a")
    die(pool, "a")
    note(pool, "b", **more, schedulingGates=[{"name": "gpupool.dev/placement"}])
    assert "uid-b" in pool.queue
    assert pool.gang_seats.match_seats() == {}


def test_one_inherits_from_one(pool: ClusterCache) -> None:
    let_go(pool, "a")
    die(pool, "a")
    note(pool, "b")
    note(pool, "c")
    assert ("uid-b" in pool.queue, "uid-c" in pool.queue) == (False, True)
    pool.note_pod("uid-b", None)
    note(pool, "c")
    assert list(pool.gang_seats.match_seats()) == ["uid-a"]


def test_one_of_the_owner_that_waits_already_inherits(pool: ClusterCache) -> None:
    let_go(pool, "a")
    note(pool, "b")
    assert "uid-b" in pool.queue
    die(pool, "a")
    assert "uid-b" not in pool.queue
    assert [one.uid for one in pool.gang_seats.match_seats().values()] == ["uid-b"]


def test_seats_that_nobody_inherits_in_time_drain(pool: ClusterCache, clock: Clock) -> None:
    let_go(pool, "a")
    die(pool, "a")
    assert pool.handover.next_look() == KEPT_SECONDS
    clock.now = KEPT_SECONDS
    pool.expire_handovers()
    (entry,) = settled(pool)
    assert entry.state is EntryState.DRAINING
    assert pool.unsettled == {"n0"}


def test_an_heir_whose_node_is_gone_waits_as_others_do(pool: ClusterCache) -> None:
    let_go(pool, "a")
    die(pool, "a")
    note(pool, "b")
    pool.note_ledger("n0", None)
    assert "uid-b" in pool.queue


def test_only_a_pod_with_an_owner_leaves_something(pool: ClusterCache) -> None:
    let_go(pool, "a")
    assert can_be_replaced(pool.pods["uid-a"])
    assert not can_be_replaced(replace(pool.pods["uid-a"], owner=""))


def test_an_heir_of_several_containers_has_each_ones_seats(pool: ClusterCache) -> None:
    two = {"containers": {"main": asking(), "side": asking()}}
    let_go(pool, "a", containers=("main", "side"), of=two)
    die(pool, "a")
    note(pool, "one")
    assert "uid-one" in pool.queue
    note(pool, "b", of=two)
    assert "uid-b" not in pool.queue
    entries = write(pool)
    assert [(one.uid, one.container, one.state) for one in entries] == [
        ("uid-b", "main", EntryState.RESERVED),
        ("uid-b", "side", EntryState.RESERVED),
    ]
    assert settled(pool) == entries
    assert "uid-a" not in pool.handover


GANG = {"gang": gang(2)}


NAME = "default/train"


def test_a_member_that_is_made_anew_sits_where_the_one_before_it_sat(pool: ClusterCache) -> None:
    for name in ("a", "b"):
        let_go(pool, name, NAME, of=GANG)
    die(pool, "a")
    assert len(pool.members.present_members(NAME).entered) == 2
    note(pool, "c", of=GANG)
    assert pool.queue.gang_pods(NAME) == []
    assert [one.uid for one in write(pool)] == ["uid-c", "uid-b"]
    assert pool.members.present_members(NAME).entered.keys() == {"uid-b", "uid-c"}
    assert [one.uid for one in pool.queue.gang_pods(NAME)] == ["uid-c"]  # until it is let go
    assert pool.take_snapshot().waiting == ()


def test_a_member_that_has_a_seat_and_was_not_let_go_yet_inherits_no_other(
    pool: ClusterCache,
) -> None:
    let_go(pool, "a", NAME, of=GANG)
    enter(pool, "b", NAME)
    note(pool, "b", of=GANG)
    die(pool, "a")
    assert pool.gang_seats.match_seats() == {}
    note(pool, "c", of=GANG)
    assert {uid: heir.uid for uid, heir in pool.gang_seats.match_seats().items()} == {
        "uid-a": "uid-c"
    }


def test_the_seat_of_a_member_that_nobody_makes_anew_is_given_back(
    pool: ClusterCache, clock: Clock
) -> None:
    for name in ("a", "b"):
        let_go(pool, name, NAME, of=GANG)
    die(pool, "a")
    clock.now = KEPT_SECONDS
    pool.expire_handovers()
    assert [one.state for one in settled(pool)] == [EntryState.DRAINING, EntryState.RESERVED]
