"""Who is told of and asked to leave when a card fails, and who is left alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpupool.base.units import GIB
from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.eviction.failed_cards import GRACE_SECONDS, AffectedPod, FailedCards
from gpupool.kubernetes.resources.gpu_node import Entry, EntryState, GpuNode
from gpupool.kubernetes.resources.node import NodeFacts
from gpupool.kubernetes.resources.pod import read_pod
from gpupool.model.allocation import Seat
from gpupool.model.device import DeviceHealth
from tests.support.hand_clock import Clock
from tests.support.kube_builders import asking, gpu_node, node, pod


class Node:
    """One node with four cards, and pods on it."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.pool = ClusterCache(seconds=self.clock)
        self.failing = FailedCards(self.clock)
        self.pool.note_host("n0", NodeFacts.from_json(node("n0")))
        self._note(GpuNode.from_json(gpu_node("n0")))

    def _note(self, now: GpuNode) -> None:
        self.pool.note_ledger("n0", now)
        self.failing.note_ledger("n0", now)

    def change(self, **more: Any) -> None:
        known = self.pool.ledgers["n0"]
        self._note(replace(known, version=known.version + 1, **more))

    def run(
        self, name: str, card: int, *, owner: str = "set", gated: bool = False, **more: Any
    ) -> None:
        entry = Entry(
            f"uid-{name}",
            "default",
            name,
            "main",
            (Seat(f"GPU-n0-{card}", 300, 8 * GIB),),
            "default",
            **more,
        )
        self.change(entries=(*self.pool.ledgers["n0"].entries, entry))
        found = pod(
            name,
            {"main": asking()},
            spec=None if gated else {"schedulingGates": [], "nodeName": "n0"},
        )
        found["metadata"]["ownerReferences"] = [{"controller": True, "uid": owner}] if owner else []
        self.pool.note_pod(entry.uid, read_pod(found))

    def fail(
        self,
        card: int,
        health: DeviceHealth = DeviceHealth.FAILED,
        reason: str = "fell off the bus (XID 79)",
    ) -> None:
        known = self.pool.ledgers["n0"].cards
        ill = (
            replace(one, health=health, health_reason=reason) if one.index == card else one
            for one in known
        )
        self.change(cards=tuple(ill))

    def after(self, seconds: float) -> tuple[list[str], list[str]]:
        """Names of who is told of, and who is asked to leave."""
        self.clock.now += seconds
        due = self.failing.find_due_pods(self.pool)
        return _names(due.tell), _names(due.leave)


def _names(found: tuple[AffectedPod, ...]) -> list[str]:
    return [one.pod.name for one in found]


@pytest.fixture
def one() -> Node:
    made = Node()
    made.run("a", 0)
    made.run("b", 1)
    return made


def test_who_has_the_failed_card_leaves_after_a_while_and_as_long_as_it_is_there(one: Node) -> None:
    one.fail(0)
    assert one.after(0) == ([], [])
    assert one.failing.next_look() == GRACE_SECONDS
    assert one.after(GRACE_SECONDS) == (["a"], ["a"])
    assert one.after(1) == ([], ["a"])
    assert one.failing.next_look() is None


def test_who_was_ordered_to_leave_by_another_leader_has_waited_already(one: Node) -> None:
    one.run("ordered", 2, leaving_at="7")
    one.fail(2)
    assert one.after(0) == ([], ["ordered"])


def test_a_bare_pod_stays_and_people_are_told_once(one: Node) -> None:
    one.run("bare", 2, owner="")
    one.fail(2)
    one.after(0)
    assert one.after(GRACE_SECONDS) == (["bare"], [])
    assert one.after(100 * GRACE_SECONDS) == ([], [])
    assert one.failing.next_look() is None


def test_a_card_that_comes_back_in_time_moves_nobody(one: Node) -> None:
    one.fail(0)
    one.after(GRACE_SECONDS / 2)
    one.fail(0, DeviceHealth.OK, "")
    assert one.after(GRACE_SECONDS) == ([], [])
    one.fail(0)
    assert one.after(0) == ([], [])


@pytest.mark.parametrize("health", [DeviceHealth.WARNING, DeviceHealth.UNKNOWN])
def test_a_card_that_is_only_doubted_moves_nobody(one: Node, health: DeviceHealth) -> None:
    one.fail(0, health, "a memory row waits to be remapped")
    one.after(0)
    assert one.after(GRACE_SECONDS) == ([], [])


def test_a_card_that_its_node_does_not_show_is_as_one_that_failed(one: Node) -> None:
    one.change(cards=one.pool.ledgers["n0"].cards[1:])
    one.after(0)
    one.clock.now = GRACE_SECONDS
    (left,) = one.failing.find_due_pods(one.pool).leave
    assert left.why == "card GPU-n0-0 of node n0: its node does not show it any more"


def test_an_agent_that_says_nothing_moves_nobody(one: Node) -> None:
    one.change(ready=False, cards=())
    one.after(0)
    assert one.after(GRACE_SECONDS) == ([], [])


def test_who_is_gated_or_gives_its_cards_back_is_left_alone(one: Node) -> None:
    one.run("gated", 3, gated=True)
    one.run("draining", 3, state=EntryState.DRAINING)
    one.fail(3)
    one.after(0)
    assert one.after(GRACE_SECONDS) == ([], [])


def test_the_sentence_says_card_node_reason_and_what_comes(one: Node) -> None:
    one.fail(0)
    one.after(0)
    one.clock.now = GRACE_SECONDS
    (told,) = one.failing.find_due_pods(one.pool).tell
    assert told.sentence == (
        "card GPU-n0-0 of node n0: fell off the bus (XID 79); "
        "it is asked to leave, so that its owner makes another elsewhere"
    )
