"""/metrics: what the pool is and does now, for Prometheus.

Reads the database, the fleet's latest samples and the process's counters at the moment of
a scrape; keeps nothing. The names are a contract, frozen by tests/golden/metrics_names.txt.
Labels are few: cards, models, tenants, reasons, routes; never jobs or users. A hardware
figure that is not known is absent, never 0.
"""

from __future__ import annotations

from collections import Counter as Multiset
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeVar

import sqlalchemy as sa
from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response
from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from gpupool import __version__
from gpupool.allocations.tables import NOT_MADE, arrays, jobs
from gpupool.base.health import Checks
from gpupool.base.supervised import register
from gpupool.fleet.service import Fleet
from gpupool.fleet.tables import devices, nodes
from gpupool.fleet.views import device_name
from gpupool.metering.samples import Latest
from gpupool.metering.service import Metering
from gpupool.metering.starts import read_starts
from gpupool.metering.tables import intervals
from gpupool.model.device import DeviceState
from gpupool.model.job import LIVE, JobState
from gpupool.model.tenant import Permission, Principal
from gpupool.store import counters
from gpupool.store.database import Store
from gpupool.store.leadership import Leadership
from gpupool.store.tables import pool
from gpupool.tenancy.access import require
from gpupool.tenancy.tables import tenants
from gpupool.wire.capacity import CapacityOut, ModelRoom
from gpupool.wire.fleet import CardUse, UsageOut

router = APIRouter(tags=["metering"])
T = TypeVar("T")

CARD = ("card", "node", "model")
SHARE = (*CARD, "tenant")
SHARE_GAUGES: Mapping[str, tuple[str, Callable[[CardUse], int | None]]] = {
    "memory_used_bytes": ("Memory of the card that the driver has given to the tenant's jobs.", lambda u: u.used_bytes),
    "memory_reserved_bytes": (
        "The same with what is being asked for: what counts against the limits.",
        lambda u: u.reserved_bytes,
    ),
    "unaccounted_bytes": (
        "Memory that the card says the tenant's jobs use beyond the fence's ledger.",
        lambda u: u.unaccounted_bytes,
    ),
}
SHARE_COUNTERS: Mapping[str, tuple[str, str, int]] = {
    "gpu_seconds": ("GPU time that the tenant's jobs used of the card, measured.", "gpu_nanoseconds", 10**9),
    "wait_seconds": ("Time in which their threads were held back.", "wait_nanoseconds", 10**9),
    "throttled_seconds": ("The part of it for which the share was used up.", "throttled_nanoseconds", 10**9),
    "launches": ("Kernels, graphs and copies that they submitted.", "launches", 1),
    "refusals": ("Allocations refused for the limit of a share.", "refusals", 1),
}
CARD_GAUGES: Mapping[str, tuple[str, Callable[[Any], float | None]]] = {
    "capacity_milli": ("Thousandths of a card that it can give.", lambda row: 1000),
    "held_milli": ("Thousandths of the card that shares hold now.", lambda row: row.used_milli),
    "capacity_bytes": ("Memory of the card.", lambda row: row.memory_bytes),
    "held_bytes": ("Memory of the card that shares hold now.", lambda row: row.used_bytes),
    "shares": ("Shares on the card now.", lambda row: row.shares),
}
MODEL_GAUGES: Mapping[str, tuple[str, Callable[[ModelRoom], float | None]]] = {
    "free_milli": ("Thousandths of cards that could be given out.", lambda room: room.free_milli),
    "largest_milli": ("The largest share that one card can take: compute.", lambda room: room.largest_milli),
    "largest_bytes": ("The largest share that one card can take: memory.", lambda room: room.largest_bytes),
    "whole_free": ("Cards on which nothing is held.", lambda room: room.whole_free),
    "whole_on_one_node": ("The largest claim of whole cards that one node can take.", lambda r: r.whole_on_one_node),
    "whole_nodes": ("Nodes of which every card is wholly free.", lambda room: room.whole_nodes),
    "fragment_milli": ("Free and of no use to an expected claim, on average.", lambda room: room.fragment_milli),
}
HARDWARE_GAUGES: Mapping[str, tuple[str, Callable[[UsageOut], float | None]]] = {
    "utilization_percent": ("What the card says of its load.", lambda usage: usage.utilization_percent),
    "memory_used_bytes": ("Memory in use as the card says.", lambda usage: usage.memory_used_bytes),
    "power_watts": ("Power that the card draws.", lambda usage: usage.power_watts),
    "temperature_celsius": ("The card's temperature.", lambda usage: usage.temperature_celsius),
}
_NS = 10**9
_NOT_MADE = NOT_MADE.add_columns(sa.func.min(arrays.c.submitted_ns))
# As the partial index on live jobs is written, so that it is used.
_LIVE_JOBS = sa.text("state IN ('pending', 'starting', 'running')")


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
def get_metrics(request: Request, _caller: Annotated[Principal, Depends(require(Permission.SCRAPE))]) -> Response:
    """Metrics in Prometheus' text format; for tokens of the role scrape, and for admins."""
    state = request.app.state
    return build_metrics(state.store, state.fleet, state.metering, state.allocations.capacity(), state.checks)


