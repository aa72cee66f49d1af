"""Who is told of, who is deleted and who inherits, when no node takes a pod that has its cards."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpupool.base.units import GIB
from gpupool.kubernetes import bookkeeping
from gpupool.kubernetes.heirs import KEPT_SECONDS, may_leave
from gpupool.kubernetes.hosts import Host
from gpupool.kubernetes.objects import Entry, EntryState, GpuNode
from gpupool.kubernetes.pods import read_pod
from gpupool.kubernetes.pool import Pool
from gpupool.kubernetes.stuck import MOST_AT_ONCE, Stuck, sentence
from gpupool.model.allocation import Seat
from tests.support.hand_clock import Clock
from tests.support.kube_builders import asking, gang, gpu_node, node, pod

GRACE = 300.0
NO = "0/1 nodes are available: 1 Insufficient cpu."


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pool(clock: Clock) -> Pool:
    made = Pool(seconds=clock)
    made.note_host("n0", Host.from_json(node("n0", cpu="64")))
    made.note_ledger("n0", GpuNode.from_json(gpu_node("n0")))
    return made


def note(pool: Pool, name: str, *, owner: str = "set", said: str = NO, of: Any = None, **spec: Any) -> None:
    """`of`: what else the builder of pods takes."""
    found = pod(name, spec=spec or None, **{"containers": {"main": asking()}, **(of or {})})
    if owner:
        found["metadata"]["ownerReferences"] = [{"controller": True, "uid": owner}]
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": said}
    found["status"] = {"conditions": [condition]}
    pool.note_pod(f"uid-{name}", read_pod(found))


def let_go(pool: Pool, name: str, in_gang: str = "", containers: tuple[str, ...] = ("main",), **more: Any) -> None:
    """Cards in the ledger, no gate, no node."""
    enter(pool, name, in_gang, containers)
    pinned = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [pinned]}}
    note(pool, name, **more, schedulingGates=[], affinity={"nodeAffinity": affinity})


def enter(pool: Pool, name: str, in_gang: str = "", containers: tuple[str, ...] = ("main",)) -> None:
    known = pool.ledgers["n0"]
    seat = Seat("GPU-n0-0", 300, 8 * GIB)
    made = [Entry(f"uid-{name}", "default", name, one, (seat,), "default", gang=in_gang) for one in containers]
    pool.note_ledger("n0", replace(known, entries=(*known.entries, *made), version=known.version + 1))


def names(pods: tuple[Any, ...]) -> list[str]:
    return [one.name for one in pods]


def test_people_are_told_once_and_an_owners_pod_goes_after_the_grace(pool: Pool, clock: Clock) -> None:
    stuck = Stuck(clock, GRACE)
    let_go(pool, "a")
    assert stuck.due(pool).tell == ()
    assert stuck.next_look(pool) == 30
    clock.now = 30
    assert names(stuck.due(pool).tell) == ["a"]
    assert (stuck.due(pool).tell, stuck.next_look(pool)) == ((), GRACE - 30)
    clock.now = GRACE
    assert names(stuck.due(pool).delete) == ["a"]


@pytest.mark.parametrize("more", [{"owner": ""}, {"said": "GP-2003: all cards are in use"}])
def test_nobody_is_deleted_who_has_no_owner_or_of_whom_the_scheduler_said_nothing(
    pool: Pool, clock: Clock, more: dict[str, str]
) -> None:
    stuck = Stuck(clock, GRACE)
    let_go(pool, "a", **more)
    stuck.due(pool)
    clock.now = 100 * GRACE
    due = stuck.due(pool)
    assert (names(due.tell), due.delete, stuck.next_look(pool)) == (["a"], (), None)


def test_a_grace_of_nothing_deletes_nobody(pool: Pool, clock: Clock) -> None:
    stuck = Stuck(clock, 0.0)
    let_go(pool, "a")
    stuck.due(pool)
    clock.now = 10**6
    assert (stuck.due(pool).delete, stuck.next_look(pool)) == ((), None)


def test_the_next_of_an_owner_has_twice_as_long_and_one_of_another_has_not(pool: Pool, clock: Clock) -> None:
    stuck = Stuck(clock, GRACE)
    let_go(pool, "a")
    stuck.due(pool)
    clock.now = GRACE
    stuck.deleted(stuck.due(pool).delete)
    pool.note_pod("uid-a", None)
    let_go(pool, "b")
    let_go(pool, "c", owner="other")
    stuck.due(pool)
    clock.now = 2 * GRACE
    assert names(stuck.due(pool).delete) == ["c"]
    clock.now = 3 * GRACE
    assert names(stuck.due(pool).delete) == ["b", "c"]


def test_no_more_than_a_few_go_at_once(pool: Pool, clock: Clock) -> None:
    stuck = Stuck(clock, GRACE)
    for n in range(MOST_AT_ONCE + 4):
        let_go(pool, f"p{n:02}")
    stuck.due(pool)
    clock.now = GRACE
    assert len(stuck.due(pool).delete) == MOST_AT_ONCE


def test_who_is_bound_is_not_stuck_and_a_later_pod_counts_anew(pool: Pool, clock: Clock) -> None:
    stuck = Stuck(clock, GRACE)
    let_go(pool, "a")
    stuck.due(pool)
    clock.now = 2 * GRACE
    note(pool, "a", schedulingGates=[], nodeName="n0")
    assert stuck.due(pool) == type(stuck.due(pool))()
    assert stuck.next_look(pool) is None


def test_the_sentence_says_what_comes_and_keeps_the_schedulers_word(pool: Pool) -> None:
    let_go(pool, "a")
    let_go(pool, "b", owner="", said="")
    said = [sentence(pool.pods[uid], "n0", GRACE) for uid in ("uid-a", "uid-b")]
    assert said[0].endswith(NO)
    assert "deleted after 300 s" in said[0]
    assert "nobody would make another" in said[1]
    assert "does it run?" in said[1]


# --- inheriting -------------------------------------------------------------------------------


def die(pool: Pool, name: str) -> None:
    pool.heirs.leave(pool.pods[f"uid-{name}"], "n0")
    pool.note_pod(f"uid-{name}", None)


def settled(pool: Pool) -> tuple[Entry, ...]:
    return bookkeeping.settled(pool.ledgers["n0"], pool.pods, claimed=pool.claimed(), kept=pool.heirs)


def write(pool: Pool) -> tuple[Entry, ...]:
    known, now = pool.ledgers["n0"], settled(pool)
    pool.note_ledger("n0", replace(known, entries=now, version=known.version + 1))
    return now


def test_the_next_pod_of_the_owner_has_the_seats_and_never_stands_in_the_queue(pool: Pool) -> None:
    let_go(pool, "a")
    die(pool, "a")
    assert settled(pool) == pool.ledgers["n0"].entries
    note(pool, "b")
    assert "uid-b" not in pool.queue
    (entry,) = write(pool)
    assert (entry.uid, entry.pod, entry.state, entry.generation) == ("uid-b", "b", EntryState.RESERVED, 3)
    assert entry.seats[0].device == "GPU-n0-0"
    assert "uid-a" not in pool.heirs
    assert settled(pool) == (entry,)


@pytest.mark.parametrize("more", [{"owner": "other"}, {"nodeSelector": {"zone": "b"}}])
def test_nobody_else_inherits(pool: Pool, more: dict[str, Any]) -> None:
    let_go(pool, "a")
    die(pool, "a")
    note(pool, "b", **more, schedulingGates=[{"name": "gpupool.dev/placement"}])
    assert "uid-b" in pool.queue
    assert pool.claimed() == {}


def test_one_inherits_from_one(pool: Pool) -> None:
    let_go(pool, "a")
    die(pool, "a")
    note(pool, "b")
    note(pool, "c")
    assert ("uid-b" in pool.queue, "uid-c" in pool.queue) == (False, True)
    pool.note_pod("uid-b", None)
    note(pool, "c")
    assert list(pool.claimed()) == ["uid-a"]


def test_one_of_the_owner_that_waits_already_inherits(pool: Pool) -> None:
    let_go(pool, "a")
    note(pool, "b")
    assert "uid-b" in pool.queue
    die(pool, "a")
    assert "uid-b" not in pool.queue
    assert [one.uid for one in pool.claimed().values()] == ["uid-b"]


def test_seats_that_nobody_inherits_in_time_drain(pool: Pool, clock: Clock) -> None:
    let_go(pool, "a")
    die(pool, "a")
    assert pool.heirs.next_look() == KEPT_SECONDS
    clock.now = KEPT_SECONDS
    pool.end_wills()
    (entry,) = settled(pool)
    assert entry.state is EntryState.DRAINING
    assert pool.unsettled == {"n0"}


def test_an_heir_whose_node_is_gone_waits_as_others_do(pool: Pool) -> None:
    let_go(pool, "a")
    die(pool, "a")
    note(pool, "b")
    pool.note_ledger("n0", None)
    assert "uid-b" in pool.queue


def test_only_a_pod_with_an_owner_leaves_something(pool: Pool) -> None:
    let_go(pool, "a")
    assert may_leave(pool.pods["uid-a"])
    assert not may_leave(replace(pool.pods["uid-a"], owner=""))


def test_an_heir_of_several_containers_has_each_ones_seats(pool: Pool) -> None:
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
    assert "uid-a" not in pool.heirs


GANG = {"gang": gang(2)}
NAME = "default/train"


def test_a_member_that_is_made_anew_sits_where_the_one_before_it_sat(pool: Pool) -> None:
    for name in ("a", "b"):
        let_go(pool, name, NAME, of=GANG)
    die(pool, "a")
    assert len(pool.members.present(NAME).entered) == 2
    note(pool, "c", of=GANG)
    assert pool.queue.gang(NAME) == []
    assert [one.uid for one in write(pool)] == ["uid-c", "uid-b"]
    assert pool.members.present(NAME).entered.keys() == {"uid-b", "uid-c"}
    assert [one.uid for one in pool.queue.gang(NAME)] == ["uid-c"]  # until it is let go
    assert pool.snapshot().waiting == ()


def test_a_member_that_has_a_seat_and_was_not_let_go_yet_inherits_no_other(pool: Pool) -> None:
    let_go(pool, "a", NAME, of=GANG)
    enter(pool, "b", NAME)
    note(pool, "b", of=GANG)
    die(pool, "a")
    assert pool.claimed() == {}
    note(pool, "c", of=GANG)
    assert {uid: heir.uid for uid, heir in pool.claimed().items()} == {"uid-a": "uid-c"}


def test_the_seat_of_a_member_that_nobody_makes_anew_is_given_back(pool: Pool, clock: Clock) -> None:
    for name in ("a", "b"):
        let_go(pool, name, NAME, of=GANG)
    die(pool, "a")
    clock.now = KEPT_SECONDS
    pool.end_wills()
    assert [one.state for one in settled(pool)] == [EntryState.DRAINING, EntryState.RESERVED]


def test_a_node_that_is_known_to_be_full_keeps_nothing(pool: Pool) -> None:
    let_go(pool, "a")
    assert pool.has_room("n0")
    full = gpu_node("n0", version=9)
    full["status"]["others"] = {"cpuMilli": 64_001}
    pool.note_ledger("n0", GpuNode.from_json(full))
    assert not pool.has_room("n0")
    assert not pool.has_room("nowhere")
