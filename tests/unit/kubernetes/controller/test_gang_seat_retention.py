"""A member of a gang that goes while the others run leaves its seat to the one that is made in its
place."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gpupool.base.units import GIB
from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.controller.gang_seat_retention import retained_seats
from gpupool.kubernetes.controller.gang_timeouts import AWAY_SECONDS, EMPTY_SECONDS, GangTimeouts
from gpupool.kubernetes.controller.plan_entries import entries_by_node
from gpupool.kubernetes.ledger.entry_lifecycle import reconcile_entries
from gpupool.kubernetes.resources import names
from gpupool.kubernetes.resources.gpu_node import Entry, GpuNode
from gpupool.kubernetes.resources.node import NodeFacts
from gpupool.kubernetes.resources.pod import read_pod
from gpupool.model.device import DeviceHealth
from gpupool.scheduling.engine.cycle import cycle
from tests.support.kube_builders import asking, gang, gpu_node, node, pod

WHOLE = {"main": asking(1, 1000, None)}
SEATED_NS = 2**62
"""By the ledger's clock: later than every pod came, as where all of them came while a plan was
made."""
Json = dict[str, Any]


class Turns:
    """One node of four cards, and rounds of a controller without an API server."""

    def __init__(self, cards: int = 4) -> None:
        self.pool, self.now, self.made = ClusterCache(), 0.0, 0
        self.holding = GangTimeouts(lambda: self.now)
        self.pool.note_host("n0", NodeFacts.from_json(node("n0")))
        self.pool.note_ledger("n0", GpuNode.from_json(gpu_node("n0", cards)))

    def note(self, name: str, made: Json) -> None:
        """Under a uid of its own, however often that name was there before; later than all before
        it."""
        self.made += 1
        made["metadata"] |= {
            "uid": f"uid-{name}-{self.made}",
            "creationTimestamp": f"2026-01-01T00:00:{self.made:02d}Z",
        }
        self.again(made)

    def again(self, made: Json) -> None:
        self.pool.note_pod(made["metadata"]["uid"], read_pod(made))

    def turn(self) -> None:
        """One round; the agent has read and done all that the ledger said before."""
        known = self.pool.ledgers["n0"]
        known = replace(known, observed=known.version)
        self.pool.note_ledger("n0", known)
        plan = cycle(self.pool.take_snapshot(), 0)
        added, claimed = (
            entries_by_node(plan.placements, self.pool),
            self.pool.gang_seats.match_seats(),
        )
        given_up, back = (
            self.holding.expired_seats(self.pool) | self.pool.gang_seats.surplus_seats(),
            retained_seats(self.pool, ["n0"]),
        )
        entries = reconcile_entries(
            known, self.pool.pods, claimed=claimed, given_up=given_up, returning=back
        )
        entries += tuple(replace(entry, held_ns=SEATED_NS) for entry in added.get("n0", ()))
        self.pool.note_ledger("n0", replace(known, entries=entries, version=known.version + 1))
        for each in list(self.pool.pods.values()):
            if (
                each.gated
                and each.uid in self.pool.awaiting_release
                and (not each.gang or self.pool.members.has_begun(each))
            ):
                self.pool.note_pod(each.uid, replace(each, gated=False, node="n0"))

    def turns(self, many: int = 4) -> None:
        for _ in range(many):
            self.turn()

    def go(self, name: str) -> str:
        """The pod of that name is gone; where it sat."""
        entry = self.entry(name)
        self.pool.note_pod(entry.uid, None)
        return entry.seats[0].device

    def entry(self, name: str) -> Entry:
        return next(entry for entry in self.pool.ledgers["n0"].entries if entry.pod == name)

    def sit(self) -> list[str]:
        """Names of those who have cards; empty ones are of members to come."""
        return sorted(entry.pod for entry in self.pool.ledgers["n0"].entries)


def member(name: str, size: int = 3, minimum: int | None = None, **containers: Any) -> Json:
    made = pod(name, containers or WHOLE, gang=gang(size, minimum))
    made["metadata"]["ownerReferences"] = [{"uid": "job", "controller": True}]
    return made


@pytest.fixture
def turns() -> Turns:
    """Three members that run, one small pod beside them, and one that waits."""
    made = Turns()
    for n in range(3):
        made.note(f"w{n}", member(f"w{n}"))
    for n in range(2):
        made.note(f"small-{n}", pod(f"small-{n}", WHOLE))
    made.turns()
    assert made.sit() == ["small-0", "w0", "w1", "w2"]
    return made


def test_who_comes_in_the_place_of_one_that_went_has_its_seat_and_nobody_else_has(
    turns: Turns,
) -> None:
    card = turns.go("w1")
    turns.turns()
    assert turns.sit() == ["", "small-0", "w0", "w2"]
    turns.note("w1", member("w1"))
    turns.turns()
    assert turns.sit() == ["small-0", "w0", "w1", "w2"]
    assert turns.entry("w1").seats[0].device == card


def test_the_seat_of_a_pod_that_nobody_makes_again_is_free_at_once() -> None:
    turns = Turns(cards=2)
    for name in ("w0", "w1"):
        made = member(name, 2)
        del made["metadata"]["ownerReferences"]
        turns.note(name, made)
    turns.note("small", pod("small", WHOLE))
    turns.turns()
    assert turns.sit() == ["w0", "w1"]
    turns.go("w1")
    turns.turns()
    assert turns.sit() == ["small", "w0"]
    assert turns.pool.not_replaced == set()


def test_one_that_comes_before_the_card_is_let_go_has_it_then(turns: Turns) -> None:
    card = turns.go("w1")
    turns.note("w1", member("w1"))
    turns.turns()
    assert turns.entry("w1").seats[0].device == card


def test_the_seat_is_given_up_when_nobody_comes(turns: Turns) -> None:
    turns.go("w1")
    turns.turns()
    assert turns.holding.next_look() == AWAY_SECONDS
    turns.now = AWAY_SECONDS
    turns.turns()
    assert turns.sit() == ["small-0", "small-1", "w0", "w2"]


def test_a_gang_that_is_gone_altogether_keeps_its_seats_for_a_moment_alone(turns: Turns) -> None:
    for n in range(3):
        turns.go(f"w{n}")
    turns.turns()
    assert turns.sit() == ["", "", "", "small-0"]
    turns.now = EMPTY_SECONDS
    turns.turns()
    assert turns.sit() == ["small-0", "small-1"]


def test_a_gang_that_is_made_anew_has_its_seats_again(turns: Turns) -> None:
    for n in range(3):
        turns.go(f"w{n}")
    turns.turns()
    for n in range(3):
        turns.note(f"w{n}", member(f"w{n}"))
        turns.turns()
    assert turns.sit() == ["small-0", "w0", "w1", "w2"]


def done(turns: Turns) -> None:
    seated = turns.pool.pods[turns.entry("w1").uid]
    turns.pool.note_pod(seated.uid, replace(seated, ended=True))


def turned_away(turns: Turns) -> None:
    """Its node's kubelet had no room for it: the next one would be turned away as well."""
    seated = turns.pool.pods[turns.entry("w1").uid]
    turns.pool.note_pod(
        seated.uid, replace(seated, ended=True, failed=True, kubelet_rejection="OutOfcpu: no room")
    )


