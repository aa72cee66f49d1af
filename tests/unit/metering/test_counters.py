"""Counters lose nothing between threads, and writes are timed where they happen."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import pytest

from gpupool.model.claim import Rejection, RejectionReason
from gpupool.store.counters import (
    KINDS_A_READING,
    UNKNOWN,
    DecisionCounters,
    LabelCounter,
    SecondsHistogram,
    watch_writes,
)
from tests.support.metering_books import Pool


def test_counts_from_many_threads_all_arrive() -> None:
    counter, histogram = LabelCounter(), SecondsHistogram([0.1])

    def work() -> None:
        for _ in range(2000):
            counter.add(1, "a")
            histogram.observe(0.05, "a")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter.read() == {("a",): 8000}
    assert counter.total() == 8000
    assert histogram.read()[("a",)][0] == (8000, 0)


@pytest.mark.parametrize(
    ("seconds", "bucket"), [(0.0, 0), (0.1, 0), (0.10001, 1), (1.0, 1), (1.1, 2)]
)
def test_a_measured_time_falls_into_the_bucket_up_to_its_bound(seconds: float, bucket: int) -> None:
    histogram = SecondsHistogram([0.1, 1.0])
    histogram.observe(seconds)
    counts, total = histogram.read()[()]
    assert counts == tuple(int(place == bucket) for place in range(3))
    assert total == seconds


def test_a_cycle_counts_what_it_placed_and_why_the_rest_was_left() -> None:
    decisions = DecisionCounters()
    quota, memory = Rejection("…", RejectionReason.QUOTA), Rejection("…", RejectionReason.MEMORY)
    decisions.count_cycle(
        seconds=0.002, placements=3, judged={"a": quota, "b": memory, "c": memory}
    )
    decisions.count_cycle(seconds=0.001, placements=1, judged={"a": quota})
    decisions.count_conflict()
    assert (
        decisions.cycles.total(),
        decisions.placements.total(),
        decisions.conflicts.total(),
    ) == (2, 4, 1)
    assert decisions.rejections.read() == {
        (str(RejectionReason.QUOTA),): 2,
        (str(RejectionReason.MEMORY),): 2,
    }
    assert decisions.count_waiting_kinds() == {str(RejectionReason.QUOTA): 1}


class Lazy(dict[int, Rejection]):
    """Judges a kind when its rejection is read, and counts that."""

    read = 0

    def __getitem__(self, kind: int) -> Rejection:
        self.read += 1
        return super().__getitem__(kind)


def test_kinds_that_a_cycle_did_not_judge_keep_their_latest_reason() -> None:
    decisions = DecisionCounters()
    quota, memory = Rejection("…", RejectionReason.QUOTA), Rejection("…", RejectionReason.MEMORY)
    waiting = Lazy({1: memory, 2: memory})
    decisions.count_cycle(
        seconds=0.001,
        placements=0,
        judged={1: quota, 2: quota, 3: quota},
        left={1: quota, 2: quota},
    )
    decisions.count_cycle(seconds=0.001, placements=0, judged={2: memory}, left=waiting)
    assert decisions.count_waiting_kinds() == {
        str(RejectionReason.QUOTA): 1,
        str(RejectionReason.MEMORY): 1,
    }
    assert waiting.read == 0


def test_a_reading_judges_a_bounded_number_of_unknown_kinds_once() -> None:
    decisions = DecisionCounters()
    waiting = Lazy(
        {kind: Rejection("…", RejectionReason.MEMORY) for kind in range(KINDS_A_READING + 10)}
    )
    decisions.count_cycle(seconds=0.001, placements=0, judged={}, left=waiting)
    assert waiting.read == 0
    assert decisions.count_waiting_kinds() == {
        str(RejectionReason.MEMORY): KINDS_A_READING,
        UNKNOWN: 10,
    }
    assert decisions.count_waiting_kinds() == {str(RejectionReason.MEMORY): KINDS_A_READING + 10}
    assert waiting.read == KINDS_A_READING + 10


@dataclass
class Stopwatch:
    now: float = 0.0

    def __call__(self) -> float:
        self.now += 0.25
        return self.now


def test_transactions_that_write_are_timed_and_those_that_read_or_fail_are_not(pool: Pool) -> None:
    histogram = SecondsHistogram([0.3])
    watch_writes(pool.engine, histogram, Stopwatch())
    pool.metering.read_now_ns()
    with pytest.raises(ZeroDivisionError), pool.store.write() as write:
        raise ZeroDivisionError(write.now_ns)
    assert histogram.read() == {}
    pool.grant(0, 0, 100, 1)
    assert histogram.read() == {(): ((1, 0), 0.25)}
