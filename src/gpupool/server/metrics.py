"""/metrics: what the pool is and does now, for Prometheus.

Reads the database, the fleet's latest samples and the process's counters at the moment of
a scrape; keeps nothing. The names are a contract, frozen by tests/golden/metrics_names.txt.
Labels are few: cards, models, tenants, services, reasons, routes; never jobs or users. A hardware
figure that is not known is absent, never 0.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated

import sqlalchemy as sa
from fastapi import Depends, Request
from fastapi.responses import Response
from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from gpupool import __version__
from gpupool.allocations.store.tables import NOT_MADE, arrays, jobs
from gpupool.api.late_routes import Router
from gpupool.base.health import HealthChecks
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.fleet.service import FleetService
from gpupool.fleet.tables import devices, nodes
from gpupool.metering.samples import LatestSample
from gpupool.metering.service import MeteringService
from gpupool.metering.starts import read_starts
from gpupool.metering.tables import intervals
from gpupool.model.device import DeviceState
from gpupool.model.job import LIVE, JobState
from gpupool.model.tenant import Permission, Principal
from gpupool.server.energy_metrics import collect_energy
from gpupool.server.fleet_metrics import collect_card_states, collect_nodes, label_card
from gpupool.server.metric_definitions import (
    CARD,
    CARD_GAUGES,
    HARDWARE_GAUGES,
    MODEL_GAUGES,
    SHARE,
    SHARE_COUNTERS,
    SHARE_GAUGES,
)
from gpupool.server.metric_families import make_gauges, make_histogram
from gpupool.server.money_metrics import MoneyMetrics
from gpupool.server.process_metrics import (
    HealthMetrics,
    collect_decisions,
    collect_findings,
    collect_lease,
    collect_requests,
)
from gpupool.server.serving_metrics import ServingMetrics
from gpupool.serving.standings import read_standings
from gpupool.serving.traffic import ServiceTraffic
from gpupool.store import counters
from gpupool.store.database import Store
from gpupool.store.tables import pool
from gpupool.tenancy.access import require_caller
from gpupool.tenancy.tables import tenants
from gpupool.wire.capacity import CapacityOut
from gpupool.wire.samples import CardUse

router = Router(tags=["metering"])

_NOT_MADE = NOT_MADE.add_columns(sa.func.min(arrays.c.submitted_ns))
# As the partial index on live jobs is written, so that it is used.
_LIVE_JOBS = sa.text("state IN ('pending', 'starting', 'running')")


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
def get_metrics(
    request: Request, _caller: Annotated[Principal, Depends(require_caller(Permission.SCRAPE))]
) -> Response:
    """Metrics in Prometheus' text format; for tokens of the role scrape, and for admins."""
    state = request.app.state
    return build_metrics(
        state.store,
        state.fleet,
        state.metering,
        state.allocations.quotas.describe_capacity(),
        state.checks,
        MoneyMetrics(state.billing.latest_hour.value, state.allocations.budget_watch.standings),
        ServingMetrics(
            read_standings(state.store, state.serving.controller.load),
            state.serving.controller.traffic,
        ),
    )


def build_metrics(
    store: Store,
    fleet: FleetService,
    metering: MeteringService,
    capacity: CapacityOut,
    checks: HealthChecks | None = None,
    money: MoneyMetrics | None = None,
    serving: ServingMetrics | None = None,
) -> Response:
    """Build the answer to one scrape."""
    # Of this scrape alone. describe() would collect once more, only to find names that are known.
    registry = CollectorRegistry(auto_describe=False)
    registry.register(PoolMetrics(store, fleet, metering, capacity))
    registry.register(HealthMetrics(checks or HealthChecks()))
    registry.register(money or MoneyMetrics(None, ()))
    registry.register(serving or ServingMetrics((), ServiceTraffic()))
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