def build_metrics(
    store: Store, fleet: Fleet, metering: Metering, capacity: CapacityOut, checks: Checks | None = None
) -> Response:
    """One scrape."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(PoolMetrics(store, fleet, metering, capacity))
    registry.register(HealthMetrics(checks or Checks()))
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


class PoolMetrics(Collector):
    """Everything that is told of a pool; reads anew at each collection."""

    def __init__(self, store: Store, fleet: Fleet, metering: Metering, capacity: CapacityOut) -> None:
        self._store, self._fleet, self._metering, self._capacity = store, fleet, metering, capacity

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        with self._store.read() as connection:
            yield from self._pool(connection)
            yield from self._cards(connection)
            yield from self._tenants(connection)
            yield from self._queue(connection)
            yield from _starts(connection)
        yield from _capacity(self._capacity)
        yield from _decisions()
        yield from _requests()

    def _pool(self, connection: sa.Connection) -> Iterator[Metric]:
        yield InfoMetricFamily("gpupool_build", "The running version.", {"version": __version__})
        events = connection.execute(sa.select(pool.c.event_seq)).scalar_one()
        yield CounterMetricFamily("gpupool_events", "Events in the log so far.", events)
        ahead = self._store.clock.ahead_ns() / _NS
        yield GaugeMetricFamily(
            "gpupool_ledger_ahead_seconds", "How far the ledger's clock is ahead of the wall clock.", ahead
        )
        yield from _lease(self._store.leading)
        yield _histogram("gpupool_store_write_seconds", "Time of transactions that wrote.", (), counters.writes)

    def _cards(self, connection: sa.Connection) -> Iterator[Metric]:
        ready = GaugeMetricFamily("gpupool_nodes", "Nodes by whether their agent is heard.", labels=["ready"])
        grouped = sa.select(nodes.c.ready, sa.func.count().label("count")).group_by(nodes.c.ready)
        counted = {row.ready: int(row._mapping["count"]) for row in connection.execute(grouped)}
        for flag in (True, False):
            ready.add_metric([str(flag).lower()], counted.get(flag, 0))
        yield ready
        query = sa.select(devices, nodes.c.name.label("node")).join(nodes, nodes.c.id == devices.c.node_id)
        rows = connection.execute(query.order_by(devices.c.node_id, devices.c.idx)).all()
        yield _by_state(rows)
        present = [row for row in rows if row.state != DeviceState.LOST]
        seen = [(_card(row), sample.usage) for row in present if (sample := self._fleet.usage(row.uuid)) is not None]
        yield from _gauges("card", CARD, CARD_GAUGES, [(_card(row), row) for row in present])
        yield from _gauges("card", CARD, HARDWARE_GAUGES, seen)
        yield from self._shares(connection, {row.uuid: _card(row) for row in present})

    def _shares(self, connection: sa.Connection, cards: Mapping[str, list[str]]) -> Iterator[Metric]:
        """What fences say, by card and tenant; a card's tenants without a fenced job are absent."""
        now = _by_share(self._metering.latest(), _tenant_of_holders(connection))
        for name, (text, read) in SHARE_GAUGES.items():
            gauge = GaugeMetricFamily(f"gpupool_share_{name}", text, labels=SHARE)
            for (tenant, uuid), uses in now.items():
                known = [value for use in uses if (value := read(use)) is not None]
                if known and uuid in cards:
                    gauge.add_metric([*cards[uuid], tenant], sum(known))
            yield gauge
        sums = self._metering.sums()
        for name, (text, field, unit) in SHARE_COUNTERS.items():
            counter = CounterMetricFamily(f"gpupool_share_{name}", text, labels=SHARE)
            for (tenant, uuid), values in sums.items():
                if uuid in cards:
                    counter.add_metric([*cards[uuid], tenant], values[field] / unit)
            yield counter

    def _tenants(self, connection: sa.Connection) -> Iterator[Metric]:
        living = sa.or_(tenants.c.retired_ns.is_(None), tenants.c.held_milli > 0, tenants.c.held_memory_bytes > 0)
        rows = connection.execute(sa.select(tenants).where(living).order_by(tenants.c.name)).all()
        milli = GaugeMetricFamily("gpupool_tenant_held_milli", "Thousandths of cards that are held.", labels=["tenant"])
        size = GaugeMetricFamily("gpupool_tenant_held_bytes", "Card memory that is held.", labels=["tenant"])
        for row in rows:
            milli.add_metric([row.name], row.held_milli)
            size.add_metric([row.name], row.held_memory_bytes)
        yield milli
        yield size

    def _queue(self, connection: sa.Connection) -> Iterator[Metric]:
        query = sa.select(jobs.c.state, sa.func.count(), sa.func.min(jobs.c.submitted_ns)).where(_LIVE_JOBS)
        live = {state: (count, oldest) for state, count, oldest in connection.execute(query.group_by(jobs.c.state))}
        unmade, since = connection.execute(_NOT_MADE).one()
        if unmade:
            count, oldest = live.get(JobState.PENDING, (0, since))
            live[JobState.PENDING] = (count + unmade, min(oldest, since))
        gauge = GaugeMetricFamily("gpupool_jobs", "Jobs that have not ended, by state.", labels=["state"])
        for state in sorted(LIVE):
            gauge.add_metric([str(state)], live.get(state, (0, 0))[0])
        yield gauge
        waiting, oldest = live.get(JobState.PENDING, (0, None))
        age = max(0, self._store.clock.now_ns() - oldest) / _NS if waiting else 0
        yield GaugeMetricFamily("gpupool_queue_oldest_seconds", "How long the oldest waiting job has waited.", age)
        why = GaugeMetricFamily(
            "gpupool_queue_kinds",
            "Kinds of waiting claims, by the reason of the latest cycle that judged them.",
            labels=["reason"],
        )
        for reason, count in counters.decisions.standing().items() if waiting else ():
            why.add_metric([reason], count)
        yield why


