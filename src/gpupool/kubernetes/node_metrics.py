"""/metrics of a node's agent: its cards, and of every container with cards what it was granted and what it uses.

A container's series are there from the moment its pod is bound, limits included, and not only once it computes. Names
are a contract (tests/golden/metrics_names.txt). Labels of containers are those that boards for DCGM's exporter know, so
whoever scrapes has to honour them (`honorLabels`). What nobody measures is absent, never 0. With `dcgm` the same is
told under the names of that exporter as well, for boards and cost reports that know no others: there each container has
its own part of a shared card. Not where that exporter runs too, or every figure is there twice.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gpupool.base.units import MIB, WHOLE
from gpupool.kubernetes.objects import Entry
from gpupool.mechanisms.contract import GrantedDevice
from gpupool.mechanisms.regions import FenceDeviceUsage
from gpupool.mechanisms.whole import is_whole
from gpupool.model.allocation import Seat
from gpupool.model.device import Device, DeviceUsage, Health

CONTAINER: Final = ("namespace", "pod", "container", "tenant", "UUID", "gpu", "modelName", "Hostname")
FINDING: Final = ("namespace", "pod", "container", "kind", "Hostname")
CARD: Final = ("card", "model", "node")
DCGM: Final = ("gpu", "UUID", "device", "modelName", "Hostname", "namespace", "pod", "container")
_NS = 10**9
RATE_SECONDS = 1.0
"""Looks that follow each other sooner share a rate."""


@dataclass(frozen=True)
class Held:
    """One container's part of one card. `fence`: what its processes say; None where nothing is counted for it."""

    entry: Entry
    seat: Seat
    card: Device
    fence: FenceDeviceUsage | None

    @property
    def whole(self) -> bool:
        """All of the card: then what the card says is the container's."""
        return is_whole(GrantedDevice(self.card, self.seat.gpu_milli, self.seat.memory_bytes))


def held_of(entry: Entry, seat: Seat, card: Device, counted: Mapping[str, FenceDeviceUsage] | None) -> Held:
    """`counted`: what the entry's processes say by card, empty before it is prepared; None where nothing is counted."""
    one = Held(entry, seat, card, None)
    if counted is None or (one.whole and not counted):
        return one
    return replace(one, fence=counted.get(card.uuid, FenceDeviceUsage()))


class Seen:
    """One look at the node. `usages`: what the cards say, by uuid."""

    def __init__(
        self, node: str, cards: Sequence[Device], held: Sequence[Held], usages: Mapping[str, DeviceUsage]
    ) -> None:
        self.node, self.cards, self.held = node, cards, held
        self._usages = usages

    def usage(self, uuid: str) -> DeviceUsage:
        return self._usages.get(uuid, DeviceUsage())

    def memory(self, one: Held) -> int | None:
        """Bytes that the driver has given to it."""
        if one.fence is not None:
            return one.fence.committed_bytes
        return self.usage(one.card.uuid).memory_used_bytes if one.whole else None


class NodeMetrics(Collector):
    """`look` sees the node anew; `seconds` is a monotonic clock; `findings` counts what was found of a container
    (`namespace/pod/container`) by kind. Called from one thread or several.
    """

    def __init__(
        self,
        look: Callable[[], Seen],
        seconds: Callable[[], float] = time.monotonic,
        *,
        dcgm: bool,
        findings: Callable[[], Mapping[tuple[str, str], int]] = dict,
    ) -> None:
        self._look, self._rates, self._dcgm = look, _Rates(seconds), dcgm
        self._findings = findings

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        seen = self._look()
        yield from _cards(seen)
        yield from _containers(seen)
        yield _found(seen.node, self._findings())
        if self._dcgm:
            yield from _as_dcgm(seen, self._rates.of(seen))


def _cards(seen: Seen) -> Iterator[Metric]:
    here = {card.uuid: [one for one in seen.held if one.card.uuid == card.uuid] for card in seen.cards}
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
        "utilization_percent": ("What the card says of its load.", lambda card: said[card.uuid].utilization_percent),
        "memory_used_bytes": ("Memory in use as the card says.", lambda card: said[card.uuid].memory_used_bytes),
        "power_watts": ("Power that the card draws.", lambda card: said[card.uuid].power_watts),
        "temperature_celsius": ("The card's temperature.", lambda card: said[card.uuid].temperature_celsius),
        "failed": ("1 where the card cannot be used.", lambda card: int(card.health is Health.FAILED)),
    }
    for name, (text, figure) in figures.items():
        family = GaugeMetricFamily(f"gpupool_card_{name}", text, labels=CARD)
        for card in seen.cards:
            _add(family, [f"{seen.node}:{card.index}", card.model, seen.node], figure(card))
        yield family


