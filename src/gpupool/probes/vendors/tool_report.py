"""Defines what a maker's tool tells of its cards, and reads the numbers that such tools print.

Pure. A number that is not there is None: `N/A` is no zero.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gpupool.model.device import DeviceHealth, DeviceProcess
from gpupool.probes.common.vendor_tool import ToolPlace

MIB: Final = 1 << 20
_NUMBER: Final = re.compile(r"\s*(-?\d+(?:\.\d+)?)")
_ADDRESS: Final = re.compile(
    r"\b([0-9a-f]{1,8}:)?([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\b", re.IGNORECASE
)


@dataclass(frozen=True)
class ToolCard:
    """One card in the words of its maker's tool.

    Attributes:
        number: number by which the maker's runtime and device files count it.
        uuid: the card's own identity; empty where the tool shows none.
        processes: None where the tool does not list them.
    """

    number: int
    product: str
    memory_bytes: int | None
    uuid: str = ""
    address: str | None = None
    used_bytes: int | None = None
    utilization_percent: int | None = None
    power_watts: int | None = None
    temperature_celsius: int | None = None
    health: DeviceHealth = DeviceHealth.UNKNOWN
    health_reason: str = ""
    processes: tuple[DeviceProcess, ...] | None = None


@dataclass(frozen=True)
class ToolReport:
    """All cards of one output."""

    cards: tuple[ToolCard, ...] = ()
    driver_version: str | None = None


@dataclass(frozen=True)
class ToolQuery:
    """One way to ask a tool, and how to read its answer."""

    arguments: tuple[str, ...]
    parse: Callable[[str], ToolReport]


@dataclass(frozen=True)
class ToolFormat:
    """What gpupool knows of one maker's cards.

    Attributes:
        vendor: as catalogue and limits know it.
        queries: tried in this order until one answer has cards; versions of a tool differ.
        card_nodes: device files of one card, `{number}` stands for its number.
        shared_nodes: device files that every program of this maker's cards opens.
        has_drm: the card has graphics nodes, found by its PCI address.
        source: where the format was published.
    """

    vendor: str
    tool: ToolPlace
    queries: tuple[ToolQuery, ...]
    source: str
    card_nodes: tuple[str, ...] = ()
    shared_nodes: tuple[str, ...] = field(default=())
    has_drm: bool = False


def parse_number(text: str | None) -> float | None:
    """Return the number that a text begins with; None where there is none.

    >>> parse_number(" 23.5 W"), parse_number("[N/A]"), parse_number(None)
    (23.5, None, None)
    """
    found = _NUMBER.match(text or "")
    return float(found.group(1)) if found else None


def parse_whole(text: str | None) -> int | None:
    """Return the number that a text begins with, rounded; None where there is none."""
    number = parse_number(text)
    return None if number is None else round(number)


def find_whole(fields: Mapping[str, str], names: Sequence[str]) -> int | None:
    """Return the rounded number of the first of these fields that is there; None without one."""
    for name in names:
        if name in fields:
            return parse_whole(fields[name])
    return None


def parse_mib(text: str | None) -> int | None:
    """Return bytes of a number of MiB, with or without its unit.

    >>> parse_mib("2 MiB"), parse_mib("N/A")
    (2097152, None)
    """
    number = parse_number(text)
    return None if number is None else round(number * MIB)


def parse_address(text: str | None) -> str | None:
    """Return the first PCI address as the kernel writes it; None where there is none.

    >>> parse_address("00000000:C1:00.0"), parse_address("3b:00.0 --> SN"), parse_address("-")
    ('0000:c1:00.0', '0000:3b:00.0', None)
    """
    found = _ADDRESS.search(text or "")
    if found is None:
        return None
    domain = int((found.group(1) or "0:")[:-1], 16)
    return f"{domain:04x}:{found.group(2).lower()}"


def split_cells(line: str) -> list[str]:
    """Return the cells of a line of a table between `|`; none for any other line.

    >>> split_cells("| 0  a | b |"), split_cells("+---+")
    (['0  a', 'b'], [])
    """
    line = line.strip()
    if not (line.startswith("|") and line.endswith("|") and len(line) > 1):
        return []
    return [cell.strip() for cell in line[1:-1].split("|")]


def list_processes(pattern: re.Pattern[str], listed: str, number: int) -> tuple[DeviceProcess, ...]:
    """Return the processes of one card in a table.

    Args:
        pattern: finds card, pid and MiB in each line.
        listed: the table.
        number: of the card.
    """
    found = []
    for card, pid, memory in pattern.findall(listed):
        if int(card) == number:
            found.append(DeviceProcess(int(pid), memory_bytes=parse_mib(memory)))
    return tuple(found)
