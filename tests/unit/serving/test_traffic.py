"""What is counted of requests, and what the last minutes are told to be."""

from __future__ import annotations

import pytest

from gpupool.serving.traffic import (
    BOUNDS,
    BROKEN,
    BUSY,
    LEFT,
    RecentRequests,
    ServiceLabels,
    ServiceTraffic,
    estimate_quantile,
)

WEB = ServiceLabels("acme", "web")
CHAT = ServiceLabels("acme", "chat")


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def traffic(clock: Clock) -> ServiceTraffic:
    return ServiceTraffic(clock)


def test_a_service_without_requests_has_no_figures(traffic: ServiceTraffic) -> None:
    assert traffic.read_recent(WEB) is None


def test_the_last_minutes_have_a_rate_quantiles_and_errors(
    traffic: ServiceTraffic, clock: Clock
) -> None:
    clock.now += 600
    for outcome in ["2xx"] * 55 + ["4xx", LEFT, "5xx", BROKEN]:
        traffic.note_answer(WEB, outcome, 0.2)
    traffic.note_answer(WEB, "2xx", 8.0)
    traffic.note_answer(CHAT, "1xx", None)
    found = traffic.read_recent(WEB)
    assert found is not None
    assert (found.seconds, found.requests, found.errors) == (300, 60, 2)
    # 59 of 60 are between 0.1 and 0.25 s: the middle one is 30/59 of the way.
    assert found.p50_seconds == pytest.approx(0.1 + 0.15 * 30 / 59)
    assert found.p95_seconds == pytest.approx(0.1 + 0.15 * 57 / 59)
    assert traffic.read_recent(CHAT) == RecentRequests(300, 1, 0, None, None)


def test_what_is_older_than_five_minutes_counts_no_more(
    traffic: ServiceTraffic, clock: Clock
) -> None:
    traffic.note_answer(WEB, "5xx", 1.0)
    clock.now += 200
    traffic.note_answer(WEB, "2xx", 1.0)
    early = traffic.read_recent(WEB)
    assert early is not None
    assert (early.seconds, early.requests, early.errors) == (200, 2, 1)
    clock.now += 150
    later = traffic.read_recent(WEB)
    assert later is not None
    assert (later.requests, later.errors) == (1, 0)
    clock.now += 300
    assert traffic.read_recent(WEB) is None
    # The counters of Prometheus never fall.
    assert traffic.requests.read() == {(*WEB, "5xx"): 1, (*WEB, "2xx"): 1}


def test_a_service_that_is_gone_leaves_no_series(traffic: ServiceTraffic) -> None:
    for labels in (WEB, CHAT):
        traffic.note_answer(labels, "2xx", 1.0)
        traffic.note_cold_start(labels)
        traffic.note_reject(labels, BUSY)
    traffic.forget_others([CHAT])
    assert set(traffic.requests.read()) == {(*CHAT, "2xx")}
    assert set(traffic.seconds.read()) == {CHAT}
    assert set(traffic.cold_starts.read()) == {CHAT}
    assert set(traffic.rejects.read()) == {(*CHAT, BUSY)}
    assert traffic.read_recent(WEB) is None
    assert traffic.read_recent(CHAT) is not None


def test_a_quantile_above_all_bounds_is_the_last_bound() -> None:
    counts = [0] * len(BOUNDS) + [3]
    assert estimate_quantile(counts, 0.5) == BOUNDS[-1]
    assert estimate_quantile([0] * (len(BOUNDS) + 1), 0.5) is None
