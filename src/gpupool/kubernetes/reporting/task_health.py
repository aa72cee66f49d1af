"""Reports whether the threads and tasks of this process work, for `/healthz` and metrics
(docs/decisions/0014).
"""

from __future__ import annotations

from collections.abc import Iterable

from aiohttp import web
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gpupool.base.supervision import register


async def answer_health(_: web.Request) -> web.Response:
    """Whether every thread and task works; else which do not. The kubelet begins the container anew
    then."""
    found = [f"{one.name} {one.text}" for one in register.list_troubles()]
    return web.Response(text="; ".join(found or ["ok"]) + "\n", status=503 if found else 200)


class TaskMetrics(Collector):
    """Whether threads and tasks work, by the names that a server has for it."""

    def collect(self) -> Iterable[Metric]:
        text = "failures of supervised threads, each tried again"
        failures = CounterMetricFamily("gpupool_thread_failures", text, labels=["thread"])
        for name, count in sorted(register.count_failures().items()):
            failures.add_metric([name], count)
        yield failures
        text = "for how long a round of a thread or task takes more than it may"
        silent = GaugeMetricFamily("gpupool_thread_silent_seconds", text, labels=["thread"])
        longest = dict.fromkeys(register.list_names(), 0.0)
        for one in register.list_silent():
            longest[one.name] = max(longest.get(one.name, 0.0), one.seconds)
        for name, seconds in sorted(longest.items()):
            silent.add_metric([name], seconds)
        yield silent
