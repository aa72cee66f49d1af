"""/metrics of a node agent: its cards, and grants and usage of every container with cards.

A container's series exist from the moment its pod is bound, limits included. Names are a contract
(tests/golden/metrics_names.txt). Labels of containers are those that dashboards for DCGM's exporter
know, so the scraper must honour them (`honorLabels`). A value that is not measured is absent, never
0. With `dcgm` the same values also have the names of that exporter, for dashboards and cost reports
that know no others; each container then has its own part of a shared card. Do not use it beside
that exporter, or every value is counted twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from gpupool.base.units import MIB, NANOS_PER_SECOND, WHOLE
from gpupool.kubernetes.node.held_seats import HeldSeat
from gpupool.kubernetes.node.usage_rates import UsageRates
from gpupool.mechanisms.regions import FenceDeviceUsage
from gpupool.model.device import Device, DeviceHealth, DeviceUsage, find_xid

CONTAINER: Final = (
    "namespace",
    "pod",
    "container",
    "tenant",
    "UUID",
    "gpu",
    "modelName",
    "Hostname",
)
FINDING: Final = ("namespace", "pod", "container", "kind", "Hostname")
CARD: Final = ("card", "model", "node")
DCGM: Final = ("gpu", "UUID", "device", "modelName", "Hostname", "namespace", "pod", "container")


class NodeObservation:
    """The node at one moment. `usages` is what the cards report, by uuid."""

    def __init__(
        self,
        node: str,
        cards: Sequence[Device],
        held: Sequence[HeldSeat],
        usages: Mapping[str, DeviceUsage],
    ) -> None:
        self.node = node
        self.cards = cards
        self.held = held
        self._usages = usages

    def usage(self, uuid: str) -> DeviceUsage:
        """What the card reports; unknown values are None."""
        return self._usages.get(uuid, DeviceUsage())

    def memory(self, one: HeldSeat) -> int | None:
        """Bytes that the driver has given to the container on its card; None if unknown."""
        if one.fence is not None:
            # The driver counts what avoids the fence, the fence also managed memory.
            return max(one.fence.committed_bytes, one.driver_bytes or 0)
        return self.usage(one.card.uuid).memory_used_bytes if one.whole else None


class NodeMetrics(Collector):
    """The collector of a node's metrics. May be used from several threads.

    Args:
        look: observes the node.
        seconds: a monotonic clock.
        findings: counts of the audit by `namespace/pod/container` and kind.
    """

    def __init__(
        self,
        look: Callable[[], NodeObservation],
        seconds: Callable[[], float] = time.monotonic,
        *,
        dcgm: bool,
        findings: Callable[[], Mapping[tuple[str, str], int]] = dict,
    ) -> None:
        self._look = look
        self._rates = UsageRates(seconds)
        self._dcgm = dcgm
        self._findings = findings

    def describe(self) -> Iterable[Metric]:
        """No metric is known before the first collection."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Observe the node and yield its metrics. Blocks for as long as the driver does."""
        seen = self._look()
        yield from _collect_cards(seen)
        yield from _collect_containers(seen)
        yield _count_findings(seen.node, self._findings())
        if self._dcgm:
            gpu_ns = {}
            for one in seen.held:
                if one.fence is not None:
                    gpu_ns[_seat_key(one)] = one.fence.gpu_ns
            yield from _collect_dcgm(seen, self._rates.measure_ratios(gpu_ns))


