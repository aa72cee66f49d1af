"""What /metrics says of the server's own process: threads, checks, lease, decisions, requests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from gpupool.base.health import HealthChecks
from gpupool.base.supervision import register
from gpupool.server.metric_families import make_counter, make_histogram
from gpupool.store import counters
from gpupool.store.leadership import LeaderLease


class HealthMetrics(Collector):
    """Whether the server's parts work: its threads and tasks, and what its checks find."""

    def __init__(self, checks: HealthChecks) -> None:
        self._checks = checks

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        text = "Failures of supervised threads and tasks, each tried again."
        failures = CounterMetricFamily("gpupool_thread_failures", text, labels=["thread"])
        for name, count in sorted(register.count_failures().items()):
            failures.add_metric([name], count)
        yield failures
        text = "For how long a round of a supervised thread or task takes more than it may."
        silent = GaugeMetricFamily("gpupool_thread_silent_seconds", text, labels=["thread"])
        longest = dict.fromkeys(register.list_names(), 0.0)
        for silence in register.list_silent():
            longest[silence.name] = max(longest.get(silence.name, 0.0), silence.seconds)
        for name, seconds in sorted(longest.items()):
            silent.add_metric([name], seconds)
        yield silent
        state = GaugeMetricFamily(
            "gpupool_check", "1 for the state that a check found.", labels=["check", "state"]
        )
        for name, found in self._checks.run_all().items():
            # One series per state, 1 for the present one: an alert needs no mapping of numbers.
            for one in ("ok", "warn", "fail"):
                state.add_metric([name, one], one == found.state)
        yield state


def collect_lease(leading: LeaderLease | None) -> Iterator[Metric]:
    """Yield the lease; nothing on SQLite, where one server holds the file."""
    age = None if leading is None else leading.age_seconds()
    if leading is None or age is None:
        return
    text = "Takeovers of the pool by a server so far: the number of the one that leads."
    yield GaugeMetricFamily("gpupool_leader_number", text, leading.number)
    yield GaugeMetricFamily(
        "gpupool_lease_age_seconds", "Since the leader's lease was renewed.", age
    )
    text = "The longest time between two renewals of this leader; beyond the lease's length another may lead."
    yield GaugeMetricFamily("gpupool_lease_longest_gap_seconds", text, leading.longest_gap_seconds)


def collect_decisions() -> Iterator[Metric]:
    """Yield what the scheduler decided since the server started."""
    decisions = counters.decisions
    told: tuple[tuple[str, str, counters.LabelCounter, tuple[str, ...]], ...] = (
        ("cycles", "Scheduling cycles since the server started.", decisions.cycles, ()),
        ("placements", "Claims that cycles placed.", decisions.placements, ()),
        ("conflicts", "Plans that were stale when they were written.", decisions.conflicts, ()),
        (
            "policy_failures",
            "Exceptions of a placement policy, each answered by a simpler one in its stead.",
            decisions.policy_failures,
            ("policy",),
        ),
        (
            "rejections",
            "Kinds of claims that a cycle judged and left waiting, by reason.",
            decisions.rejections,
            ("reason",),
        ),
    )
    for name, text, counter, labels in told:
        yield make_counter(f"gpupool_scheduler_{name}", text, labels, counter)
    yield make_histogram(
        "gpupool_scheduler_cycle_seconds", "Time of one scheduling cycle.", (), decisions.seconds
    )


def collect_findings(tenants: Mapping[str, str]) -> Metric:
    """Return what agents found past fences since the server started.

    Args:
        tenants: names by row id, of those that are shown.
    """
    text = "What was found past the fences of the tenant's jobs, by kind (docs/concepts/fence.md)."
    family = CounterMetricFamily("gpupool_fence_findings", text, labels=["tenant", "kind"])
    for (tenant_id, kind), count in sorted(counters.findings.read().items()):
        if tenant_id in tenants:
            family.add_metric([tenants[tenant_id], kind], count)
    return family


def collect_requests() -> Iterator[Metric]:
    """Yield the requests that were answered, and their time until the answer began."""
    requests = counters.requests
    count = make_counter(
        "gpupool_api_requests", "Requests answered.", ("route", "method", "status"), requests.count
    )
    yield count
    text = "Time until the answer began; long polls wait on purpose."
    yield make_histogram("gpupool_api_request_seconds", text, ("route", "method"), requests.seconds)
