"""Reads the table that `mthreads-gmi` prints of Moore Threads' GPUs: three lines for each. Pure."""

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
)

_VERSION: Final = re.compile(r"Driver Version:\s*(\S+)")
#: Number, product, PCI address, utilization, memory used and total.
_CARD: Final = re.compile(
    r"^(\d+)\s+(\S.*?)\s*\|([0-9A-Fa-f:.]+)\s*\|(\d+|N/A)%?\s+(\d+)MiB\((\d+)MiB\)"
)
_TEMPERATURE: Final = re.compile(r"\|(\d+)C\b")
#: Number of the card, pid, process name, memory.
_PROCESS: Final = re.compile(r"^(\d+)\s+(\d+)\s+\S.*?\s(\d+)MiB\s*$", re.MULTILINE)


def parse_table(text: str) -> ToolReport:
    """Return the cards of the table, each with its processes."""
    body, heading, listed = text.partition("Processes:")
    lines = body.splitlines()
    cards = []
    for line, below in zip(lines, [*lines[1:], ""], strict=False):
        found = _CARD.match(line)
        if found:
            uses = list_processes(_PROCESS, listed, int(found.group(1))) if heading else None
            cards.append(_read_card(found, _TEMPERATURE.search(below), uses))
    version = _VERSION.search(text)
    return ToolReport(tuple(cards), version.group(1) if version else None)


def _read_card(
    row: re.Match[str],
    temperature: re.Match[str] | None,
    processes: tuple[DeviceProcess, ...] | None,
) -> ToolCard:
    return ToolCard(
        number=int(row.group(1)),
        product=f"Moore Threads {row.group(2)}",
        memory_bytes=parse_mib(row.group(6)),
        address=parse_address(row.group(3)),
        used_bytes=parse_mib(row.group(5)),
        utilization_percent=parse_whole(row.group(4)),
        temperature_celsius=parse_whole(temperature.group(1)) if temperature else None,
        health_reason="mthreads-gmi shows no health",
        processes=processes,
    )


FORMAT = ToolFormat(
    vendor="mthreads",
    tool=ToolPlace(("mthreads-gmi",), ("/usr/bin/mthreads-gmi",), "the Moore Threads driver"),
    queries=(ToolQuery((), parse_table),),
    source="github.com/gpustack/gpustack, docs/tutorials/running-inference-with-moorethreads-gpus.md",
    card_nodes=("/dev/mtgpu.{number}",),
    has_drm=True,
)
