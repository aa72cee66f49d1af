"""`/healthz`, `/readyz` and `/metrics` of a part that runs in a cluster, on plain HTTP beside its
work."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import fields

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from gpupool.base.errors import BadOption
from gpupool.kubernetes.client.leader_election import LeaseCandidate
from gpupool.kubernetes.controller.controller import PoolController
from gpupool.kubernetes.reporting.counters import ControllerCounters
from gpupool.kubernetes.reporting.task_health import TaskMetrics, answer_health
from gpupool.scheduling import ESTIMATE, PROMISE, StartForecasts

log = logging.getLogger(__name__)


@asynccontextmanager
async def serving(
    listen: str, collector: Collector, sentence: Callable[[], str] = lambda: "ok"
) -> AsyncIterator[str]:
    """Answers as long as the block runs, at the address that it gives; `sentence` is what readiness
    says.

    The collector may block. Raises BadOption.
    """
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdigit():
        raise BadOption(f"--listen {listen!r} is not HOST:PORT", hint="--listen 0.0.0.0:8080")
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    registry.register(TaskMetrics())

    async def metrics(_: web.Request) -> web.Response:
        body = await asyncio.to_thread(generate_latest, registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def ready(_: web.Request) -> web.Response:
        return web.Response(text=f"{sentence()}\n")

    app = web.Application()
    app.add_routes(
        [
            web.get("/healthz", answer_health),
            web.get("/readyz", ready),
            web.get("/metrics", metrics),
        ]
    )
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, int(port))
        await site.start()
        address = "{}:{}".format(*runner.addresses[0][:2])
        log.info("metrics at http://%s/metrics", address)
        yield address
    finally:
        await runner.cleanup()


class Health(Collector):
    """State and metrics of a controller, read when they are requested.

    `controller` is set while this replica leads, `leader` if there are several replicas.
    """

    def __init__(self) -> None:
        self.controller: PoolController | None = None
        self.leader: LeaseCandidate | None = None

    def sentence(self) -> str:
        """Return whether this replica leads, or which one does."""
        if self.controller is not None:
            return "ok: it leads"
        holder = self.leader.holder if self.leader else ""
        return f"ok: it stands by, {holder or 'nobody'} leads"

    def collect(self) -> Iterable[Metric]:
        controller = self.controller
        leads = GaugeMetricFamily("gpupool_controller_leads", "1 where this replica places pods")
        leads.add_metric([], 0 if controller is None else 1)
        yield leads
        if self.leader is not None:
            holder = GaugeMetricFamily(
                "gpupool_controller_leader_info",
                "who leads, as this replica sees it",
                labels=["holder"],
            )
            holder.add_metric([self.leader.holder], 1)
            yield holder
        if controller is None:
            return
        for one in fields(ControllerCounters):
            yield CounterMetricFamily(
                f"gpupool_controller_{one.name}",
                one.metadata["said"],
                value=getattr(controller.counts, one.name),
            )
        waits = CounterMetricFamily(
            "gpupool_controller_wait_seconds",
            "what released pods waited, summed: until a cycle placed them, for its ledgers, for the release's answer",
            labels=["part"],
        )
        for part, seconds in controller.wait_stages.seconds.items():
            waits.add_metric([part], seconds)
        yield waits
        yield from starts(controller.starts.book)
        waiting = GaugeMetricFamily("gpupool_controller_waiting_pods", "managed pods without cards")
        waiting.add_metric([], len(controller.cluster.queue))
        yield waiting


def starts(book: StartForecasts) -> Iterable[Metric]:
    """What came of the starts that pods were told; the names are those of a pool on one machine."""
    kept, broken = book.count_outcomes(PROMISE)
    promised = CounterMetricFamily(
        "gpupool_starts_promised",
        "promised starts of claims, by what came of them",
        labels=["outcome"],
    )
    promised.add_metric(["kept"], kept)
    promised.add_metric(["broken"], broken)
    yield promised
    true, false = book.count_outcomes(ESTIMATE)
    estimated = CounterMetricFamily(
        "gpupool_starts_estimated",
        "starts told as estimates, by whether these came true",
        labels=["outcome"],
    )
    estimated.add_metric(["true"], true)
    estimated.add_metric(["false"], false)
    yield estimated
    chances = CounterMetricFamily(
        "gpupool_starts_chance",
        "estimates told with a chance, by that chance (70: 70 to 79 of 100) and by whether they came true",
        labels=["chance", "outcome"],
    )
    for tenth in range(10):
        chances.add_metric([str(10 * tenth), "true"], book.tenths[tenth, True])
        chances.add_metric([str(10 * tenth), "false"], book.tenths[tenth, False])
    yield chances