def told_to_leave(turns: Turns) -> None:
    known = turns.pool.ledgers["n0"]
    entries = (replace(e, leaving_for="other") if e.pod == "w1" else e for e in known.entries)
    turns.pool.note_ledger("n0", replace(known, entries=tuple(entries), version=known.version + 1))
    turns.go("w1")


def card_failed(turns: Turns) -> None:
    card, known = turns.go("w1"), turns.pool.ledgers["n0"]
    ill = (
        replace(one, health=DeviceHealth.FAILED) if one.uuid == card else one for one in known.cards
    )
    turns.pool.note_ledger("n0", replace(known, cards=tuple(ill)))


def node_closed(turns: Turns) -> None:
    cordoned = node("n0")
    cordoned["spec"]["unschedulable"] = True
    turns.pool.note_host("n0", NodeFacts.from_json(cordoned))
    turns.go("w1")


@pytest.mark.parametrize("why", [done, turned_away, told_to_leave, card_failed, node_closed])
def test_no_seat_is_kept_for_one_that_does_not_come_back_there(
    turns: Turns, why: Callable[[Turns], None]
) -> None:
    why(turns)
    turns.turns()
    assert "" not in turns.sit()
    assert "w1" not in turns.sit()


def test_a_seat_that_is_kept_is_given_up_when_its_node_is_closed_meanwhile(turns: Turns) -> None:
    turns.go("w1")
    turns.turns()
    node_closed_later = node("n0")
    node_closed_later["spec"]["unschedulable"] = True
    turns.pool.note_host("n0", NodeFacts.from_json(node_closed_later))
    turns.turns()
    assert turns.sit() == ["small-0", "w0", "w2"]


