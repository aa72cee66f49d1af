"""The board of cards, with the counters of DCGM's exporter beside them."""

from __future__ import annotations

from boards.panels import Board, Panel, Query, Row
from boards.selectors import JOB, MODEL, NODE, RATE, select


def _by_card(name: str) -> str:
    return select(f"gpupool_card_{name}", "node", "model")


def _dcgm(expr: str, unit: str = "") -> str:
    """Return a figure of DCGM's exporter for cards of the pool, by their UUID."""
    renamed = f'label_replace({expr}, "uuid", "$1", "UUID", "(.*)"){unit}'
    return f"{renamed}\n* on (uuid) group_left (card, node) {_by_card('info')}"


def _lines(title: str, expr: str, unit: str = "short", description: str = "") -> Panel:
    return Panel("timeseries", title, (Query(expr, "{{card}}"),), unit, description=description)


_TABLE = (
    ("info", "uuid", "UUID", ""),
    ("held_milli", "Value #B", "Compute held", "percentunit"),
    ("held_bytes", "Value #C", "Memory held", "bytes"),
    ("shares", "Value #D", "Shares", "short"),
    ("failed", "Value #E", "Failed", "short"),
    ("utilization_percent", "Value #F", "Load", "percent"),
    ("memory_used_bytes", "Value #G", "Memory used", "bytes"),
)


def _build_card_table() -> Panel:
    queries = []
    columns = {"card": "Card", "model": "Model", "node": "Node"}
    units = {}
    for name, column, title, unit in _TABLE:
        factor = " / 1000" if name == "held_milli" else ""
        queries.append(Query(_by_card(name) + factor))
        columns[column] = title
        if unit:
            units[title] = unit
    return Panel("table", "Cards", queries, width=24, columns=columns, units=units)


CARDS = Board(
    "cards",
    "Cards",
    "Every card: what is held of it, its load and health, and DCGM's counters beside that.",
    (JOB, NODE, MODEL),
    (
        Row("All", (_build_card_table(),)),
        Row(
            "Load",
            (
                _lines("Load", _by_card("utilization_percent"), "percent"),
                _lines(
                    "Memory used",
                    f"{_by_card('memory_used_bytes')} / {_by_card('capacity_bytes')}",
                    "percentunit",
                ),
                _lines("Compute held", f"{_by_card('held_milli')} / 1000", "percentunit"),
                _lines("Power", _by_card("power_watts"), "watt"),
                _lines("Temperature", _by_card("temperature_celsius"), "celsius"),
                _lines(
                    "XID behind the card's health",
                    _by_card("xid"),
                    "none",
                    "Absent for a card that is well.",
                ),
            ),
        ),
        Row(
            "From DCGM's exporter",
            (
                _lines("Load", _dcgm("DCGM_FI_DEV_GPU_UTIL"), "percent"),
                _lines(
                    "Engine active",
                    _dcgm("DCGM_FI_PROF_GR_ENGINE_ACTIVE"),
                    "percentunit",
                ),
                _lines("Memory used", _dcgm("DCGM_FI_DEV_FB_USED", " * 1048576"), "bytes"),
                _lines("Power", _dcgm("DCGM_FI_DEV_POWER_USAGE"), "watt"),
                _lines("Temperature", _dcgm("DCGM_FI_DEV_GPU_TEMP"), "celsius"),
                _lines(
                    "Power by the energy counter",
                    _dcgm(f"rate(DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{RATE})", " / 1000"),
                    "watt",
                ),
                _lines("Last XID", _dcgm("DCGM_FI_DEV_XID_ERRORS"), "none"),
            ),
        ),
    ),
)
