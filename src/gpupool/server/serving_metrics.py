"""What /metrics says of services: their requests, their replicas, and what the pool refused.

Counters are those of the server since it started; a series of a known service begins at 0, so that
`increase()` sees the first error. The label is `service_name`: `service` is that of alert rules and
of the Prometheus operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gpupool.server.metric_families import make_gauges, make_histogram
from gpupool.serving.replicas import DRAINING, READY, STARTING, WANTED
from gpupool.serving.standings import ServiceStanding
from gpupool.serving.traffic import OUTCOMES, REJECTS, ServiceTraffic
from gpupool.store.counters import LabelCounter

SERVICE: Final = ("tenant", "service_name")
#: Of replicas that have not ended.
STATES: Final = (WANTED, STARTING, READY, DRAINING)
#: After `gpupool_service_`.
SERVICE_GAUGES: Mapping[str, tuple[str, Callable[[ServiceStanding], float | None]]] = {
    "in_flight": (
        "Requests under way or waiting for a replica, with open WebSockets.",
        lambda one: one.in_flight,
    ),
    "waiting": ("Requests that wait for a healthy replica.", lambda one: one.waiting),
    "desired_replicas": ("Replicas that the service should have now.", lambda one: one.desired),
    "min_replicas": ("Replicas that it has at least.", lambda one: one.least),
    "max_replicas": ("Replicas that it may have at most.", lambda one: one.most),
}


class ServingMetrics(Collector):
    """Services of one pool."""

    def __init__(self, standings: Iterable[ServiceStanding], traffic: ServiceTraffic) -> None:
        self._standings = tuple(standings)
        self._traffic = traffic

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        things = [([*one.labels], one) for one in self._standings]
        yield from make_gauges("service", SERVICE, SERVICE_GAUGES, things)
        text = "Replicas of the service, by state."
        replicas = GaugeMetricFamily("gpupool_service_replicas", text, labels=[*SERVICE, "state"])
        for one in self._standings:
            for state in STATES:
                replicas.add_metric([*one.labels, state], one.replicas.get(state, 0))
        yield replicas
        text = "Requests by class of status; 1xx: WebSockets, broken: the answer broke off."
        yield self._count("requests", text, "status", OUTCOMES, self._traffic.requests)
        text = "Requests that the pool answered in the replicas' place, by reason."
        yield self._count("rejects", text, "reason", REJECTS, self._traffic.rejects)
        text = "Times that a request found no healthy replica and waited for the first one."
        yield self._count("cold_starts", text, "", [""], self._traffic.cold_starts)
        yield make_histogram(
            "gpupool_service_request_seconds",
            "Time until the end of the answer, without WebSockets.",
            SERVICE,
            self._traffic.seconds,
        )

    def _count(
        self, name: str, text: str, label: str, values: Sequence[str], counter: LabelCounter
    ) -> Metric:
        """Make a counter with a series for each value of its label, or without that label."""
        labels = (*SERVICE, label) if label else SERVICE
        family = CounterMetricFamily(f"gpupool_service_{name}", text, labels=labels)
        sums = counter.read()
        for one in self._standings:
            for value in values:
                key = (*one.labels, value) if label else (*one.labels,)
                family.add_metric(key, sums.get(key, 0))
        return family
