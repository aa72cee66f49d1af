"""What /metrics says of services."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from gpupool.server.serving_metrics import ServingMetrics
from gpupool.serving.standings import read_standings
from gpupool.serving.traffic import OUTCOMES, ServiceLabels
from tests.support.shop import Shop

WEB = ServiceLabels("default", "web")
Key = tuple[tuple[str, str], ...]


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path)
    yield made
    made.house.close()


def scrape(shop: Shop) -> dict[tuple[str, Key], float]:
    """Name and labels, without tenant and service, to number."""
    controller = shop.serving.controller
    registry = CollectorRegistry(auto_describe=False)
    standings = read_standings(shop.house.store, controller.load)
    registry.register(ServingMetrics(standings, controller.traffic))
    found = dict[tuple[str, Key], float]()
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            labels = dict(sample.labels)
            assert (labels.pop("tenant"), labels.pop("service_name")) == WEB
            found[sample.name, tuple(sorted(labels.items()))] = sample.value
    return found


def test_a_service_is_told_from_its_first_replica_to_its_removal(shop: Shop) -> None:
    assert scrape(shop) == {}
    shop.add(min_replicas=2, max_replicas=5)
    shop.settle()
    controller = shop.serving.controller
    load = controller.load
    load.begin(shop.sight().service.id)
    controller.traffic.note_answer(WEB, "2xx", 0.3)
    controller.traffic.note_answer(WEB, "1xx", None)
    controller.traffic.note_cold_start(WEB)
    controller.traffic.note_reject(WEB, "busy")
    found = scrape(shop)
    assert found["gpupool_service_replicas", (("state", "ready"),)] == 2
    assert found["gpupool_service_replicas", (("state", "draining"),)] == 0
    assert found["gpupool_service_desired_replicas", ()] == 2
    assert found["gpupool_service_min_replicas", ()] == 2
    assert found["gpupool_service_max_replicas", ()] == 5
    assert found["gpupool_service_in_flight", ()] == 1
    assert found["gpupool_service_waiting", ()] == 0
    counted = {
        status: found["gpupool_service_requests_total", (("status", status),)]
        for status in OUTCOMES
    }
    assert counted == dict.fromkeys(OUTCOMES, 0) | {"1xx": 1, "2xx": 1}
    assert found["gpupool_service_cold_starts_total", ()] == 1
    assert found["gpupool_service_rejects_total", (("reason", "busy"),)] == 1
    assert found["gpupool_service_rejects_total", (("reason", "not-ready"),)] == 0
    assert found["gpupool_service_request_seconds_bucket", (("le", "0.25"),)] == 0
    assert found["gpupool_service_request_seconds_bucket", (("le", "0.5"),)] == 1
    assert found["gpupool_service_request_seconds_count", ()] == 1
    load.end(shop.sight().service.id)
    shop.serving.remove("web", shop.house.admin)
    assert scrape(shop)["gpupool_service_desired_replicas", ()] == 0
    shop.clear()
    controller.traffic.forget_others([])
    assert scrape(shop) == {}