def _starts(connection: sa.Connection) -> Iterator[Metric]:
    """Starts that claims were told, and what came of them."""
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


class HealthMetrics(Collector):
    """Whether the server's parts work: its threads and tasks, and what its checks find."""

    def __init__(self, checks: Checks) -> None:
        self._checks = checks

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        text = "Failures of supervised threads and tasks, each tried again."
        failures = CounterMetricFamily("gpupool_thread_failures", text, labels=["thread"])
        for name, count in sorted(register.failures().items()):
            failures.add_metric([name], count)
        yield failures
        text = "For how long a round of a supervised thread or task takes more than it may."
        silent = GaugeMetricFamily("gpupool_thread_silent_seconds", text, labels=["thread"])
        longest = dict.fromkeys(register.names(), 0.0)
        for silence in register.silences():
            longest[silence.name] = max(longest.get(silence.name, 0.0), silence.seconds)
        for name, seconds in sorted(longest.items()):
            silent.add_metric([name], seconds)
        yield silent
        state = GaugeMetricFamily("gpupool_check", "1 for the state that a check found.", labels=["check", "state"])
        for name, found in self._checks.run().items():
            for one in ("ok", "warn", "fail"):
                state.add_metric([name, one], one == found.state)
        yield state


def _lease(leading: Leadership | None) -> Iterator[Metric]:
    """Absent where there is one server by nature (SQLite); a standby answers no scrape."""
    age = None if leading is None else leading.age_seconds()
    if leading is None or age is None:
        return
    text = "Takeovers of the pool by a server so far: the number of the one that leads."
    yield GaugeMetricFamily("gpupool_leader_number", text, leading.number)
    yield GaugeMetricFamily("gpupool_lease_age_seconds", "Since the leader's lease was renewed.", age)
    text = "The longest time between two renewals of this leader; beyond the lease's length another may lead."
    yield GaugeMetricFamily("gpupool_lease_longest_gap_seconds", text, leading.longest_gap_seconds)


