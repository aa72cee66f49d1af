"""Starts that pods were told outlive the controller, and each counts once."""

from __future__ import annotations

import asyncio
import copy
import json
from datetime import datetime
from typing import Any

import pytest
from prometheus_client.core import Metric

from gpupool.base.units import GIB, KIB
from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.controller.controller import PoolController
from gpupool.kubernetes.ledger import ledger
from gpupool.kubernetes.manifests.crds import pool_settings
from gpupool.kubernetes.resources.pool_settings import NAME, SETTINGS
from gpupool.kubernetes.serving import starts
from gpupool.kubernetes.status.settings import STARTS_SECONDS, empty
from gpupool.kubernetes.status.start_records import StartRecords
from gpupool.model.claim import Shape
from gpupool.scheduling.snapshot.claims import ClassKey
from gpupool.scheduling.snapshot.plan import Plan, PlannedStart
from gpupool.scheduling.timeline.start_records import (
    PROMISE,
    ForecastTally,
    StartForecast,
    StartForecasts,
)
from tests.support import kube_builders
from tests.support.kube_memory import MemoryApi
from tests.support.virtual_time import end_task, on_virtual_time
from tests.unit.kubernetes.controller.test_controller import LONG, PODS
from tests.unit.kubernetes.resources.test_gpu_node import check

CREATED_NS = int(datetime.fromisoformat(kube_builders.CREATED).timestamp()) * 10**9
MINUTE_NS = 60 * 10**9
OBJECT = f"{SETTINGS}/{NAME}"
WHOLE = {"main": kube_builders.asking(1, 1000, 40 * GIB)}


class Cluster:
    """One node with one card, and a clock that the test sets."""

    def __init__(self) -> None:
        self.api = MemoryApi()
        self.now_ns = CREATED_NS
        self.api.put("/api/v1/nodes/n0", kube_builders.node("n0"))
        self.api.put(f"{ledger.NODES}/n0", kube_builders.gpu_node("n0", 1))
        self.api.put(OBJECT, empty())

    def put(self, name: str, seconds: int, *, ended: bool = False, priority: int = 0) -> None:
        made = kube_builders.pod(
            name, WHOLE, spec={"activeDeadlineSeconds": seconds, "priority": priority}
        )
        if ended:
            made["spec"] |= {"schedulingGates": [], "nodeName": "n0"}
            made["status"] = {"phase": "Succeeded"}
        self.api.put(f"{PODS}/{name}", made)

    async def end(self, name: str) -> None:
        """The pod has ended; its node's agent reads that its cards are taken back, and then that
        they are free."""
        self.put(name, 1, ended=True)
        path = f"{ledger.NODES}/n0"
        for _ in range(2):
            await asyncio.sleep(LONG)
            node = copy.deepcopy(self.api.objects[path])
            node["status"]["observedGeneration"] = node["metadata"]["generation"]
            self.api.put(path, node)

    async def lead(self) -> tuple[PoolController, asyncio.Task[None]]:
        controller = PoolController(self.api, lambda: self.now_ns)
        life = asyncio.create_task(controller.run())
        await asyncio.sleep(LONG)
        return controller, life

    @property
    def told(self) -> dict[str, Any]:
        found: dict[str, Any] = self.api.objects[OBJECT]["status"]["starts"]
        return found

    def counted(self) -> tuple[int, int]:
        return self.told["promisesKept"], self.told["promisesBroken"]


async def rests() -> None:
    await asyncio.sleep(LONG + STARTS_SECONDS)


async def promised() -> Cluster:
    """`next` waits for the only card, and was promised it; the leader died."""
    cluster = Cluster()
    _, life = await cluster.lead()
    cluster.put("holder", 1800)
    await asyncio.sleep(LONG)
    cluster.put("next", 600)
    await asyncio.sleep(LONG)
    (word,) = cluster.told["open"]
    assert (word["claim"], word["at"], word["sort"]) == (
        "uid-next/main",
        CREATED_NS + 30 * MINUTE_NS,
        PROMISE,
    )
    await end_task(life)
    return cluster


def test_a_promise_holds_over_a_new_leader_against_a_pod_of_higher_priority() -> None:
    async def run() -> None:
        cluster = await promised()
        cluster.put("urgent", 600, priority=1)
        controller, life = await cluster.lead()
        (start,) = [
            one
            for one in controller.cluster.promises.by_class.values()
            if one.claim == "uid-next/main"
        ]
        assert (start.firm, start.at_ns) == (True, CREATED_NS + 30 * MINUTE_NS)
        await cluster.end("holder")
        await rests()
        assert controller.cluster.node_of("uid-next") == "n0"
        assert controller.cluster.node_of("uid-urgent") == ""
        assert cluster.counted() == (1, 0)
        assert all(word["claim"] != "uid-next/main" for word in cluster.told["open"])
        await end_task(life)

    on_virtual_time(run())


def test_a_start_that_a_dead_leader_did_not_count_is_counted_by_the_ledger_s_clock() -> None:
    async def run() -> None:
        cluster = await promised()
        before = dict(cluster.told)
        _, life = await cluster.lead()
        await cluster.end("holder")
        await rests()
        await end_task(life)
        assert cluster.counted() == (1, 0)
        cluster.api.objects[OBJECT]["status"]["starts"] = before  # it died before this was written
        cluster.now_ns += 60 * MINUTE_NS
        _, life = await cluster.lead()
        await rests()
        assert cluster.counted() == (1, 0)
        await end_task(life)
        _, life = await cluster.lead()
        await rests()
        assert cluster.counted() == (1, 0)
        await end_task(life)

    on_virtual_time(run())


