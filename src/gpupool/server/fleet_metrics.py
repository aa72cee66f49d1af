"""What /metrics says of nodes and of the state of their cards."""

from __future__ import annotations

from collections import Counter as Multiset
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric

from gpupool.fleet.registration import BEFORE_LOST
from gpupool.fleet.tables import nodes
from gpupool.fleet.views import device_name
from gpupool.model.device import DeviceHealth, DeviceState, find_xid
from gpupool.server.metric_definitions import CARD


def _is_failed(row: Any) -> int | None:
    # A card that was never handed out may be taken out of its machine: that is no failure.
    if row.state == DeviceState.LOST:
        return None if row.facts.get(BEFORE_LOST) in (None, DeviceState.OBSERVED) else 1
    return int(row.health == DeviceHealth.FAILED)


#: Of every card's row, also of one that vanished; after `gpupool_card_`.
STATE_GAUGES: Mapping[str, tuple[str, Callable[[Any], int | None]]] = {
    "failed": (
        "1 where the card cannot be used: it failed, or it vanished from the pool.",
        _is_failed,
    ),
    "xid": (
        "The driver's error number behind the card's present health.",
        lambda row: find_xid(row.health_reason),
    ),
}


def collect_nodes(connection: sa.Connection, silent: Collection[str]) -> Iterator[Metric]:
    """Yield how many nodes are ready, and which agents are silent.

    Args:
        silent: names of nodes whose agents have missed three heartbeats.
    """
    ready = GaugeMetricFamily(
        "gpupool_nodes", "Nodes by whether their agent is heard.", labels=["ready"]
    )
    rows = connection.execute(sa.select(nodes.c.name, nodes.c.ready).order_by(nodes.c.id)).all()
    counted = Multiset(bool(row.ready) for row in rows)
    for flag in (True, False):
        ready.add_metric([str(flag).lower()], counted[flag])
    yield ready
    text = "1 where the agent has missed three heartbeats."
    state = GaugeMetricFamily("gpupool_node_silent", text, labels=["node"])
    for row in rows:
        state.add_metric([row.name], int(row.name in silent))
    yield state


def collect_card_states(rows: Sequence[Any]) -> Iterator[Metric]:
    """Yield how many cards there are, the uuid of each, and whether one failed.

    Args:
        rows: of all cards that are known, with the name of their node.
    """
    yield _count_cards(rows)
    text = "The UUID of the card, by which other exporters name it."
    info = InfoMetricFamily("gpupool_card", text, labels=CARD)
    for row in rows:
        if row.state != DeviceState.LOST:
            info.add_metric(label_card(row), {"uuid": row.uuid})
    yield info
    for name, (text, read) in STATE_GAUGES.items():
        gauge = GaugeMetricFamily(f"gpupool_card_{name}", text, labels=CARD)
        for row in rows:
            value = read(row)
            if value is not None:
                gauge.add_metric(label_card(row), value)
        yield gauge


def label_card(row: Any) -> list[str]:
    """Return the values of a card's labels."""
    return [device_name(row.node, row.idx), row.node, row.model]


def _count_cards(rows: Iterable[Any]) -> Metric:
    labels = ["model", "state", "health", "simulated"]
    gauge = GaugeMetricFamily("gpupool_cards", "Cards that are known.", labels=labels)
    counted = Multiset(
        (row.model, row.state, row.health, str(bool(row.simulated)).lower()) for row in rows
    )
    for key, count in counted.items():
        gauge.add_metric(list(key), count)
    return gauge
