"""Which sentences are read of a plan: few of many, first those of pods that came, and each in
turn."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast
from unittest import mock

import pytest

from gpupool.base.units import GIB
from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.reporting.counters import ControllerCounters
from gpupool.kubernetes.reporting.events import EventWriter
from gpupool.kubernetes.resources.gpu_node import GpuNode
from gpupool.kubernetes.resources.node import NodeFacts
from gpupool.kubernetes.resources.pod import ContainerShape, Pod, read_pod
from gpupool.kubernetes.status.pod_conditions import READ_CLASSES, PodConditions
from gpupool.model.claim import Shape
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.engine.lazy_rejections import PoolAfterPlan
from gpupool.scheduling.snapshot.plan import Plan
from gpupool.scheduling.workspace.planning_state import PlanningState
from tests.support.kube_builders import gpu_node, node, pod

MANY = 3 * READ_CLASSES + 50
ONE = read_pod(pod())


class Api:
    """It takes every write."""

    async def patch(self, *_: Any) -> None:
        """Done."""


class Told:
    """Events that nobody reads."""

    def report_pod(self, *_: Any, **__: Any) -> None:
        """Noted."""


def waiting(number: int, kind: int) -> Pod:
    """One of its kind wants more memory than any card has left."""
    asks = (ContainerShape("main", Shape(900, 30 * GIB + kind)),)
    return replace(ONE, uid=f"uid-{number}", name=f"p{number}", asks=asks, created_ns=number)


@pytest.fixture
def pool() -> ClusterCache:
    """A node whose cards have no room, and very many kinds of pods."""
    made = ClusterCache()
    made.note_host("n0", NodeFacts.from_json(node()))
    full = GpuNode.from_json(gpu_node())
    made.note_ledger(
        "n0",
        replace(full, cards=tuple(replace(card, memory_bytes=20 * GIB) for card in full.cards)),
    )
    for number in range(MANY):
        made.note_pod(f"uid-{number}", waiting(number, number))
    return made


@pytest.fixture
def judged() -> Iterator[mock.Mock]:
    with mock.patch.object(
        PoolAfterPlan, "find_rejection", autospec=True, side_effect=PoolAfterPlan.find_rejection
    ) as judge:
        yield judge


def readings(pool: ClusterCache, count: int) -> Iterator[Mapping[str, str]]:
    """What is due after each plan, by pod."""
    board = PlanningState(pool.take_snapshot())
    reasons = PodConditions(cast(Any, Api()), ControllerCounters(), cast(EventWriter, Told()), pool)
    for _ in range(count):
        asyncio.run(_read(reasons, cycle(pool.take_snapshot(), 10**9, board=board)))
        yield {uid: sentence for uid, (_, _, sentence, _) in reasons._due.items()}


async def _read(reasons: PodConditions, plan: Plan) -> None:
    reasons._sort_out(plan, {}, more=False)


def test_a_reading_finds_so_many_sentences_and_the_next_one_goes_on(
    pool: ClusterCache, judged: mock.Mock
) -> None:
    due = list(readings(pool, 4))
    assert [len(one) for one in due] == [
        READ_CLASSES,
        2 * READ_CLASSES,
        3 * READ_CLASSES,
        MANY - 10,
    ]
    assert judged.call_count <= 4 * READ_CLASSES


def test_every_sentence_is_read_again_in_turn(pool: ClusterCache) -> None:
    assert len(list(readings(pool, 1 + -(-2 * MANY // READ_CLASSES)))[-1]) == MANY


def test_a_pod_that_comes_to_a_class_that_was_read_is_told_in_the_next_reading(
    pool: ClusterCache,
) -> None:
    each = readings(pool, 8)
    for _ in range(6):
        next(each)
    pool.note_pod("uid-late", replace(waiting(0, 0), uid="uid-late", name="late"))
    assert "uid-late" in next(each)


def test_the_pods_of_few_classes_are_told_by_each_plan(pool: ClusterCache) -> None:
    for number in range(READ_CLASSES, MANY):
        pool.note_pod(f"uid-{number}", None)
    assert [len(one) for one in readings(pool, 2)] == [READ_CLASSES, READ_CLASSES]
