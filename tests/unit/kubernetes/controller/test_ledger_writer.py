"""Each ledger is written at most once per pass, and never over what another has written."""

from __future__ import annotations

import asyncio
from typing import Any

from gpupool.base.units import GIB
from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.controller.gang_timeouts import GangTimeouts
from gpupool.kubernetes.controller.ledger_writer import AGAIN_SECONDS, LedgerWriter
from gpupool.kubernetes.eviction.failed_cards import FailedCards
from gpupool.kubernetes.eviction.pod_removal import PodRemoval
from gpupool.kubernetes.eviction.unschedulable_pods import UnschedulablePods
from gpupool.kubernetes.ledger import ledger
from gpupool.kubernetes.reporting.counters import ControllerCounters
from gpupool.kubernetes.reporting.events import EventWriter
from gpupool.model.allocation import Seat
from gpupool.scheduling.snapshot.plan import JobPlacement, Plan
from tests.support.cluster_caches import hold, note, plan, two_node_pool
from tests.support.hand_clock import Clock
from tests.support.kube_builders import gpu_node, pod
from tests.support.scripted_api import CONFLICT, FORBIDDEN, ScriptedApi

LEDGER = f"{ledger.NODES}/n0"
WRITTEN = {"metadata": {"name": "n0", "generation": 2, "resourceVersion": "20"}}


def place(job: str, generation: int = 1) -> JobPlacement:
    return JobPlacement(job, "n0", (Seat("GPU-n0-0", 300, 8 * GIB),), (generation,), "")


class Writes:
    """A cache of two nodes that were compared with their pods, and one waiting pod."""

    def __init__(self, answer: Any = WRITTEN) -> None:
        self.api = ScriptedApi({("PATCH", LEDGER): answer})
        self.cluster: ClusterCache = two_node_pool()
        note(self.cluster, pod("a"))
        self.cluster.unsettled = set()
        self.counts = ControllerCounters()
        self.noted: list[str] = []
        self.passed_on: list[tuple[dict[str, Any], bool]] = []
        self.clock = clock = Clock()
        events = EventWriter(self.api, self.counts, lambda: 0)
        removal = PodRemoval(
            self.api,
            self.cluster,
            self.counts,
            UnschedulablePods(clock, 300.0),
            FailedCards(clock),
            events,
            lambda: 0,
        )
        self.writer = LedgerWriter(
            self.api,
            self.cluster,
            self.counts,
            GangTimeouts(clock),
            removal,
            None,
            lambda: 5,
            lambda name, _before, _now: self.noted.append(name),
            lambda found, gone: self.passed_on.append((found, gone)),
            seconds=clock,
        )

    def write(self, *placements: JobPlacement) -> bool:
        return asyncio.run(self.writer.write_plan(Plan(1, placements, {})))


def test_placement_is_written_and_noted_before_the_watch_tells_it() -> None:
    writes = Writes()
    assert writes.write(place("uid-a/main")) is False
    assert writes.api.calls == [("PATCH", LEDGER)]
    assert writes.cluster.ledger_node_of("uid-a") == "n0"
    assert writes.cluster.entries_of("uid-a")[0].generation == 2
    assert (writes.noted, writes.writer.answered) == (["n0"], {"n0"})
    writes.writer.note_relist()
    assert writes.writer.answered == set()


def test_node_that_nothing_happened_to_is_not_written() -> None:
    writes = Writes()
    assert writes.write() is False
    assert writes.api.calls == []


def test_placement_by_an_older_ledger_is_left_out_and_planned_again() -> None:
    writes = Writes()
    hold(writes.cluster, "n0", "uid-b", 300, GIB)
    note(writes.cluster, pod("b"))
    assert writes.write(place("uid-a/main", generation=1)) is True
    assert writes.cluster.ledger_node_of("uid-a") == ""


def test_placement_on_a_node_that_went_since_the_plan_is_left_out() -> None:
    """Its pod would be released to a node that does not exist, and no gate comes back."""
    writes = Writes()
    writes.cluster.note_host("n0", None)
    writes.write(place("uid-a/main"))
    assert writes.api.calls == []
    assert "uid-a" not in writes.cluster.awaiting_release


def test_ledger_that_another_wrote_is_read_at_once_and_planned_again() -> None:
    writes = Writes(CONFLICT)
    other = gpu_node("n0", version=7)
    writes.api.answer_with("GET", LEDGER, other)
    assert writes.write(place("uid-a/main")) is True
    assert writes.api.calls == [("PATCH", LEDGER), ("GET", LEDGER)]
    assert writes.cluster.ledgers["n0"].version == 7
    assert "n0" in writes.cluster.unsettled
    assert writes.counts.ledger_conflicts == 1


def test_refused_write_of_one_ledger_lets_the_others_be_written() -> None:
    """An admission webhook may refuse one object; pods of all other nodes must get their cards."""
    writes = Writes(FORBIDDEN)
    note(writes.cluster, pod("b"))
    other = f"{ledger.NODES}/n1"
    answer = {"metadata": {**WRITTEN["metadata"], "name": "n1"}}
    writes.api.answer_with("PATCH", other, answer)
    there = JobPlacement("uid-b/main", "n1", (Seat("GPU-n1-0", 300, 8 * GIB),), (1,), "")
    assert writes.write(place("uid-a/main"), there) is False, "another pass at once would not help"
    assert writes.cluster.awaiting_release == {"uid-b"}
    assert "n0" in writes.cluster.unsettled


def test_node_of_a_refused_write_takes_no_pods_until_it_is_tried_again() -> None:
    writes = Writes(FORBIDDEN)
    writes.write(place("uid-a/main"))
    assert writes.writer.next_look() == AGAIN_SECONDS
    assert [one.node for one in plan(writes.cluster).placements] == ["n1"]
    writes.write()
    assert len(writes.api.calls) == 1
    assert "n0" in writes.cluster.unsettled
    writes.clock.now += AGAIN_SECONDS
    writes.writer.expire_refusals()
    assert [one.node for one in plan(writes.cluster).placements] == ["n0"]
    writes.api.answer_with("PATCH", LEDGER, WRITTEN)
    writes.write(place("uid-a/main"))
    assert (writes.cluster.ledger_node_of("uid-a"), writes.writer.next_look()) == ("n0", None)


def test_event_of_a_ledger_waits_for_the_answer_to_its_write() -> None:
    writes = Writes()
    event = gpu_node("n0", version=2)
    assert not writes.writer.defer_event(event, False), "nothing is written"

    class Telling(ScriptedApi):
        async def request(self, *words: Any, **more: Any) -> dict[str, Any]:
            assert writes.writer.defer_event(event, False)
            assert writes.passed_on == []
            return WRITTEN

    writes.writer._api = Telling()
    writes.write(place("uid-a/main"))
    assert writes.passed_on == [(event, False)]


def test_confirmed_ledger_is_written_as_it_was_read() -> None:
    writes = Writes()
    writes.api.answer_with("GET", LEDGER, gpu_node("n0", version=4))
    assert asyncio.run(writes.writer.confirm_ledger("n0"))
    assert writes.api.calls == [("GET", LEDGER), ("PATCH", LEDGER)]
    assert {"op": "test", "path": "/metadata/generation", "value": 4} in writes.api.sent[1][2]