def _collect_cards(seen: NodeObservation) -> Iterator[Metric]:
    here: dict[str, list[HeldSeat]] = {card.uuid: [] for card in seen.cards}
    for one in seen.held:
        if one.card.uuid in here:
            here[one.card.uuid].append(one)
    said = {card.uuid: seen.usage(card.uuid) for card in seen.cards}
    figures: Mapping[str, tuple[str, Callable[[Device], float | None]]] = {
        "capacity_milli": ("Thousandths of a card that it can give.", lambda card: WHOLE),
        "capacity_bytes": ("Memory of the card.", lambda card: card.memory_bytes),
        "held_milli": (
            "Thousandths of the card that shares hold now.",
            lambda card: sum(one.seat.gpu_milli for one in here[card.uuid]),
        ),
        "held_bytes": (
            "Memory of the card that shares hold now.",
            lambda card: sum(one.seat.memory_bytes for one in here[card.uuid]),
        ),
        "shares": ("Shares on the card now.", lambda card: len(here[card.uuid])),
        "utilization_percent": (
            "What the card says of its load.",
            lambda card: said[card.uuid].utilization_percent,
        ),
        "memory_used_bytes": (
            "Memory in use as the card says.",
            lambda card: said[card.uuid].memory_used_bytes,
        ),
        "power_watts": ("Power that the card draws.", lambda card: said[card.uuid].power_watts),
        "temperature_celsius": (
            "The card's temperature.",
            lambda card: said[card.uuid].temperature_celsius,
        ),
        "failed": (
            "1 where the card cannot be used.",
            lambda card: int(card.health is DeviceHealth.FAILED),
        ),
        "xid": (
            "The driver's error number behind the card's present health.",
            lambda card: find_xid(card.health_reason),
        ),
    }
    text = "The UUID of the card, by which other exporters name it."
    info = InfoMetricFamily("gpupool_card", text, labels=CARD)
    for card in seen.cards:
        info.add_metric([f"{seen.node}:{card.index}", card.model, seen.node], {"uuid": card.uuid})
    yield info
    for name, (text, figure) in figures.items():
        family = GaugeMetricFamily(f"gpupool_card_{name}", text, labels=CARD)
        for card in seen.cards:
            labels = [f"{seen.node}:{card.index}", card.model, seen.node]
            _add_sample(family, labels, figure(card))
        yield family


def _collect_containers(seen: NodeObservation) -> Iterator[Metric]:
    gauges: Mapping[str, tuple[str, Callable[[HeldSeat], float | None]]] = {
        "limit_milli": (
            "Thousandths of the card that the container was granted.",
            lambda one: one.seat.gpu_milli,
        ),
        "limit_bytes": (
            "Memory of the card that it was granted.",
            lambda one: one.seat.memory_bytes,
        ),
        "memory_used_bytes": ("Memory of the card that the driver has given to it.", seen.memory),
        "memory_reserved_bytes": (
            "The same with what is being asked for: what counts against the limit.",
            lambda one: None if one.fence is None else one.fence.reserved_bytes,
        ),
    }
    counters: Mapping[str, tuple[str, Callable[[FenceDeviceUsage], float]]] = {
        "gpu_seconds": (
            "GPU time that it used of the card, measured.",
            lambda fence: fence.gpu_ns / NANOS_PER_SECOND,
        ),
        "wait_seconds": (
            "Time in which its threads were held back.",
            lambda fence: fence.wait_ns / NANOS_PER_SECOND,
        ),
        "throttled_seconds": (
            "The part of it for which the share was used up.",
            lambda f: f.throttled_ns / NANOS_PER_SECOND,
        ),
        "launches": ("Kernels, graphs and copies that it submitted.", lambda fence: fence.launches),
        "refusals": ("Allocations refused for its limit.", lambda fence: fence.refusals),
    }
    for name, (text, figure) in gauges.items():
        gauge = GaugeMetricFamily(f"gpupool_container_{name}", text, labels=CONTAINER)
        for one in seen.held:
            _add_sample(gauge, _build_labels(seen, one), figure(one))
        yield gauge
    for name, (text, counted) in counters.items():
        counter = CounterMetricFamily(f"gpupool_container_{name}", text, labels=CONTAINER)
        for one in seen.held:
            if one.fence is not None:
                _add_sample(counter, _build_labels(seen, one), counted(one.fence))
        yield counter


