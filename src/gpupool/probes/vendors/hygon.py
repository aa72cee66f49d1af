"""Reads `hy-smi --json` of Hygon's DCUs: an object for each card, all values as text. Pure.

The tool descends from rocm-smi. Newer versions say HCU where older ones said DCU.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

from gpupool.probes.common.vendor_tool import ToolPlace
from gpupool.probes.vendors.tool_report import (
    ToolCard,
    ToolFormat,
    ToolQuery,
    ToolReport,
    find_whole,
    parse_address,
    parse_mib,
    parse_number,
    parse_whole,
)

_CARD: Final = re.compile(r"^card(\d+)$")
_QUERY: Final = (
    "--showid",
    "--showuniqueid",
    "--showbus",
    "--showproductname",
    *("--showmeminfo", "vram"),
    "--showuse",
    "--showpower",
    "--showtemp",
    "--json",
)
_UTILIZATION: Final = ("HCU use (%)", "DCU use (%)")
_TEMPERATURE: Final = ("Temperature (Sensor edge) (C)", "Temperature (Sensor core) (C)")


def parse_json(text: str) -> ToolReport:
    """Return the cards; none for an answer that is no JSON object."""
    # Warnings may stand before it.
    _, brace, rest = text.partition("{")
    try:
        document = json.loads(brace + rest)
    except ValueError:
        return ToolReport()
    cards = []
    for name, entry in document.items():
        found = _CARD.match(name)
        if found and isinstance(entry, dict):
            cards.append(_read_card(int(found.group(1)), entry))
    return ToolReport(tuple(sorted(cards, key=lambda card: card.number)))


def _read_card(number: int, entry: Mapping[str, str]) -> ToolCard:
    unique = entry.get("Unique ID", "")
    return ToolCard(
        number=number,
        product=f"Hygon {entry.get('Card Series') or 'DCU'}",
        memory_bytes=_read_memory(entry, "Total Memory"),
        uuid=f"GPU-{unique.removeprefix('0x')}" if parse_hex(unique) else "",
        address=parse_address(entry.get("PCI Bus")),
        used_bytes=_read_memory(entry, "Total Used Memory"),
        utilization_percent=find_whole(entry, _UTILIZATION),
        power_watts=parse_whole(entry.get("Average Graphics Package Power (W)")),
        temperature_celsius=find_whole(entry, _TEMPERATURE),
        health_reason="hy-smi shows no health",
    )


def parse_hex(text: str) -> int:
    """Return a number in hex; 0 for any other text."""
    try:
        return int(text, 16)
    except ValueError:
        return 0


def _read_memory(entry: Mapping[str, str], what: str) -> int | None:
    if f"vram {what} (MiB)" in entry:
        return parse_mib(entry[f"vram {what} (MiB)"])
    number = parse_number(entry.get(f"vram {what} (B)", entry.get(f"VRAM {what} (B)")))
    return None if number is None else round(number)


FORMAT = ToolFormat(
    vendor="hygon",
    tool=ToolPlace(("hy-smi",), ("/opt/hyhal/bin/hy-smi",), "Hygon's driver (hyhal)"),
    queries=(ToolQuery(_QUERY, parse_json),),
    source="github.com/gpustack/gpustack, tests/detectors/rocm_smi/data/"
    "hygon-gpu-24.04.3-rocm-smi.json; names of HCU: github.com/flashcatcloud/categraf, inputs/hy_smi",
    shared_nodes=("/dev/kfd", "/dev/mkfd"),
    has_drm=True,
)