def test_a_gang_that_began_and_lacks_a_member_comes_before_those_who_came_after_it(
    turns: Turns,
) -> None:
    """Its seat was lost: it waits since it began, longer than the small one that was there before
    its new pod."""
    turns.go("w1")
    turns.turns()
    turns.now = AWAY_SECONDS
    turns.holding.expired_seats(turns.pool)
    seat = next(entry for entry in turns.pool.ledgers["n0"].entries if not entry.pod)
    known = turns.pool.ledgers["n0"]
    turns.pool.note_ledger(
        "n0", replace(known, entries=tuple(e for e in known.entries if e != seat), version=99)
    )
    turns.note("w1", member("w1"))
    turns.turns()
    assert turns.sit() == ["small-0", "w0", "w1", "w2"]


def test_a_gang_that_only_grows_comes_after_those_who_were_there_before() -> None:
    turns = Turns()
    for n in range(3):
        turns.note(f"w{n}", member(f"w{n}", 4, 2))
    turns.turns()
    given = turns.pool.ledgers["n0"]
    turns.pool.note_ledger(
        "n0",
        replace(given, entries=tuple(e for e in given.entries if e.pod), version=given.version + 1),
    )
    turns.note("small", pod("small", WHOLE))
    turns.note("w3", member("w3", 4, 2))
    turns.turns()
    assert turns.sit() == ["small", "w0", "w1", "w2"]


def test_a_gang_of_the_same_name_is_whole_or_absent_while_the_one_before_it_leaves() -> None:
    """Three of the old one are being deleted and hold their cards; of the new three none starts
    alone."""
    turns = Turns(5)
    for n in range(3):
        turns.note(f"old-{n}", member(f"old-{n}"))
    turns.turns()
    for n in range(3):
        seated = turns.pool.pods[turns.entry(f"old-{n}").uid]
        turns.pool.note_pod(seated.uid, replace(seated, deleting=True))
        turns.note(f"new-{n}", member(f"new-{n}"))
    turns.turns()
    assert turns.sit() == ["old-0", "old-1", "old-2"]
    for n in range(3):
        turns.go(f"old-{n}")
    turns.turns(8)
    assert turns.sit() == ["new-0", "new-1", "new-2"]


def test_members_that_failed_are_made_anew_and_counted_again() -> None:
    """All three failed and are still there, as a Job leaves them: the first new one does not start
    alone."""
    turns = Turns(2)
    for n in range(3):
        failed = member(f"w{n}") | {"status": {"phase": "Failed"}}
        failed["spec"]["schedulingGates"] = []
        turns.note(f"w{n}", failed)
    turns.note("again", member("again"))
    turns.turns()
    assert turns.sit() == []


def test_a_pod_of_another_shape_takes_the_place_of_a_seat_that_it_cannot_use() -> None:
    """A launcher with a small share comes last: the whole card that was kept for it is free
    again."""
    turns = Turns()
    for n in range(2):
        turns.note(f"w{n}", member(f"w{n}"))
    turns.turns()
    assert turns.sit() == ["", "w0", "w1"]
    turns.note("launcher", member("launcher", main=asking(1, 100, GIB)))
    turns.turns()
    assert turns.sit() == ["launcher", "w0", "w1"]


def test_a_member_goes_only_where_it_may(turns: Turns) -> None:
    """The one that comes asks for a node that this is not: it waits, and says so."""
    turns.go("w1")
    turns.turns()
    elsewhere = member("w1")
    elsewhere["spec"]["nodeSelector"] = {"disk": "fast"}
    turns.note("w1", elsewhere)
    turns.turns()
    assert "w1" not in turns.sit()


def test_the_seat_has_the_name_of_the_gang_and_of_who_had_it(turns: Turns) -> None:
    uid = turns.entry("w1").uid
    turns.go("w1")
    turns.turns()
    written = json.dumps([entry.to_json() for entry in turns.pool.ledgers["n0"].entries])
    assert f"gang/default/train/{uid}" in written
    assert names.GATE not in written
