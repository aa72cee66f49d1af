"""Reads the table that `mx-smi` prints of MetaX's GPUs: two lines for each card. Pure."""

from __future__ import annotations

import re
from typing import Final

from gpupool.model.device import DeviceHealth, DeviceProcess
from gpupool.probes.common.vendor_tool import ToolPlace
from gpupool.probes.vendors.tool_report import (
    ToolCard,
    ToolFormat,
    ToolQuery,
    ToolReport,
    list_processes,
    parse_address,
    parse_mib,
    parse_whole,
    split_cells,
)

_VERSION: Final = re.compile(r"Driver Version:\s*(\S+)")
#: Number, product and whether persistence mode is on.
_NAME: Final = re.compile(r"(\d+)\s+(.+?)\s+(?:On|Off|N/A)$")
#: Card, pid, process name, memory in MiB.
_PROCESS: Final = re.compile(r"\|\s+(\d+)\s+(\d+)\s+\S.*?\s(\d+)\s*\|")
_POWER: Final = re.compile(r"(\d+(?:\.\d+)?)W\s*/")
#: The state of a card that can be used.
_AVAILABLE: Final = "Available"


def parse_table(text: str) -> ToolReport:
    """Return the cards of the table, each with its processes."""
    cards = []
    above: list[str] = []
    body, heading, listed = text.partition("Process:")
    for line in body.splitlines():
        cells = split_cells(line)
        name = _NAME.match(above[0]) if len(cells) == len(above) == 3 else None
        if name and parse_address(above[1]):
            number = int(name.group(1))
            uses = list_processes(_PROCESS, listed, number) if heading else None
            cards.append(_read_card(number, name.group(2), above, cells, uses))
        above = cells
    found = _VERSION.search(text)
    return ToolReport(tuple(cards), found.group(1) if found else None)


def _read_card(
    number: int,
    product: str,
    upper: list[str],
    lower: list[str],
    processes: tuple[DeviceProcess, ...] | None,
) -> ToolCard:
    used, _, total = lower[1].partition("/")
    power = _POWER.search(lower[0])
    is_available = lower[2] == _AVAILABLE
    return ToolCard(
        number=number,
        product=product,
        memory_bytes=parse_mib(total),
        address=parse_address(upper[1]),
        used_bytes=parse_mib(used),
        utilization_percent=parse_whole(upper[2]),
        power_watts=parse_whole(power.group(1)) if power else None,
        temperature_celsius=parse_whole(lower[0]),
        health=DeviceHealth.OK if is_available else DeviceHealth.WARNING,
        health_reason="" if is_available else f"mx-smi says {lower[2]}",
        processes=processes,
    )


FORMAT = ToolFormat(
    vendor="metax",
    tool=ToolPlace(("mx-smi",), ("/opt/mxdriver/bin/mx-smi",), "the MetaX driver"),
    queries=(ToolQuery((), parse_table),),
    source="github.com/Approaching-AI/AIMA, internal/hal/hal_test.go",
    shared_nodes=("/dev/mxcd",),
    has_drm=True,
)