def _capacity(capacity: CapacityOut) -> Iterator[Metric]:
    yield from _gauges("model", ["model"], MODEL_GAUGES, [([room.model], room) for room in capacity.models])
    text = "Of the node, free and of no use to an expected claim, on average."
    fragments = GaugeMetricFamily("gpupool_node_fragment_milli", text, labels=["node"])
    for node in capacity.nodes:
        if node.fragment_milli is not None:
            fragments.add_metric([node.node], node.fragment_milli)
    yield fragments


def _tenant_of_holders(connection: sa.Connection) -> dict[str, str]:
    """Of every job that holds a share now, by its public id."""
    holds = jobs.c.id.in_(sa.select(intervals.c.job_id).where(intervals.c.end_s.is_(None)))
    query = sa.select(jobs.c.public_id, tenants.c.name).join(tenants, tenants.c.id == jobs.c.tenant_id).where(holds)
    return {row.public_id: row.name for row in connection.execute(query)}


def _by_share(latest: Mapping[str, Latest], tenant_of: Mapping[str, str]) -> dict[tuple[str, str], list[CardUse]]:
    """Newest samples of jobs that hold a share, by (tenant, card's uuid)."""
    found: dict[tuple[str, str], list[CardUse]] = defaultdict(list)
    for job, seen in latest.items():
        for use in seen.sample.cards or ():
            if job in tenant_of:
                found[tenant_of[job], use.uuid].append(use)
    return found


def _card(row: Any) -> list[str]:
    return [device_name(row.node, row.idx), row.node, row.model]


def _by_state(rows: Iterable[Any]) -> Metric:
    labels = ["model", "state", "health", "simulated"]
    gauge = GaugeMetricFamily("gpupool_cards", "Cards that are known.", labels=labels)
    counted = Multiset((row.model, row.state, row.health, str(bool(row.simulated)).lower()) for row in rows)
    for key, count in counted.items():
        gauge.add_metric(list(key), count)
    return gauge


def _decisions() -> Iterator[Metric]:
    decisions = counters.decisions
    told: tuple[tuple[str, str, counters.Counter, tuple[str, ...]], ...] = (
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
        yield _counter(f"gpupool_scheduler_{name}", text, labels, counter)
    yield _histogram("gpupool_scheduler_cycle_seconds", "Time of one scheduling cycle.", (), decisions.seconds)


def _requests() -> Iterator[Metric]:
    requests = counters.requests
    count = _counter("gpupool_api_requests", "Requests answered.", ("route", "method", "status"), requests.count)
    yield count
    text = "Time until the answer began; long polls wait on purpose."
    yield _histogram("gpupool_api_request_seconds", text, ("route", "method"), requests.seconds)


def _gauges(
    of: str,
    names: Sequence[str],
    gauges: Mapping[str, tuple[str, Callable[[T], float | None]]],
    things: Sequence[tuple[list[str], T]],
) -> Iterator[Metric]:
    """Each of these gauges with a value for each of these things, which come with their labels; unknown is absent."""
    for name, (text, read) in gauges.items():
        gauge = GaugeMetricFamily(f"gpupool_{of}_{name}", text, labels=names)
        for labels, thing in things:
            value = read(thing)
            if value is not None:
                gauge.add_metric(labels, value)
        yield gauge


def _counter(name: str, text: str, labels: tuple[str, ...], counter: counters.Counter) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    sums = counter.read()
    for values, total in (sums if sums or labels else {(): 0}).items():
        family.add_metric(values, total)
    return family


def _histogram(name: str, text: str, labels: tuple[str, ...], histogram: counters.Histogram) -> Metric:
    family = HistogramMetricFamily(name, text, labels=labels)
    for values, (counts, total) in histogram.read().items():
        buckets, running = [], 0
        for bound, count in zip((*histogram.bounds, None), counts, strict=True):
            running += count
            buckets.append(("+Inf" if bound is None else repr(float(bound)), float(running)))
        family.add_metric(values, buckets, total)
    return family
