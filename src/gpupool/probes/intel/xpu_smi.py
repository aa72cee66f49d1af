"""Reads the output of xpu-smi, Intel's tool for its cards. Pure.

Formats: github.com/intel/xpumanager, branch v1.3.x: doc/smi_user_guide.md (`discovery -j`),
rest/views/devices.py (`discovery -d`), rest/views/statistics.py and cli/src/comlet_statistics.cpp
(`stats -j`: `device_level`, and for cards of several tiles `tile_level`, each with entries of
`metrics_type` and `value`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpupool.model.device import DeviceHealth


@dataclass(frozen=True)
class XpuCard:
    """One card as `discovery` lists it; sizes and versions come from `discovery -d`."""

    number: int
    address: str
    product: str
    uuid: str
    memory_bytes: int | None = None
    driver_version: str | None = None


@dataclass(frozen=True)
class XpuStatistics:
    """What `stats` says of one card at one moment."""

    utilization_percent: int | None = None
    memory_used_bytes: int | None = None
    power_watts: int | None = None
    temperature_celsius: int | None = None
    uncorrected_errors: int | None = None

    def judge_health(self) -> tuple[DeviceHealth, str]:
        if self.uncorrected_errors is None:
            return DeviceHealth.UNKNOWN, "no tool tells the card's error counters"
        if self.uncorrected_errors:
            count = self.uncorrected_errors
            return DeviceHealth.WARNING, f"{count} uncorrected errors since the driver was loaded"
        return DeviceHealth.OK, ""


def parse_discovery(text: str) -> tuple[XpuCard, ...]:
    """Return the cards of `xpu-smi discovery -j`; virtual functions are left out."""
    cards = []
    for entry in _list_entries(_load(text), "device_list"):
        address = str(entry.get("pci_bdf_address", "")).lower()
        if address and entry.get("device_function_type", "physical") == "physical":
            cards.append(_read_card(entry, address))
    return tuple(cards)


def parse_detail(text: str) -> XpuCard | None:
    """Return the card of `xpu-smi discovery -d ADDRESS -j`; None for any other output."""
    entry = _load(text)
    address = str(entry.get("pci_bdf_address", "")).lower()
    return _read_card(entry, address) if address else None


def _read_card(entry: Mapping[str, Any], address: str) -> XpuCard:
    return XpuCard(
        _read_whole(entry.get("device_id")) or 0,
        address,
        str(entry.get("device_name", "")),
        str(entry.get("uuid", "")),
        _read_whole(entry.get("memory_physical_size_byte")),
        str(entry["driver_version"]) if entry.get("driver_version") else None,
    )


def parse_statistics(text: str) -> XpuStatistics:
    """Return the figures of `xpu-smi stats -d ADDRESS -j`; all None for any other output."""
    document = _load(text)
    device = _read_metrics(_list_entries(document, "device_level"))
    tiles = []
    for tile in _list_entries(document, "tile_level"):
        tiles.append(_read_metrics(_list_entries(tile, "data_list")))
    used = _sum_metric("XPUM_STATS_MEMORY_USED", device, tiles)
    utilization = device.get("XPUM_STATS_GPU_UTILIZATION")
    if utilization is None:
        utilization = _find_mean("XPUM_STATS_GPU_UTILIZATION", tiles)
    errors = [_sum_uncorrected(found) for found in (device, *tiles)]
    counted = [count for count in errors if count is not None]
    hottest = [found.get("XPUM_STATS_GPU_CORE_TEMPERATURE") for found in (device, *tiles)]
    known = [value for value in hottest if value is not None]
    return XpuStatistics(
        _round(utilization),
        # In MiB.
        None if used is None else round(used * (1 << 20)),
        _round(_sum_metric("XPUM_STATS_POWER", device, tiles)),
        _round(max(known, default=None)),
        sum(counted) if counted else None,
    )


def _sum_metric(
    name: str, device: Mapping[str, float], tiles: list[dict[str, float]]
) -> float | None:
    if name in device:
        return device[name]
    values = [tile[name] for tile in tiles if name in tile]
    return sum(values) if values else None


def _sum_uncorrected(metrics: Mapping[str, float]) -> int | None:
    counts = [v for key, v in metrics.items() if key.endswith("_UNCORRECTABLE")]
    return round(sum(counts)) if counts else None


def _find_mean(name: str, tiles: list[dict[str, float]]) -> float | None:
    values = [tile[name] for tile in tiles if name in tile]
    return sum(values) / len(values) if values else None


def _read_metrics(entries: Iterator[Mapping[str, Any]]) -> dict[str, float]:
    found = {}
    for entry in entries:
        value = entry.get("value")
        if isinstance(value, int | float) and not isinstance(value, bool):
            found[str(entry.get("metrics_type"))] = float(value)
    return found


def _list_entries(document: Mapping[str, Any], key: str) -> Iterator[Mapping[str, Any]]:
    entries = document.get(key)
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, Mapping):
            yield entry


def _load(text: str) -> Mapping[str, Any]:
    try:
        document = json.loads(text)
    except ValueError:
        return {}
    return document if isinstance(document, Mapping) else {}


def _read_whole(value: object) -> int | None:
    """Return a whole number that some versions of the tool print as text."""
    try:
        return int(str(value))
    except ValueError:
        return None


def _round(value: float | None) -> int | None:
    return None if value is None else round(value)