class PoolMetrics(Collector):
    """Everything that is told of a pool; reads anew at each collection."""

    def __init__(
        self, store: Store, fleet: FleetService, metering: MeteringService, capacity: CapacityOut
    ) -> None:
        self._store = store
        self._fleet = fleet
        self._metering = metering
        self._capacity = capacity

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        with self._store.read() as connection:
            yield from self._collect_pool(connection)
            yield from self._collect_cards(connection)
            yield from self._collect_tenants(connection)
            yield from self._collect_queue(connection)
            yield from _collect_starts(connection)
        yield from _collect_capacity(self._capacity)
        yield from collect_decisions()
        yield from collect_requests()

    def _collect_pool(self, connection: sa.Connection) -> Iterator[Metric]:
        yield InfoMetricFamily("gpupool_build", "The running version.", {"version": __version__})
        events = connection.execute(sa.select(pool.c.event_seq)).scalar_one()
        yield CounterMetricFamily("gpupool_events", "Events in the log so far.", events)
        ahead = self._store.clock.ahead_ns() / NANOS_PER_SECOND
        yield GaugeMetricFamily(
            "gpupool_ledger_ahead_seconds",
            "How far the ledger's clock is ahead of the wall clock.",
            ahead,
        )
        yield from collect_lease(self._store.leading)
        yield make_histogram(
            "gpupool_store_write_seconds", "Time of transactions that wrote.", (), counters.writes
        )

    def _collect_cards(self, connection: sa.Connection) -> Iterator[Metric]:
        yield from collect_nodes(connection, self._fleet.list_silent_nodes())
        query = sa.select(devices, nodes.c.name.label("node")).join(
            nodes, nodes.c.id == devices.c.node_id
        )
        rows = connection.execute(query.order_by(devices.c.node_id, devices.c.idx)).all()
        yield from collect_card_states(rows)
        present = [row for row in rows if row.state != DeviceState.LOST]
        seen = []
        for row in present:
            sample = self._fleet.get_usage(row.uuid)
            if sample is not None:
                seen.append((label_card(row), sample.usage))
        yield from make_gauges(
            "card", CARD, CARD_GAUGES, [(label_card(row), row) for row in present]
        )
        yield from make_gauges("card", CARD, HARDWARE_GAUGES, seen)
        yield from self._collect_shares(connection, {row.uuid: label_card(row) for row in present})

    def _collect_shares(
        self, connection: sa.Connection, cards: Mapping[str, list[str]]
    ) -> Iterator[Metric]:
        """Yield what fences say, by card and tenant.

        A tenant without a fenced job on a card is absent there.
        """
        now = _group_by_share(self._metering.get_latest_samples(), _read_holders(connection))
        for name, (text, read) in SHARE_GAUGES.items():
            gauge = GaugeMetricFamily(f"gpupool_share_{name}", text, labels=SHARE)
            for (tenant, uuid), uses in now.items():
                known = [value for use in uses if (value := read(use)) is not None]
                if known and uuid in cards:
                    gauge.add_metric([*cards[uuid], tenant], sum(known))
            yield gauge
        sums = self._metering.get_fence_sums()
        for name, (text, field, unit) in SHARE_COUNTERS.items():
            counter = CounterMetricFamily(f"gpupool_share_{name}", text, labels=SHARE)
            for (tenant, uuid), values in sums.items():
                if uuid in cards:
                    counter.add_metric([*cards[uuid], tenant], values[field] / unit)
            yield counter

    def _collect_tenants(self, connection: sa.Connection) -> Iterator[Metric]:
        # A deleted tenant is told until the last of its seats is given back.
        living = sa.or_(
            tenants.c.retired_ns.is_(None),
            tenants.c.held_milli > 0,
            tenants.c.held_memory_bytes > 0,
        )
        rows = connection.execute(sa.select(tenants).where(living).order_by(tenants.c.name)).all()
        milli = GaugeMetricFamily(
            "gpupool_tenant_held_milli", "Thousandths of cards that are held.", labels=["tenant"]
        )
        size = GaugeMetricFamily(
            "gpupool_tenant_held_bytes", "Card memory that is held.", labels=["tenant"]
        )
        for row in rows:
            milli.add_metric([row.name], row.held_milli)
            size.add_metric([row.name], row.held_memory_bytes)
        yield milli
        yield size
        yield collect_findings({str(row.id): row.name for row in rows})
        drawn = self._metering.energy.get_millijoules()
        yield collect_energy(drawn, {row.id: row.name for row in rows})

    def _collect_queue(self, connection: sa.Connection) -> Iterator[Metric]:
        query = sa.select(jobs.c.state, sa.func.count(), sa.func.min(jobs.c.submitted_ns)).where(
            _LIVE_JOBS
        )
        live = {}
        for state, count, oldest in connection.execute(query.group_by(jobs.c.state)):
            live[state] = (count, oldest)
        unmade, since = connection.execute(_NOT_MADE).one()
        if unmade:
            count, oldest = live.get(JobState.PENDING, (0, since))
            live[JobState.PENDING] = (count + unmade, min(oldest, since))
        gauge = GaugeMetricFamily(
            "gpupool_jobs", "Jobs that have not ended, by state.", labels=["state"]
        )
        # Every state, also those without a job: a series that vanishes cannot be compared with 0.
        for state in sorted(LIVE):
            gauge.add_metric([str(state)], live.get(state, (0, 0))[0])
        yield gauge
        waiting, oldest = live.get(JobState.PENDING, (0, None))
        age = max(0, self._store.clock.now_ns() - oldest) / NANOS_PER_SECOND if waiting else 0
        yield GaugeMetricFamily(
            "gpupool_queue_oldest_seconds", "How long the oldest waiting job has waited.", age
        )
        why = GaugeMetricFamily(
            "gpupool_queue_kinds",
            "Kinds of waiting claims, by the reason of the latest cycle that judged them.",
            labels=["reason"],
        )
        for reason, count in counters.decisions.count_waiting_kinds().items() if waiting else ():
            why.add_metric([reason], count)
        yield why


