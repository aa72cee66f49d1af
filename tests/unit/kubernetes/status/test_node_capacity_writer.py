"""A Node's capacity is written where it differs from what its ledger has, and nowhere else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.reporting.counters import ControllerCounters
from gpupool.kubernetes.resources.node import NodeFacts
from gpupool.kubernetes.resources.node_capacity import capacity_patch, wanted_capacities
from gpupool.kubernetes.status.node_capacity_writer import AGAIN_SECONDS, NodeCapacityWriter
from tests.support.cluster_caches import two_node_pool
from tests.support.hand_clock import Clock
from tests.support.kube_builders import node
from tests.support.scripted_api import FORBIDDEN, NOT_FOUND, ScriptedApi

PATH = "/api/v1/nodes/n0/status"


class Written:
    """A cache of two nodes, of which `n1` has its capacity already."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.cluster: ClusterCache = two_node_pool()
        wanted = wanted_capacities(self.cluster.ledgers["n1"])
        full = node("n1")
        full["status"]["allocatable"] |= capacity_patch(wanted)["status"]["allocatable"]
        self.cluster.note_host("n1", NodeFacts.from_json(full))
        self.api = ScriptedApi({("PATCH", PATH): node("n0")})
        self.counts = ControllerCounters()
        self.noted: list[tuple[str, bool]] = []
        self._writer = NodeCapacityWriter(
            self.api, self.cluster, self.counts, self._note, self.clock
        )

    def _note(self, found: dict[str, Any], gone: bool) -> None:
        self.noted.append((found["metadata"]["name"], gone))

    def write(self) -> None:
        asyncio.run(self._writer.write_capacities())


def test_capacity_is_written_to_the_node_that_lacks_it_alone() -> None:
    written = Written()
    written.write()
    assert written.api.calls == [("PATCH", PATH)]
    assert written.api.sent[0][2]["status"]["capacity"]["gpupool.dev/gpu-milli"] == "4000"
    assert (written.noted, written.counts.capacity_writes) == ([("n0", False)], 1)


def test_node_that_did_not_change_is_not_compared() -> None:
    written = Written()
    written.cluster.unsettled = set()
    written.write()
    assert written.api.calls == []


def test_node_that_is_gone_gets_no_capacity() -> None:
    written = Written()
    written.cluster.note_host("n0", None)
    written.write()
    assert written.api.calls == []


def test_answer_is_not_noted_where_the_watch_told_more_meanwhile() -> None:
    written = Written()
    changed = NodeFacts.from_json(node("n0", cpu="8"))

    class Racing(ScriptedApi):
        async def request(self, *words: Any, **more: Any) -> dict[str, Any]:
            written.cluster.note_host("n0", changed)
            return await super().request(*words, **more)

    api = Racing()
    racing = NodeCapacityWriter(api, written.cluster, written.counts, written._note, written.clock)
    asyncio.run(racing.write_capacities())
    assert (written.noted, written.cluster.hosts["n0"]) == ([], changed)


@pytest.mark.parametrize("answer", [FORBIDDEN, NOT_FOUND], ids=["forbidden", "gone"])
def test_refused_capacity_of_one_node_stops_no_pass_and_is_written_later(
    answer: Exception,
) -> None:
    """An admission webhook may refuse one Node; pods of the others must go on."""
    written = Written()
    written.api.answer_with("PATCH", PATH, answer)
    written.write()
    assert written.api.calls == [("PATCH", PATH)]
    written.cluster.unsettled = set()
    written.write()
    assert len(written.api.calls) == 1, "not at every pass"
    written.clock.now += AGAIN_SECONDS
    written.api.answer_with("PATCH", PATH, node("n0"))
    written.write()
    assert written.noted == [("n0", False)]
