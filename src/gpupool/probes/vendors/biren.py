"""Reads the table that `brsmi` prints of Biren's GPUs: three lines for each card. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from gpupool.model.device import DeviceHealth
from gpupool.probes.common.vendor_tool import ToolPlace
from gpupool.probes.vendors.tool_report import (
    ToolCard,
    ToolFormat,
    ToolQuery,
    ToolReport,
    list_processes,
    parse_address,
    parse_mib,
    parse_number,
    parse_whole,
    split_cells,
)

_VERSION: Final = re.compile(r"Driver Version:\s*(\S+)")
#: Number and product.
_NAME: Final = re.compile(r"(\d+)\s+(\S.*)$")
#: Card, SVI instance, pid, process name, memory in MiB.
_PROCESS: Final = re.compile(r"\|\s+(\d+)\s+\S+\s+(\d+)\s+\S.*?\s(\d+)MiB\s*\|")
_POWER: Final = re.compile(r"(\d+(?:\.\d+)?)W\s*/")
#: Lines of one card, and cells of each.
_LINES: Final = 3
_CELLS: Final = 3
#: The words of a card that is not cut into hardware partitions (SVI).
_WHOLE: Final = frozenset({"Disabled", "N/A"})

#: Cells of the lines of one card.
Rows = list[list[str]]


def parse_table(text: str) -> ToolReport:
    """Return the cards of the table, each with its processes."""
    body, heading, listed = text.partition("Processes:")
    found = list(_find_cards(body))
    parted = [number for number, _, rows in found if rows[2][2] not in _WHOLE]
    cards = []
    for number, product, rows in found:
        uses = list_processes(_PROCESS, listed, number) if heading else None
        health, reason = _judge_health(rows[0][2], parted)
        cards.append(
            ToolCard(
                number=number,
                product=product,
                memory_bytes=parse_mib(rows[1][1].partition("/")[2]),
                address=parse_address(rows[0][1]),
                used_bytes=parse_mib(rows[1][1]),
                utilization_percent=parse_whole(rows[1][2]),
                power_watts=_read_power(rows[1][0]),
                temperature_celsius=parse_whole(rows[1][0]),
                health=health,
                health_reason=reason,
                processes=uses,
            )
        )
    version = _VERSION.search(text)
    return ToolReport(tuple(cards), version.group(1) if version else None)


def _find_cards(body: str) -> Iterator[tuple[int, str, Rows]]:
    """Yield number, product and the three lines of each card."""
    rows: Rows = []
    for line in body.splitlines():
        cells = split_cells(line)
        if len(cells) != _CELLS:
            rows = []  # a ruler, or the heading with the versions
            continue
        rows.append(cells)
        name = _NAME.match(rows[0][0])
        if len(rows) == _LINES and name and parse_address(rows[0][1]):
            yield int(name.group(1)), name.group(2), rows


def _read_power(cell: str) -> int | None:
    power = _POWER.search(cell)
    return parse_whole(power.group(1)) if power else None


def _judge_health(errors: str, parted: list[int]) -> tuple[DeviceHealth, str]:
    """Return the health by the count of uncorrected errors, unless a card of the host is cut.

    Device files are numbered by instance, so that one cut card shifts the numbers of all others.
    """
    if parted:
        cards = ", ".join(map(str, parted))
        reason = f"SVI is on (card {cards}): `brsmi gpu set -s 0 -i N` turns it off"
        return DeviceHealth.FAILED, reason
    count = parse_number(errors)
    if count is None:
        return DeviceHealth.UNKNOWN, "brsmi counts no memory errors of this card"
    if count > 0:
        return DeviceHealth.WARNING, f"brsmi counts {count:.0f} uncorrected memory errors"
    return DeviceHealth.OK, ""


FORMAT = ToolFormat(
    vendor="biren",
    tool=ToolPlace(("brsmi",), ("/usr/local/birensupa/bin/brsmi",), "the Biren driver"),
    queries=(ToolQuery((), parse_table),),
    source="github.com/btlqql/QuantaForge, reports/generated/performance/brsmi.txt; device files: "
    "github.com/BirenTechnology/k8s-device-plugin, pkg/brgpu/plugin.go",
    card_nodes=("/dev/biren/card_{number}",),
    shared_nodes=("/dev/biren-m",),
)