def _containers(seen: Seen) -> Iterator[Metric]:
    gauges: Mapping[str, tuple[str, Callable[[Held], float | None]]] = {
        "limit_milli": ("Thousandths of the card that the container was granted.", lambda one: one.seat.gpu_milli),
        "limit_bytes": ("Memory of the card that it was granted.", lambda one: one.seat.memory_bytes),
        "memory_used_bytes": ("Memory of the card that the driver has given to it.", seen.memory),
        "memory_reserved_bytes": (
            "The same with what is being asked for: what counts against the limit.",
            lambda one: None if one.fence is None else one.fence.reserved_bytes,
        ),
    }
    counters: Mapping[str, tuple[str, Callable[[FenceDeviceUsage], float]]] = {
        "gpu_seconds": ("GPU time that it used of the card, measured.", lambda fence: fence.gpu_ns / _NS),
        "wait_seconds": ("Time in which its threads were held back.", lambda fence: fence.wait_ns / _NS),
        "throttled_seconds": ("The part of it for which the share was used up.", lambda f: f.throttled_ns / _NS),
        "launches": ("Kernels, graphs and copies that it submitted.", lambda fence: fence.launches),
        "refusals": ("Allocations refused for its limit.", lambda fence: fence.refusals),
    }
    for name, (text, figure) in gauges.items():
        gauge = GaugeMetricFamily(f"gpupool_container_{name}", text, labels=CONTAINER)
        for one in seen.held:
            _add(gauge, _labels(seen, one), figure(one))
        yield gauge
    for name, (text, counted) in counters.items():
        counter = CounterMetricFamily(f"gpupool_container_{name}", text, labels=CONTAINER)
        for one in seen.held:
            if one.fence is not None:
                _add(counter, _labels(seen, one), counted(one.fence))
        yield counter


def _found(node: str, findings: Mapping[tuple[str, str], int]) -> Metric:
    text = "What was found past its fence, by kind (docs/concepts/fence.md)."
    family = CounterMetricFamily("gpupool_container_fence_findings", text, labels=FINDING)
    for (container, kind), count in sorted(findings.items()):
        _add(family, [*container.split("/"), kind, node], count)
    return family


def _labels(seen: Seen, one: Held) -> list[str]:
    entry, card = one.entry, one.card
    who = [entry.namespace, entry.pod, entry.container, entry.tenant]
    return [*who, card.uuid, str(card.index), card.product or card.model, seen.node]


def _as_dcgm(seen: Seen, ratios: Mapping[tuple[str, str, str], float]) -> Iterator[Metric]:
    """Fields of DCGM (docs.nvidia.com/datacenter/dcgm, field identifiers): percent, MiB, a ratio, watts, degrees."""

    def ratio(one: Held) -> float | None:
        percent = seen.usage(one.card.uuid).utilization_percent
        known = None if percent is None or not one.whole else percent / 100
        return ratios.get(_key(one), known)

    def used(one: Held) -> float | None:
        found = seen.memory(one)
        return None if found is None else found // MIB

    figures: Mapping[str, tuple[str, Callable[[Held], float | None]]] = {
        "PROF_GR_ENGINE_ACTIVE": ("Part of the card's time that the container had.", ratio),
        "DEV_GPU_UTIL": ("The same in percent.", lambda one: None if (r := ratio(one)) is None else round(100 * r)),
        "DEV_FB_USED": ("Memory that the container uses, MiB.", used),
        "DEV_FB_FREE": (
            "Memory that it may still use, MiB.",
            lambda one: None if (u := used(one)) is None else max(0, one.seat.memory_bytes // MIB - u),
        ),
    }
    for name, (text, figure) in figures.items():
        family = GaugeMetricFamily(f"DCGM_FI_{name}", text, labels=DCGM)
        for one in seen.held:
            entry = one.entry
            _add(family, [*_of_card(seen, one.card), entry.namespace, entry.pod, entry.container], figure(one))
        yield family
    said: Mapping[str, tuple[str, Callable[[DeviceUsage], float | None]]] = {
        "DEV_POWER_USAGE": ("Power that the card draws, W.", lambda usage: usage.power_watts),
        "DEV_GPU_TEMP": ("The card's temperature, degrees Celsius.", lambda usage: usage.temperature_celsius),
    }
    for name, (text, reading) in said.items():
        family = GaugeMetricFamily(f"DCGM_FI_{name}", text, labels=DCGM)
        for card in seen.cards:
            _add(family, [*_of_card(seen, card), "", "", ""], reading(seen.usage(card.uuid)))
        yield family


def _of_card(seen: Seen, card: Device) -> list[str]:
    return [str(card.index), card.uuid, f"nvidia{card.index}", card.product or card.model, seen.node]


def _add(family: GaugeMetricFamily | CounterMetricFamily, labels: Sequence[str], value: float | None) -> None:
    if value is not None:
        family.add_metric(labels, value)


def _key(one: Held) -> tuple[str, str, str]:
    return (*one.entry.key, one.card.uuid)


class _Rates:
    """Which part of a card's time each container had since the look before this one."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds, self._lock = seconds, threading.Lock()
        self._known: dict[tuple[str, str, str], tuple[float, int, float]] = {}
        """When it was looked at, its GPU time then, and its part before."""

    def of(self, seen: Seen) -> Mapping[tuple[str, str, str], float]:
        now = self._seconds()
        with self._lock:
            fenced = {_key(one): one.fence.gpu_ns for one in seen.held if one.fence is not None}
            self._known = {key: self._next(self._known.get(key, (now, ns, 0.0)), now, ns) for key, ns in fenced.items()}
            return {key: ratio for key, (_, _, ratio) in self._known.items()}

    @staticmethod
    def _next(known: tuple[float, int, float], now: float, gpu_ns: int) -> tuple[float, int, float]:
        at, before, _ = known
        if now - at < RATE_SECONDS:
            return known
        return now, gpu_ns, min(1.0, max(0.0, (gpu_ns - before) / _NS / (now - at)))
