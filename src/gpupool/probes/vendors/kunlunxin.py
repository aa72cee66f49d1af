"""Reads `xpu_smi -m` of Kunlunxin's XPUs: one line of columns without names for each chip. Pure.

Columns from 0: 0 PCI address, 2 number, 3 serial, 4 temperature in C, 8 power in W, 17 and 18
memory used and total in MiB, 19 utilization in percent, 21 product in quotes. FlagPerf reads the
same ones (github.com/FlagOpen/FlagPerf, base/vendors/kunlunxin/kunlunxin_monitor.py).
"""

from __future__ import annotations

import re
from typing import Final

from gpupool.probes.common.vendor_tool import ToolPlace
from gpupool.probes.vendors.tool_report import (
    ToolCard,
    ToolFormat,
    ToolQuery,
    ToolReport,
    parse_address,
    parse_mib,
    parse_whole,
)

_WORD: Final = re.compile(r'"[^"]*"|\S+')
_LEAST_COLUMNS: Final = 22


def parse_lines(text: str) -> ToolReport:
    """Return the chip of each line that begins with a PCI address."""
    cards = []
    for line in text.splitlines():
        words = _WORD.findall(line)
        if len(words) >= _LEAST_COLUMNS and parse_address(words[0]) and words[2].isdigit():
            cards.append(_read_card(words))
    return ToolReport(tuple(cards))


def _read_card(words: list[str]) -> ToolCard:
    product = words[21].strip('"')
    return ToolCard(
        number=int(words[2]),
        product=f"Kunlunxin {product}",
        memory_bytes=parse_mib(words[18]),
        # Not the serial number: the chips of one board share it.
        address=parse_address(words[0]),
        used_bytes=parse_mib(words[17]),
        utilization_percent=parse_whole(words[19]),
        power_watts=parse_whole(words[8]),
        temperature_celsius=parse_whole(words[4]),
        health_reason="xpu_smi shows no health",
    )


FORMAT = ToolFormat(
    vendor="kunlunxin",
    # Intel's tool is named xpu-smi as well, so that name is taken at Kunlunxin's own places alone.
    tool=ToolPlace(
        ("xpu_smi",),
        ("/usr/local/xpu/bin/xpu_smi", "/usr/local/xpu/bin/xpu-smi", "/opt/xre/bin/xpu-smi"),
        "Kunlunxin's runtime (XRE)",
    ),
    queries=(ToolQuery(("-m",), parse_lines),),
    source="github.com/xyDong0223/infer-forge-harness, the tests of tools/memory_budget",
    card_nodes=("/dev/xpu{number}",),
    shared_nodes=("/dev/xpuctrl",),
)