def _count_findings(node: str, findings: Mapping[tuple[str, str], int]) -> Metric:
    text = "What was found past its fence, by kind (docs/concepts/fence.md)."
    family = CounterMetricFamily("gpupool_container_fence_findings", text, labels=FINDING)
    for (container, kind), count in sorted(findings.items()):
        _add_sample(family, [*container.split("/"), kind, node], count)
    return family


def _build_labels(seen: NodeObservation, one: HeldSeat) -> list[str]:
    entry = one.entry
    card = one.card
    who = [entry.namespace, entry.pod, entry.container, entry.tenant]
    return [*who, card.uuid, str(card.index), card.product or card.model, seen.node]


def _collect_dcgm(
    seen: NodeObservation, ratios: Mapping[tuple[str, str, str], float]
) -> Iterator[Metric]:
    # Units are those of DCGM's fields (docs.nvidia.com/datacenter/dcgm, field identifiers):
    # percent, MiB, a ratio, watts, degrees.

    def read_ratio(one: HeldSeat) -> float | None:
        # The load of a shared card is of all its containers, so it stands for none of them.
        percent = seen.usage(one.card.uuid).utilization_percent
        known = None if percent is None or not one.whole else percent / 100
        return ratios.get(_seat_key(one), known)

    def read_used_mib(one: HeldSeat) -> float | None:
        found = seen.memory(one)
        return None if found is None else found // MIB

    def read_percent(one: HeldSeat) -> float | None:
        ratio = read_ratio(one)
        return None if ratio is None else round(100 * ratio)

    def read_free_mib(one: HeldSeat) -> float | None:
        used = read_used_mib(one)
        return None if used is None else max(0, one.seat.memory_bytes // MIB - used)

    figures: Mapping[str, tuple[str, Callable[[HeldSeat], float | None]]] = {
        "PROF_GR_ENGINE_ACTIVE": ("Part of the card's time that the container had.", read_ratio),
        "DEV_GPU_UTIL": ("The same in percent.", read_percent),
        "DEV_FB_USED": ("Memory that the container uses, MiB.", read_used_mib),
        "DEV_FB_FREE": ("Memory that it may still use, MiB.", read_free_mib),
    }
    for name, (text, figure) in figures.items():
        family = GaugeMetricFamily(f"DCGM_FI_{name}", text, labels=DCGM)
        for one in seen.held:
            entry = one.entry
            owner = [entry.namespace, entry.pod, entry.container]
            _add_sample(family, [*_build_card_labels(seen, one.card), *owner], figure(one))
        yield family
    said: Mapping[str, tuple[str, Callable[[DeviceUsage], float | None]]] = {
        "DEV_POWER_USAGE": ("Power that the card draws, W.", lambda usage: usage.power_watts),
        "DEV_GPU_TEMP": (
            "The card's temperature, degrees Celsius.",
            lambda usage: usage.temperature_celsius,
        ),
    }
    for name, (text, reading) in said.items():
        family = GaugeMetricFamily(f"DCGM_FI_{name}", text, labels=DCGM)
        for card in seen.cards:
            labels = [*_build_card_labels(seen, card), "", "", ""]
            _add_sample(family, labels, reading(seen.usage(card.uuid)))
        yield family


def _build_card_labels(seen: NodeObservation, card: Device) -> list[str]:
    return [
        str(card.index),
        card.uuid,
        f"nvidia{card.index}",
        card.product or card.model,
        seen.node,
    ]


def _add_sample(
    family: GaugeMetricFamily | CounterMetricFamily, labels: Sequence[str], value: float | None
) -> None:
    # An absent sample, not 0: a dashboard must not show a card that nothing measures as idle.
    if value is not None:
        family.add_metric(labels, value)


def _seat_key(one: HeldSeat) -> tuple[str, str, str]:
    return (*one.entry.key, one.card.uuid)
