"""Reads tools that answer named fields as CSV, as nvidia-smi does. Pure."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence

from gpupool.probes.vendors.tool_report import (
    ToolCard,
    ToolReport,
    find_whole,
    parse_address,
    parse_mib,
    parse_number,
)

#: Fields that are read, by what they say of a card. Tools and versions differ in names.
_UTILIZATION = ("utilization.gpu", "utilization.ppu")
_POWER = ("gpu.power.draw", "power.draw")
_TEMPERATURE = ("temperature.gpu", "temperature.ppu")


def parse_query(text: str, fields: Sequence[str]) -> ToolReport:
    """Return the cards of an answer without header; rows of another length are no cards."""
    cards = []
    for row in csv.reader(text.splitlines(), skipinitialspace=True):
        card = _read_row(dict(zip(fields, row, strict=False))) if len(row) == len(fields) else None
        if card is not None:
            cards.append(card)
    return ToolReport(tuple(cards))


def _read_row(row: Mapping[str, str]) -> ToolCard | None:
    number = parse_number(row["index"])
    if number is None:
        return None  # a header, or a complaint
    return ToolCard(
        int(number),
        row["name"].strip(),
        parse_mib(row["memory.total"]),
        _read_uuid(row.get("uuid")),
        parse_address(row.get("pci.bus_id")),
        parse_mib(row.get("memory.used")),
        find_whole(row, _UTILIZATION),
        find_whole(row, _POWER),
        find_whole(row, _TEMPERATURE),
    )


def _read_uuid(text: str | None) -> str:
    text = (text or "").strip()
    return "" if text.strip("[]").upper() in ("N/A", "NOT SUPPORTED") else text
