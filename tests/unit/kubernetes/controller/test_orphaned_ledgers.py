"""A ledger whose Node is gone is deleted once nothing of it is left to report."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.controller.orphaned_ledgers import OrphanedLedgers
from gpupool.kubernetes.ledger import ledger
from gpupool.kubernetes.reporting.counters import ControllerCounters
from gpupool.kubernetes.reporting.events import EventWriter
from gpupool.kubernetes.resources.closed_intervals import ClosedInterval
from gpupool.kubernetes.resources.gpu_node import GpuNode
from gpupool.kubernetes.resources.node import NodeFacts
from gpupool.model.allocation import Seat
from tests.support.kube_builders import gpu_node, node
from tests.support.ledger_entries import entry
from tests.support.scripted_api import CONFLICT, FORBIDDEN, NOT_FOUND, Answer, ScriptedApi

LEDGER = f"{ledger.NODES}/n0"
NODE = "/api/v1/nodes/n0"
ENDED = ClosedInterval("u", "team", "a", "main", (Seat("GPU-0", 300, 1),), "team", "", 3, 4)


def build_ledger(**spec: Any) -> dict[str, Any]:
    made = gpu_node("n0", **{"mode": "observe", **spec})
    made["metadata"] |= {"uid": "uid-ledger", "resourceVersion": "17"}
    return made


class Orphan:
    """One ledger without its Node, as the cache and the server have it."""

    def __init__(
        self, found: dict[str, Any], of_node: Answer = NOT_FOUND, *, metered: bool = False
    ) -> None:
        self.api = ScriptedApi({("GET", LEDGER): found, ("GET", NODE): of_node})
        self.cluster = ClusterCache()
        self.cluster.note_ledger("n0", GpuNode.from_json(found))
        self.events = EventWriter(self.api, ControllerCounters(), lambda: 0)
        self.wakes = 0
        self._ledgers = OrphanedLedgers(
            self.api, self.cluster, self.events, metered=metered, wake=self._wake
        )

    def _wake(self) -> None:
        self.wakes += 1

    def clean_up(self) -> list[tuple[str, str]]:
        """Writes of one pass."""
        del self.api.sent[:]
        asyncio.run(self._ledgers.clean_up())
        return [call for call in self.api.calls if call[0] != "GET"]


def test_ledger_of_a_present_node_is_left_alone() -> None:
    orphan = Orphan(build_ledger())
    orphan.cluster.note_host("n0", NodeFacts.from_json(node("n0")))
    assert (orphan.clean_up(), orphan.api.sent) == ([], [])


def test_adopted_ledger_is_set_to_observe_before_it_is_deleted() -> None:
    orphan = Orphan(build_ledger(mode="slot"))
    assert orphan.clean_up() == [("PATCH", LEDGER)]
    assert orphan.api.sent[-1][2][1] == {"op": "add", "path": "/spec/mode", "value": "observe"}


def test_observed_ledger_is_deleted_in_the_version_that_was_read() -> None:
    orphan = Orphan(build_ledger())
    assert orphan.clean_up() == [("DELETE", LEDGER)]
    assert orphan.api.sent[-1][2]["preconditions"] == {"resourceVersion": "17"}


def test_node_that_the_server_has_keeps_its_ledger() -> None:
    assert Orphan(build_ledger(), node("n0")).clean_up() == []


def test_ledger_that_got_an_entry_meanwhile_is_kept() -> None:
    orphan = Orphan(build_ledger())
    full = build_ledger(allocations=[entry("a").to_json()])
    orphan.api.answer_with("GET", LEDGER, full)
    assert orphan.clean_up() == []


def test_unreported_intervals_are_told_once_and_keep_the_ledger() -> None:
    orphan = Orphan(build_ledger(ended=[ENDED.to_json()]), metered=True)
    assert orphan.clean_up() == []
    (event,) = orphan.events.pending_events
    assert (event.reason, event.kind, event.uid) == ("LedgerWaits", "GpuNode", "uid-ledger")
    assert "(1 left)" in event.note
    assert orphan.clean_up() == []
    assert orphan.api.sent == [], "the second pass asks nothing"
    unmetered = Orphan(build_ledger(ended=[ENDED.to_json()]))
    assert unmetered.clean_up() == [("DELETE", LEDGER)]


@pytest.mark.parametrize(
    ("answer", "wakes"), [(CONFLICT, 1), (NOT_FOUND, 0), (FORBIDDEN, 0)], ids=lambda one: str(one)
)
def test_refused_deletion_is_tried_again_at_once_after_a_conflict_alone(
    answer: Exception, wakes: int
) -> None:
    orphan = Orphan(build_ledger())
    orphan.api.answer_with("DELETE", LEDGER, answer)
    assert orphan.clean_up() == [("DELETE", LEDGER)]
    assert orphan.wakes == wakes