def test_a_promise_whose_instant_passes_between_leaders_is_broken_once() -> None:
    async def run() -> None:
        cluster = await promised()
        cluster.now_ns += 32 * MINUTE_NS
        for _ in range(2):
            _, life = await cluster.lead()
            await rests()
            assert cluster.counted() == (0, 1)
            await end_task(life)

    on_virtual_time(run())


def test_nothing_comes_of_the_promise_of_a_pod_that_is_gone() -> None:
    async def run() -> None:
        cluster = await promised()
        del cluster.api.objects[f"{PODS}/next"]
        cluster.now_ns += 32 * MINUTE_NS
        _, life = await cluster.lead()
        await rests()
        assert (cluster.counted(), cluster.told["open"]) == ((0, 0), [])
        await end_task(life)

    on_virtual_time(run())


@pytest.mark.parametrize(
    "damage", [{"open": [{"claim": "a"}]}, {"sorts": {"promise": 3}}, {"tenths": [1]}, "no object"]
)
def test_words_that_cannot_be_read_are_left_and_counting_begins_anew(damage: Any) -> None:
    async def run() -> None:
        cluster = await promised()
        cluster.api.objects[OBJECT]["status"]["starts"] = damage
        controller, life = await cluster.lead()
        assert not life.done()
        assert controller.starts.book.count_outcomes(PROMISE) == (0, 0)
        assert [word["claim"] for word in cluster.told["open"]] == ["uid-next/main"]
        await end_task(life)

    on_virtual_time(run())


def test_a_leader_writes_nothing_while_no_word_changes_and_what_it_writes_fits_the_definition() -> (
    None
):
    async def run() -> None:
        cluster = await promised()
        _, life = await cluster.lead()
        writes = len([one for one in cluster.api.writes if OBJECT in one[2]])
        for number in range(20):
            cluster.put(f"more-{number}", 60)
            await asyncio.sleep(LONG)
        assert len([one for one in cluster.api.writes if OBJECT in one[2]]) <= writes + 1
        schema = pool_settings()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
        check(cluster.told, schema["status"]["properties"]["starts"])
        await end_task(life)

    on_virtual_time(run())


def test_what_was_counted_is_told_by_tenths_of_the_chance() -> None:
    book = StartForecasts(
        {PROMISE: ForecastTally(7, 1), "head normal hour": ForecastTally(3, 2)},
        tenths={(7, True): 2, (7, False): 1},
    )
    book.restore_forecasts([StartForecast(10, "a", "head normal hour", 95)])
    book.record_start("a", 5)
    found: dict[str, Metric] = {one.name: one for one in starts(book)}
    value = {
        (name, *one.labels.values()): one.value
        for name, metric in found.items()
        for one in metric.samples
    }
    assert value["gpupool_starts_promised", "kept"] == 7
    assert value["gpupool_starts_promised", "broken"] == 1
    assert value["gpupool_starts_estimated", "true"] == 4
    assert value["gpupool_starts_chance", "70", "true"] == 2
    assert value["gpupool_starts_chance", "70", "false"] == 1
    assert value["gpupool_starts_chance", "90", "true"] == 1
    assert value["gpupool_starts_chance", "0", "false"] == 0


def test_a_start_on_a_card_that_went_is_no_promise_any_more() -> None:
    key = ClassKey("nlp", 0, Shape(1000))
    cluster = Cluster()
    pool = PoolController(cluster.api, lambda: 0).cluster
    pool.promises.by_class = {
        key: PlannedStart(10, (5,), reserved=True, claim="a", firm=True, devices=("GPU-gone",))
    }
    assert pool.take_snapshot().previous_starts == {}


def promise(claim: str, cards: int, minutes: int) -> dict[ClassKey, PlannedStart]:
    """The start of one claim with so many cards, as a plan has it."""
    start = PlannedStart(
        minutes * MINUTE_NS,
        tuple(range(cards)),
        reserved=True,
        milli=(1000,) * cards,
        sizes=(80 * GIB,) * cards,
        claim=claim,
        firm=True,
        devices=tuple(f"GPU-{number:08x}-0000-0000-0000-000000000000" for number in range(cards)),
    )
    return {ClassKey(claim, 0, Shape(1000)): start}


def test_promises_of_more_cards_than_an_object_takes_are_counted() -> None:
    records = StartRecords(ClusterCache())
    starts = promise("team/huge", 9000, 1)
    for number in range(600):
        starts |= promise(f"uid-{number}/main", 8, 2 + number)
    records.note_plan(Plan(0, (), {}, starts=starts), 0)
    found = records.to_json()
    assert len(json.dumps(found)) < 600 * KIB
    assert len(found["open"]) + found["leftOut"] == 601
    huge, *others = found["open"]
    assert (huge["claim"], "kept" in huge) == ("team/huge", False)
    assert len(others) == 511
    assert sum("kept" not in word for word in found["open"]) == found["withoutCards"] == 1
    schema = pool_settings()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    check(found, schema["status"]["properties"]["starts"])


def test_a_new_leader_continues_from_records_that_left_out_cards() -> None:
    before = StartRecords(ClusterCache())
    starts = promise("team/huge", 9000, 1) | promise("uid-a/main", 1, 2)
    before.note_plan(Plan(0, (), {}, starts=starts), 0)
    after = StartRecords(ClusterCache())
    after.load(before.to_json(), ClusterCache().take_snapshot())
    assert after.book.has_open_promise("team/huge")
    assert after.book.has_open_promise("uid-a/main")
