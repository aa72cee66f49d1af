"""The timeline of an allocation, in memory that its processes share: what overlaps counts once,
whoever adds it."""

from __future__ import annotations

import ctypes
import mmap
import multiprocessing
import os
import random
import signal
from collections.abc import Iterable
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from gpupool.mechanisms import regions
from tests.unit.native.fence_build import shared
from tests.unit.native.fence_share import SRC, compile_c

BIT = 512
"""Nanoseconds that are the shortest to be told apart."""
BYTES = 8 * (regions.FINE_WORDS + regions.COARSE_WORDS)
MS, SECOND = 10**6, 10**9
BEGIN = 5000 * SECOND
REACH = 100 * MS
"""The fine ring holds 134 ms."""


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def build(made: Path) -> None:
        compile_c(made / "timeline.so", [SRC / "limiter/timeline.c"], "-fPIC", "-shared", "-O2")

    return shared(tmp_path_factory, "fence-timeline", build) / "timeline.so"


class Timeline:
    """One card's, in `memory`, which may be other processes' too."""

    def __init__(self, built: Path, memory: ctypes.Array[ctypes.c_char] | mmap.mmap) -> None:
        self._add = ctypes.CDLL(str(built)).timeline_add
        self._add.restype = ctypes.c_uint64
        self._memory = (ctypes.c_char * BYTES).from_buffer(memory)

    def add(self, begin: int, end: int, now: int | None = None) -> int:
        """How much of the interval was not there yet."""
        words = (ctypes.c_uint64(each) for each in (begin, end, end if now is None else now))
        fresh = self._add(self._memory, *words)
        assert isinstance(fresh, int)
        return fresh


@pytest.fixture
def timeline(built: Path) -> Timeline:
    return Timeline(built, ctypes.create_string_buffer(BYTES))


def intervals(seed: int, count: int) -> list[tuple[int, int]]:
    """Of any length up to 5 ms, anywhere in what the fine ring reaches; whole bits, so that nothing
    is rounded."""
    chance = random.Random(seed)
    found = []
    for _ in range(count):
        begin = BEGIN // BIT + chance.randrange(REACH // BIT)
        found.append((begin * BIT, (begin + round(10 ** chance.uniform(0, 4))) * BIT))
    return found


def together(pieces: Iterable[tuple[int, int]]) -> int:
    """Length of the union."""
    total = last = 0
    for begin, end in sorted(pieces):
        total += max(0, end - max(begin, last))
        last = max(last, end)
    return total


@pytest.mark.parametrize("seed", range(5))
def test_intervals_in_any_order_count_as_long_as_their_union(timeline: Timeline, seed: int) -> None:
    pieces = intervals(seed, 400)
    now = BEGIN + REACH + 10 * MS
    assert sum(timeline.add(begin, end, now) for begin, end in pieces) == together(pieces)
    assert sum(timeline.add(begin, end, now) for begin, end in pieces) == 0


def test_a_ring_that_went_round_remembers_nothing_of_its_last_round(timeline: Timeline) -> None:
    for turn in range(5):
        begin = BEGIN + turn * (BIT * 32 * regions.FINE_WORDS)
        assert timeline.add(begin, begin + 50 * MS) == pytest.approx(50 * MS, abs=BIT)


def test_long_work_of_two_processes_that_was_sliced_counts_once(timeline: Timeline) -> None:
    assert timeline.add(BEGIN, BEGIN + 20 * SECOND) == pytest.approx(20 * SECOND, abs=BIT)
    assert timeline.add(BEGIN + SECOND, BEGIN + 21 * SECOND) == pytest.approx(SECOND, rel=0.02)


def test_work_longer_than_is_believed_counts_as_the_longest_that_is(timeline: Timeline) -> None:
    assert timeline.add(0, BEGIN) == pytest.approx(60 * SECOND, abs=BIT)
    assert timeline.add(BEGIN, BEGIN) == timeline.add(BEGIN + MS, BEGIN) == 0


def test_what_is_shorter_than_a_bit_counts_as_often_as_its_length_says(timeline: Timeline) -> None:
    chance = random.Random(1)
    moments = [BEGIN + 5_000 * number + chance.randrange(BIT) for number in range(20_000)]
    had = sum(timeline.add(begin, begin + 300) for begin in moments)
    assert had == pytest.approx(300 * len(moments), rel=0.03)


@pytest.mark.parametrize("seed", range(5))
def test_a_page_of_nonsense_yields_between_nothing_and_all(built: Path, seed: int) -> None:
    page = ctypes.create_string_buffer(random.Random(seed).randbytes(BYTES), BYTES)
    timeline = Timeline(built, page)
    for begin, end in [*intervals(seed, 100), (BEGIN, BEGIN + 30 * SECOND)]:
        assert 0 <= timeline.add(begin, end) <= end - begin


def add_all(built: Path, memory: mmap.mmap, seed: int, answer: Connection) -> None:
    timeline = Timeline(built, memory)
    now = BEGIN + REACH + 10 * MS
    answer.send(sum(timeline.add(begin, end, now) for begin, end in intervals(seed, 5_000)))


def add_for_ever(built: Path, memory: mmap.mmap, answer: Connection) -> None:
    timeline = Timeline(built, memory)
    answer.send(0)
    while True:
        timeline.add(BEGIN, BEGIN + REACH)


def test_processes_that_add_at_once_count_every_moment_once(built: Path) -> None:
    memory, context = mmap.mmap(-1, BYTES), multiprocessing.get_context("fork")
    pipes = [context.Pipe(duplex=False) for _ in range(4)]
    for seed, (_, answer) in enumerate(pipes):
        context.Process(target=add_all, args=(built, memory, seed, answer), daemon=True).start()
    pieces = [piece for seed in range(4) for piece in intervals(seed, 5_000)]
    assert sum(ours.recv() for ours, _ in pipes) == together(pieces)


def test_a_process_killed_while_it_adds_stops_nobody(built: Path) -> None:
    memory, context = mmap.mmap(-1, BYTES), multiprocessing.get_context("fork")
    ours, answer = context.Pipe(duplex=False)
    child = context.Process(target=add_for_ever, args=(built, memory, answer), daemon=True)
    child.start()
    ours.recv()
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    later = BEGIN + 10 * SECOND
    assert Timeline(built, memory).add(later, later + 50 * MS) == pytest.approx(50 * MS, abs=BIT)
