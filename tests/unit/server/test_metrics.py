"""/metrics: its names are a contract, its labels are few, and what is not known is absent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families

from gpupool.allocations.cache.ledger_cache import LedgerCache
from gpupool.allocations.views.capacity import describe_capacity
from gpupool.base.body_record import BodyRecord
from gpupool.base.health import HealthChecks, well
from gpupool.base.supervision import register
from gpupool.billing.budgets.budget import Budget
from gpupool.billing.budgets.standing import BudgetStanding
from gpupool.billing.charging.latest_hour import BooksGap, ChargedHour, TenantHour
from gpupool.billing.charging.spending import SpendingOwner
from gpupool.billing.periods import Period
from gpupool.model.claim import Rejection, RejectionReason, Shape
from gpupool.model.tenant import Permission, UserRole
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from gpupool.server.metrics import build_metrics, router
from gpupool.server.money_metrics import MoneyMetrics
from gpupool.server.serving_metrics import ServingMetrics
from gpupool.serving.routing import RequestLoad
from gpupool.serving.standings import ServiceStanding
from gpupool.serving.traffic import ServiceLabels, ServiceTraffic
from gpupool.store import counters
from gpupool.store.database import sqlite_url
from gpupool.tenancy.access import PRINCIPAL_KEY
from gpupool.wire.capacity import CapacityOut, IdleRoom
from gpupool.wire.samples import CardUse, DeviceSample, JobSample, UsageOut
from tests.support.api import Client
from tests.support.metering_books import DAY, START_S, Pool, principal, told_starts

NAMES = Path(__file__).parents[2] / "golden" / "metrics_names.txt"


@pytest.fixture(autouse=True)
def _fresh_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process's counters, as a process that just started has them."""
    monkeypatch.setattr(counters, "decisions", counters.DecisionCounters())
    monkeypatch.setattr(counters, "findings", counters.LabelCounter())
    monkeypatch.setattr(counters, "requests", counters.RequestCounters())
    monkeypatch.setattr(counters, "writes", counters.SecondsHistogram(counters.FAST_SECONDS))


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Pool]:
    made = Pool(sqlite_url(tmp_path / "gpupool.db"))
    yield made
    made.engine.dispose()


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    import threading

    made = asyncio.new_event_loop()
    thread = threading.Thread(target=made.run_forever)
    thread.start()
    yield made
    made.call_soon_threadsafe(made.stop)
    thread.join()
    made.run_until_complete(made.shutdown_default_executor())
    made.close()


#: An hour of one tenant, and a budget of it.
HOUR = ChargedHour(
    START_S,
    {"tenant": 900_000, "idle": 6_300_000, "overhead": 0, "unmanaged": 0},
    (TenantHour("vision", 900_000, Fraction(2_500_000)),),
    BooksGap(0, 0, 0),
)
STANDING = BudgetStanding(
    Budget(
        1, "b-1", SpendingOwner(2), "vision", None, None, "month", "UTC", "gpu-hours", 1_000_000
    ),
    Period("2023-11", START_S, START_S + DAY),
    900_000,
)


def room_of(pool: Pool) -> CapacityOut:
    cache = LedgerCache()
    with pool.store.read() as connection:
        cache.load_cards(connection)
    expected = ExpectedDemand((Shape(500, 0),), (1.0,))
    found = describe_capacity(replace(cache.build_snapshot(), expected=expected))
    card = IdleRoom(
        card="node-1:0",
        uuid="GPU-0",
        jobs=1,
        wanted=0,
        running_bytes=0,
        suspended_bytes=1 << 30,
        limit_bytes=2 << 30,
    )
    return found.model_copy(update={"idle": [card]})


def make_serving() -> ServingMetrics:
    """A service with one request."""
    labels = ServiceLabels("vision", "web")
    traffic = ServiceTraffic()
    traffic.note_answer(labels, "2xx", 0.5)
    return ServingMetrics([ServiceStanding(labels, 2, 1, 4, {"ready": 1}, 3, 0)], traffic)


