"""Reads the table that `cnmon` prints of Cambricon's MLUs. Pure.

Two lines for each card. Version 5 shows the PCI address where version 4 showed the driver.
"""

from __future__ import annotations

import re
from typing import Final

from gpupool.model.device import DeviceProcess
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

_VERSION: Final = re.compile(r"Driver v(\S+)|CNMON v(\S+)")
_TEMPERATURE: Final = re.compile(r"(\d+)C\b")
_POWER: Final = re.compile(r"(\d+(?:\.\d+)?)\s*W\s*/")
#: Card, virtual function, pid, command line, memory.
_PROCESS: Final = re.compile(r"\|\s+(\d+)\s+\S+\s+(\d+)\s+.*?(\d+)\s*MiB\s*\|")


def parse_table(text: str) -> ToolReport:
    """Return the cards of the table, each with its processes."""
    cards = []
    above: list[str] = []
    body, _, listed = text.partition("Processes:")
    for line in body.splitlines():
        cells = split_cells(line)
        if len(cells) == len(above) == 3 and "MiB" in cells[1] and above[0][:1].isdigit():
            number = int(above[0].split()[0])
            cards.append(_read_card(number, above, cells, list_processes(_PROCESS, listed, number)))
        above = cells
    found = _VERSION.search(text)
    return ToolReport(tuple(cards), (found.group(1) or found.group(2)) if found else None)


def _read_card(
    number: int, upper: list[str], lower: list[str], processes: tuple[DeviceProcess, ...]
) -> ToolCard:
    words = upper[0].split()
    used, _, total = lower[1].partition("/")
    power = _POWER.search(lower[0])
    temperature = _TEMPERATURE.search(lower[0])
    return ToolCard(
        number=number,
        product=f"Cambricon {words[2]}" if len(words) > 2 else "Cambricon",
        memory_bytes=parse_mib(total),
        address=parse_address(upper[1]),
        used_bytes=parse_mib(used),
        utilization_percent=parse_whole(upper[2]),
        power_watts=parse_whole(power.group(1)) if power else None,
        temperature_celsius=parse_whole(temperature.group(1)) if temperature else None,
        health_reason="cnmon shows no health",
        processes=processes,
    )


FORMAT = ToolFormat(
    vendor="cambricon",
    tool=ToolPlace(
        ("cnmon",), ("/usr/bin/cnmon", "/usr/local/neuware/bin/cnmon"), "the Cambricon driver"
    ),
    queries=(ToolQuery((), parse_table),),
    source="github.com/PaddlePaddle/docs, docs/guides/hardware_support/mlu_docs/paddle_install_cn.md",
    card_nodes=("/dev/cambricon_dev{number}",),
    shared_nodes=("/dev/cambricon_ctl",),
)
