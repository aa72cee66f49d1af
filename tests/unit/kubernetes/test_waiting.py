"""Which sentences are read of a plan: few of many, first those of pods that came, and each in turn."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast
from unittest import mock

import pytest

from gpupool.base.units import GIB
from gpupool.kubernetes.counts import Counts
from gpupool.kubernetes.events import Events
from gpupool.kubernetes.hosts import Host
from gpupool.kubernetes.objects import GpuNode
from gpupool.kubernetes.pods import Ask, Pod, read_pod
from gpupool.kubernetes.pool import Pool
from gpupool.kubernetes.waiting import READ_CLASSES, Reasons
from gpupool.model.claim import Shape
from gpupool.scheduling.board import Board
from gpupool.scheduling.cycle import cycle
from gpupool.scheduling.rejections import After
from gpupool.scheduling.snapshot import Plan
from tests.support.kube_builders import gpu_node, node, pod

MANY = 3 * READ_CLASSES + 50
ONE = read_pod(pod())


class Api:
    """It takes every write."""

    async def patch(self, *_: Any) -> None:
        """Done."""


class Told:
    """Events that nobody reads."""

    def pod(self, *_: Any, **__: Any) -> None:
        """Noted."""


def waiting(number: int, kind: int) -> Pod:
    """One of its kind wants more memory than any card has left."""
    asks = (Ask("main", Shape(900, 30 * GIB + kind)),)
    return replace(ONE, uid=f"uid-{number}", name=f"p{number}", asks=asks, created_ns=number)


@pytest.fixture
def pool() -> Pool:
    """A node whose cards have no room, and very many kinds of pods."""
    made = Pool()
    made.note_host("n0", Host.from_json(node()))
    full = GpuNode.from_json(gpu_node())
    made.note_ledger("n0", replace(full, cards=tuple(replace(card, memory_bytes=20 * GIB) for card in full.cards)))
    for number in range(MANY):
        made.note_pod(f"uid-{number}", waiting(number, number))
    return made


@pytest.fixture
def judged() -> Iterator[mock.Mock]:
    with mock.patch.object(After, "judge", autospec=True, side_effect=After.judge) as judge:
        yield judge


def readings(pool: Pool, count: int) -> Iterator[Mapping[str, str]]:
    """What is due after each plan, by pod."""
    board = Board(pool.snapshot())
    reasons = Reasons(cast(Any, Api()), Counts(), cast(Events, Told()), pool)
    for _ in range(count):
        asyncio.run(_read(reasons, cycle(pool.snapshot(), 10**9, board=board)))
        yield {uid: sentence for uid, (_, _, sentence, _) in reasons._due.items()}


async def _read(reasons: Reasons, plan: Plan) -> None:
    reasons._sort_out(plan, {}, more=False)


def test_a_reading_finds_so_many_sentences_and_the_next_one_goes_on(pool: Pool, judged: mock.Mock) -> None:
    due = list(readings(pool, 4))
    assert [len(one) for one in due] == [READ_CLASSES, 2 * READ_CLASSES, 3 * READ_CLASSES, MANY - 10]
    assert judged.call_count <= 4 * READ_CLASSES


def test_every_sentence_is_read_again_in_turn(pool: Pool) -> None:
    assert len(list(readings(pool, 1 + -(-2 * MANY // READ_CLASSES)))[-1]) == MANY


def test_a_pod_that_comes_to_a_class_that_was_read_is_told_in_the_next_reading(pool: Pool) -> None:
    each = readings(pool, 8)
    for _ in range(6):
        next(each)
    pool.note_pod("uid-late", replace(waiting(0, 0), uid="uid-late", name="late"))
    assert "uid-late" in next(each)


def test_the_pods_of_few_classes_are_told_by_each_plan(pool: Pool) -> None:
    for number in range(READ_CLASSES, MANY):
        pool.note_pod(f"uid-{number}", None)
    assert [len(one) for one in readings(pool, 2)] == [READ_CLASSES, READ_CLASSES]
