"""Reads `efsmi -q` of Enflame's GCUs: a block of `key : value` for each card. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from gpupool.model.device import DeviceHealth
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

_CARD: Final = re.compile(r"^\s*DEV ID (\d+)\s*$")


def parse_blocks(text: str) -> ToolReport:
    """Return one card for each block that begins with `DEV ID`."""
    blocks: dict[int, dict[str, str]] = {}
    block: dict[str, str] = {}
    for line in text.splitlines():
        found = _CARD.match(line)
        if found:
            block = blocks.setdefault(int(found.group(1)), {})
        key, colon, value = line.partition(":")
        if colon:
            # The first of a name counts: `Status` and `Current` occur in several groups.
            block.setdefault(key.strip(), value.strip())
    cards = [_read_card(number, block) for number, block in blocks.items()]
    versions = [block["Ver"] for block in blocks.values() if "Ver" in block]
    return ToolReport(tuple(cards), versions[0] if versions else None)


def _read_card(number: int, block: Mapping[str, str]) -> ToolCard:
    health, reason = _judge_health(block.get("Health"))
    names = ("Domain", "Bus", "Dev", "Func")
    domain, bus, device, function = (block.get(name, "") for name in names)
    return ToolCard(
        number=number,
        product=f"Enflame {block.get('Dev Name', '')}".strip(),
        # Before driver 1.4 the names were Mem Size and Mem Usage.
        memory_bytes=parse_mib(block.get("Total Size", block.get("Mem Size"))),
        uuid=block.get("Dev UUID", ""),
        address=parse_address(f"{domain or 0}:{bus:0>2}:{device:0>2}.{function}"),
        used_bytes=parse_mib(block.get("Used Size", block.get("Mem Usage"))),
        utilization_percent=parse_whole(block.get("GCU Usage")),
        power_watts=parse_whole(block.get("Cur Power")),
        temperature_celsius=parse_whole(block.get("GCU Temp")),
        health=health,
        health_reason=reason,
    )


def _judge_health(text: str | None) -> tuple[DeviceHealth, str]:
    if text is None:
        return DeviceHealth.UNKNOWN, "this efsmi shows no health"
    if text.lower() == "true":
        return DeviceHealth.OK, ""
    return DeviceHealth.FAILED, f"efsmi says Health: {text}"


FORMAT = ToolFormat(
    vendor="enflame",
    tool=ToolPlace(
        ("efsmi",),
        ("/usr/bin/efsmi", "/usr/sbin/efsmi", "/usr/local/efsmi/efsmi"),
        "the Enflame driver",
    ),
    queries=(ToolQuery(("-q",), parse_blocks),),
    source="github.com/zstackio/zstack-utility, zstacklib/zstacklib/gpu/vendors/enflame.py",
    card_nodes=("/dev/gcu{number}",),
    shared_nodes=("/dev/gcuctl",),
)