def _collect_starts(connection: sa.Connection) -> Iterator[Metric]:
    """Yield what came of the starts that claims were told."""
    found = read_starts(connection)
    text = "Promised starts of claims, by what came of them."
    promised = CounterMetricFamily("gpupool_starts_promised", text, labels=["outcome"])
    promised.add_metric(["kept"], found.promises_kept)
    promised.add_metric(["broken"], found.promises_broken)
    yield promised
    text = "Starts that claims were told as estimates, by whether these came true."
    estimated = CounterMetricFamily("gpupool_starts_estimated", text, labels=["outcome"])
    estimated.add_metric(["true"], found.estimates_true)
    estimated.add_metric(["false"], found.estimates_false)
    yield estimated


def _collect_capacity(capacity: CapacityOut) -> Iterator[Metric]:
    yield from make_gauges(
        "model", ["model"], MODEL_GAUGES, [([room.model], room) for room in capacity.models]
    )
    text = "Of the node, free and of no use to an expected claim, on average."
    fragments = GaugeMetricFamily("gpupool_node_fragment_milli", text, labels=["node"])
    for node in capacity.nodes:
        if node.fragment_milli is not None:
            fragments.add_metric([node.node], node.fragment_milli)
    yield fragments
    yield from _collect_idle(capacity)


def _collect_idle(capacity: CapacityOut) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "gpupool_suspend_factor",
        "Running and idle-suspended shares have at most so many times their card's memory.",
        capacity.suspend_factor,
    )
    text = "Memory of shares that were suspended while idle."
    suspended = GaugeMetricFamily("gpupool_idle_suspended_bytes", text, labels=["card"])
    text = "Jobs that were suspended while idle and want to work again."
    wanted = GaugeMetricFamily("gpupool_idle_woken_jobs", text, labels=["card"])
    for room in capacity.idle:
        suspended.add_metric([room.card], room.suspended_bytes)
        wanted.add_metric([room.card], room.wanted)
    yield suspended
    yield wanted


def _read_holders(connection: sa.Connection) -> dict[str, str]:
    """Return the tenant of every job that holds a share now, by the job's public id."""
    holds = jobs.c.id.in_(sa.select(intervals.c.job_id).where(intervals.c.end_s.is_(None)))
    query = (
        sa.select(jobs.c.public_id, tenants.c.name)
        .join(tenants, tenants.c.id == jobs.c.tenant_id)
        .where(holds)
    )
    return {row.public_id: row.name for row in connection.execute(query)}


def _group_by_share(
    latest: Mapping[str, LatestSample], tenant_of: Mapping[str, str]
) -> dict[tuple[str, str], list[CardUse]]:
    """Group the newest samples of jobs that hold a share by (tenant, card's uuid)."""
    found: dict[tuple[str, str], list[CardUse]] = defaultdict(list)
    for job, seen in latest.items():
        for use in seen.sample.cards or ():
            if job in tenant_of:
                found[tenant_of[job], use.uuid].append(use)
    return found