def scraped(pool: Pool) -> str:
    checks = HealthChecks()
    checks.add("space", lambda: well("enough"))
    money = MoneyMetrics(HOUR, [STANDING])
    return bytes(
        build_metrics(
            pool.store, pool.fleet, pool.metering, room_of(pool), checks, money, make_serving()
        ).body
    ).decode()


def values(text: str, name: str) -> dict[tuple[str, ...], float]:
    """Of one metric: label values, in the order of the labels' names, to number."""
    return {
        tuple(value for _, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    }


def contract(text: str) -> list[str]:
    """One line per name that can be asked for: name, kind, label names."""
    return sorted(
        {
            f"{sample.name} {family.type} {{{','.join(sorted(sample.labels))}}}"
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }
    )


def exercised(pool: Pool) -> str:
    """A scrape of a pool in which everything that is told has happened."""
    counters.decisions.count_cycle(
        seconds=0.001, placements=1, judged={"kind": Rejection("…", RejectionReason.QUOTA)}
    )
    counters.decisions.count_conflict()
    register.count_failure("placer")
    counters.decisions.policy_failed("default")
    counters.requests.count_answer("/api/v1/jobs", "GET", 200, 0.01)
    counters.watch_writes(pool.engine, counters.writes)
    usage = UsageOut(
        utilization_percent=10, memory_used_bytes=1 << 30, power_watts=70, temperature_celsius=40
    )
    pool.fleet.record_observations(
        "node-1",
        [
            DeviceSample(
                uuid="GPU-0", usage=usage, health="warning", health_reason="driver error (XID 63)"
            )
        ],
    )
    counters.findings.add(1, "2", "memory")
    pool.grant(0, 0, 300, 8192)
    drawn(pool)
    used(
        pool, gpu_nanoseconds=10**9, used_bytes=1 << 30, reserved_bytes=2 << 30, unaccounted_bytes=0
    )
    waiting(pool)
    placer = BodyRecord("placer", time.monotonic)
    register.add(placer)
    try:
        return scraped(pool)
    finally:
        register.discard(placer)


def drawn(pool: Pool) -> None:
    """Two samples of the first card's power, with the energy between them."""
    for _ in range(2):
        usage = UsageOut(
            utilization_percent=10,
            memory_used_bytes=1 << 30,
            power_watts=70,
            temperature_celsius=40,
            at_ns=pool.time.wall_ns,
        )
        sample = DeviceSample(uuid="GPU-0", usage=usage)
        cards = pool.fleet.record_observations("node-1", [sample])
        pool.metering.note_power(cards, [sample], [])
        pool.time.forward(10)
    pool.metering.write_and_fold()


def used(pool: Pool, tenant: str = "vision", **use: int) -> None:
    """A sample of the first job, from its fence on the first card."""
    card = CardUse.model_validate({"uuid": "GPU-0", **use})
    pool.metering.record_samples(
        [JobSample(job="j-0000000001", cards=[card])], {"j-0000000001": tenant}
    )


SEAT = ("node-1:0", "L40S", "node-1", "vision")


def test_what_fences_count_is_told_by_card_and_tenant_and_never_falls(pool: Pool) -> None:
    held = pool.grant(0, 0, 300, 8192)
    assert held is not None
    used(
        pool,
        gpu_nanoseconds=3 * 10**9,
        wait_nanoseconds=10**9,
        launches=7,
        refusals=1,
        used_bytes=1 << 30,
    )
    used(
        pool,
        gpu_nanoseconds=5 * 10**9,
        wait_nanoseconds=2 * 10**9,
        launches=9,
        refusals=1,
        used_bytes=3 << 30,
    )
    text = scraped(pool)
    assert values(text, "gpupool_share_gpu_seconds_total") == {SEAT: 5}
    assert values(text, "gpupool_share_wait_seconds_total") == {SEAT: 2}
    assert values(text, "gpupool_share_launches_total") == {SEAT: 9}
    assert values(text, "gpupool_share_refusals_total") == {SEAT: 1}
    assert values(text, "gpupool_share_memory_used_bytes") == {SEAT: 3 << 30}
    used(pool, gpu_nanoseconds=10**9)  # as after a region that was made anew
    assert values(scraped(pool), "gpupool_share_gpu_seconds_total") == {SEAT: 5}
    pool.release(held)
    text = scraped(pool)
    assert values(text, "gpupool_share_gpu_seconds_total") == {SEAT: 5}
    assert values(text, "gpupool_share_memory_used_bytes") == {}


def test_energy_is_told_in_joules_by_tenant_and_what_no_share_held(pool: Pool) -> None:
    pool.grant(0, 0, 300, 8192)
    drawn(pool)
    assert values(scraped(pool), "gpupool_energy_joules_total") == {
        ("idle", ""): 490,
        ("tenant", "vision"): 210,
    }


def test_what_no_card_says_beyond_the_ledger_is_absent_and_not_zero(pool: Pool) -> None:
    pool.grant(0, 0, 300, 8192)
    used(pool, used_bytes=1 << 30)
    assert values(scraped(pool), "gpupool_share_unaccounted_bytes") == {}
    used(pool, used_bytes=1 << 30, unaccounted_bytes=5 << 20)
    assert values(scraped(pool), "gpupool_share_unaccounted_bytes") == {SEAT: 5 << 20}


def waiting(pool: Pool) -> None:
    from gpupool.allocations.store.tables import jobs

    with pool.store.write() as write:
        pool._job(write, {"tenant_id": 2, "project_id": 2, "user_id": 10})
        newest = jobs.c.id == pool._jobs
        write.execute(
            jobs.update().where(newest).values(state="pending", submitted_ns=write.now_ns)
        )


def test_the_names_kinds_and_labels_are_those_that_are_promised(pool: Pool) -> None:
    assert contract(exercised(pool)) == NAMES.read_text().splitlines()


def test_shares_and_capacity_are_told_per_card_and_per_tenant(pool: Pool) -> None:
    text = exercised(pool)
    assert values(text, "gpupool_card_held_milli") == {
        ("node-1:0", "L40S", "node-1"): 300,
        ("node-1:1", "T4", "node-1"): 0,
    }
    assert values(text, "gpupool_card_held_bytes")[("node-1:0", "L40S", "node-1")] == 8192 << 20
    assert set(values(text, "gpupool_card_capacity_milli").values()) == {1000}
    assert set(values(text, "gpupool_tenant_held_milli")) == {("default",), ("nlp",), ("vision",)}
    assert values(text, "gpupool_cards") == {
        ("warning", "L40S", "true", "adopted"): 1,
        ("ok", "T4", "true", "adopted"): 1,
    }


def test_promises_kept_and_broken_and_estimates_that_came_true_are_counted(pool: Pool) -> None:
    assert values(scraped(pool), "gpupool_starts_promised_total") == {("kept",): 0, ("broken",): 0}
    told_starts(pool)
    text = scraped(pool)
    assert values(text, "gpupool_starts_promised_total") == {("kept",): 7, ("broken",): 1}
    assert values(text, "gpupool_starts_estimated_total") == {("true",): 4, ("false",): 2}


def test_a_hardware_figure_that_is_not_known_is_absent(pool: Pool) -> None:
    usage = UsageOut(power_watts=0)
    pool.fleet.record_observations("node-1", [DeviceSample(uuid="GPU-0", usage=usage)])
    text = scraped(pool)
    assert values(text, "gpupool_card_power_watts") == {("node-1:0", "L40S", "node-1"): 0}
    for name in ("utilization_percent", "memory_used_bytes", "temperature_celsius"):
        assert values(text, f"gpupool_card_{name}") == {}
    pool.time.forward(DAY)  # and a sample of yesterday says nothing of now
    assert values(scraped(pool), "gpupool_card_power_watts") == {}


def test_the_queue_tells_how_many_wait_for_how_long_and_why(pool: Pool) -> None:
    counters.decisions.count_cycle(
        seconds=0.001, placements=0, judged={"kind": Rejection("…", RejectionReason.QUOTA)}
    )
    assert values(scraped(pool), "gpupool_queue_kinds") == {}  # nothing waits any more
    assert values(scraped(pool), "gpupool_queue_oldest_seconds") == {(): 0}
    waiting(pool)
    pool.time.forward(90)
    text = scraped(pool)
    assert values(text, "gpupool_jobs") == {("pending",): 1, ("running",): 0, ("starting",): 0}
    assert values(text, "gpupool_queue_oldest_seconds") == {(): 90}
    assert values(text, "gpupool_queue_kinds") == {("tenant's quota in use",): 1}


def test_the_ledger_tells_how_far_it_is_ahead_of_a_clock_that_was_set_back(pool: Pool) -> None:
    pool.grant(0, 0, 1, 1)
    pool.time.wall_ns -= 7 * 10**9
    assert values(scraped(pool), "gpupool_ledger_ahead_seconds") == {(): 7}


def test_findings_are_told_by_tenant_and_kind(pool: Pool) -> None:
    counters.findings.add(1, "2", "memory")
    counters.findings.add(2, "3", "time")
    counters.findings.add(1, "99", "time")  # of a tenant that is gone
    assert values(scraped(pool), "gpupool_fence_findings_total") == {
        ("memory", "vision"): 1,
        ("time", "nlp"): 2,
    }


def test_a_name_with_quotes_and_newlines_cannot_break_the_format(pool: Pool) -> None:
    counters.requests.count_answer('a"b\n}', "GET", 200, 0.01)
    assert values(scraped(pool), "gpupool_api_requests_total") == {("GET", 'a"b\n}', "200"): 1}


def test_no_label_names_a_job_or_a_user(pool: Pool) -> None:
    text = exercised(pool)
    assert "job-1" not in text
    assert "ada" not in text


def test_a_histograms_buckets_add_up(pool: Pool) -> None:
    for seconds in (0.0001, 0.003, 0.003, 99.0):
        counters.requests.count_answer("/x", "GET", 200, seconds)
    buckets = values(scraped(pool), "gpupool_api_request_seconds_bucket")
    found = {key[0] if key[0] != "GET" else key[1]: value for key, value in buckets.items()}
    assert (found["0.001"], found["0.005"], found["30.0"], found["+Inf"]) == (1, 3, 3, 4)


# The route and the layer ---------------------------------------------------------------------


class As:
    """Says who the caller is, as the server's own layer does after it has checked."""

    def __init__(self, app: Any, who: Any) -> None:
        self._app, self._who = app, who

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        scope[PRINCIPAL_KEY] = self._who
        await self._app(scope, receive, send)


def app_of(pool: Pool, who: Any) -> FastAPI:
    app = FastAPI()
    app.state.store, app.state.fleet, app.state.metering = pool.store, pool.fleet, pool.metering
    app.state.checks = HealthChecks()
    app.state.allocations = SimpleNamespace(
        quotas=SimpleNamespace(describe_capacity=lambda: room_of(pool)),
        budget_watch=SimpleNamespace(standings=()),
    )
    app.state.billing = SimpleNamespace(latest_hour=SimpleNamespace(value=None))
    controller = SimpleNamespace(load=RequestLoad(), traffic=ServiceTraffic())
    app.state.serving = SimpleNamespace(controller=controller)
    app.include_router(router)
    app.add_middleware(As, who=who)
    return app


@pytest.mark.parametrize("role", list(UserRole))
def test_only_scrapers_and_admins_may_scrape(
    pool: Pool, loop: asyncio.AbstractEventLoop, role: UserRole
) -> None:
    from gpupool.base.errors import NoPermission
    from gpupool.model.tenant import PERMISSIONS

    client = Client(app_of(pool, principal(0, role)), loop, None)
    if Permission.SCRAPE in PERMISSIONS[role]:
        answer = client.get("/metrics")
        assert answer.status == 200
        assert answer.headers["content-type"].startswith("text/plain; version=")
        assert b"gpupool_build_info" in answer.body
    else:
        with pytest.raises(NoPermission):
            client.get("/metrics")
