"""What a scrape says of nodes and cards: silent agents, failed and vanished cards, XIDs, UUIDs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from prometheus_client.core import Metric

from gpupool.fleet.tables import devices, nodes
from gpupool.server.fleet_metrics import collect_card_states, collect_nodes
from gpupool.store.database import sqlite_url
from gpupool.wire.samples import DeviceSample, UsageOut
from tests.support.metering_books import ADMIN, Pool


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Pool]:
    made = Pool(sqlite_url(tmp_path / "gpupool.db"))
    yield made
    made.engine.dispose()


def read_values(found: Iterable[Metric], name: str, label: str) -> dict[str, float]:
    """Values of one metric by one of its labels."""
    values = {}
    for family in found:
        for sample in family.samples:
            if sample.name == name:
                values[sample.labels[label]] = sample.value
    return values


def read_states(pool: Pool) -> list[Metric]:
    query = sa.select(devices, nodes.c.name.label("node")).join(
        nodes, nodes.c.id == devices.c.node_id
    )
    with pool.store.read() as connection:
        return list(collect_card_states(connection.execute(query).all()))


def fail(pool: Pool, index: int, reason: str) -> None:
    sample = DeviceSample(
        uuid=f"GPU-{index}", usage=UsageOut(), health="failed", health_reason=reason
    )
    pool.fleet.record_observations("node-1", [sample])


def test_a_silent_agent_is_1_and_its_node_stays_in_the_list(pool: Pool) -> None:
    with pool.store.read() as connection:
        heard = list(collect_nodes(connection, []))
        silent = list(collect_nodes(connection, ["node-1"]))
    assert read_values(heard, "gpupool_node_silent", "node") == {"node-1": 0}
    assert read_values(silent, "gpupool_node_silent", "node") == {"node-1": 1}


def test_a_failed_card_names_its_xid_and_a_card_without_one_has_none(pool: Pool) -> None:
    fail(pool, 0, "the card has fallen off the bus (XID 79)")
    fail(pool, 1, "it does not answer")
    found = read_states(pool)
    assert read_values(found, "gpupool_card_failed", "card") == {"node-1:0": 1, "node-1:1": 1}
    assert read_values(found, "gpupool_card_xid", "card") == {"node-1:0": 79}


def test_cards_have_the_uuid_by_which_others_name_them(pool: Pool) -> None:
    found = read_states(pool)
    assert read_values(found, "gpupool_card_info", "uuid") == {"GPU-0": 1, "GPU-1": 1}


def test_a_card_that_vanished_from_the_pool_failed_and_a_released_one_did_not(pool: Pool) -> None:
    pool.fleet.release_devices(["node-1:1"], False, ADMIN)
    pool.register([])
    found = read_states(pool)
    assert read_values(found, "gpupool_card_failed", "card") == {"node-1:0": 1}
    assert read_values(found, "gpupool_card_info", "uuid") == {}
