"""What the server counts about itself: sums by labels, buckets of seconds, reasons of waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest
import sqlalchemy as sa

from gpupool.store import counters
from gpupool.store.counters import (
    UNKNOWN,
    DecisionCounters,
    LabelCounter,
    RequestCounters,
    SecondsHistogram,
    watch_writes,
)


@dataclass(frozen=True)
class Judged:
    dominant: str


def judged(reason: str, *kinds: str) -> dict[str, Judged]:
    return dict.fromkeys(kinds, Judged(reason))


def count_cycle(
    decisions: DecisionCounters, found: Mapping[str, Judged], left: Mapping[str, Judged]
) -> None:
    decisions.count_cycle(seconds=0.002, placements=3, judged=found, left=left)


def test_a_label_counter_sums_by_labels() -> None:
    counter = LabelCounter()
    counter.add()
    counter.add(2, "a")
    counter.add(3, "a")
    assert (counter.read(), counter.total()) == ({(): 1, ("a",): 5}, 6)


def test_a_histogram_counts_a_bound_into_its_own_bucket() -> None:
    histogram = SecondsHistogram((0.1, 1.0))
    for seconds in (0.1, 0.11, 1.0, 1.5):
        histogram.observe(seconds, "GET")
    assert histogram.read() == {("GET",): ((1, 2, 1), pytest.approx(2.71))}


def test_kinds_that_wait_keep_the_reason_of_the_latest_judgement() -> None:
    decisions = DecisionCounters()
    count_cycle(decisions, judged("busy", "a", "b"), judged("busy", "a", "b"))
    count_cycle(decisions, judged("quota", "a"), judged("quota", "a", "b"))
    assert decisions.count_waiting_kinds() == {"quota": 1, "busy": 1}
    assert decisions.rejections.read() == {("busy",): 2, ("quota",): 1}
    assert (decisions.cycles.total(), decisions.placements.total()) == (2, 6)


def test_a_reading_judges_a_bounded_number_of_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "KINDS_A_READING", 2)
    decisions = DecisionCounters()
    count_cycle(decisions, {}, judged("busy", "a", "b", "c"))
    assert decisions.count_waiting_kinds() == {"busy": 2, UNKNOWN: 1}
    assert decisions.count_waiting_kinds() == {"busy": 3}


def test_reasons_of_kinds_that_wait_no_longer_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(counters, "KINDS_REMEMBERED", 2)
    decisions = DecisionCounters()
    count_cycle(decisions, judged("busy", "a", "b"), judged("busy", "a", "b"))
    assert set(decisions._reasons) == {"a", "b"}
    count_cycle(decisions, judged("busy", "c"), judged("busy", "b", "c"))
    assert set(decisions._reasons) == {"b", "c"}


def test_an_answer_is_counted_by_route_and_timed_without_its_status() -> None:
    requests = RequestCounters()
    requests.count_answer("/jobs/{job}", "GET", 200, 0.5)
    requests.count_answer("/jobs/{job}", "GET", 404, 0.25)
    assert requests.count.read() == {
        ("/jobs/{job}", "GET", "200"): 1,
        ("/jobs/{job}", "GET", "404"): 1,
    }
    assert requests.seconds.read()[("/jobs/{job}", "GET")][1] == 0.75


def test_only_transactions_that_commit_are_timed() -> None:
    engine = sa.create_engine("sqlite://")
    # Two at the commit: the second is the default for a transaction whose begin was not seen.
    now = iter([10.0, 10.5, 0.0, 20.0])
    histogram = SecondsHistogram((1.0,))
    watch_writes(engine, histogram, lambda: next(now))
    with engine.begin() as connection:
        connection.execute(sa.text("SELECT 1"))
    with engine.connect() as connection:
        connection.execute(sa.text("SELECT 1"))
        connection.rollback()
    assert histogram.read() == {(): ((1, 0), 0.5)}
