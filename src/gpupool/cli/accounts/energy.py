"""`gpupool energy`: what the site needs per kWh of its cards, and what its grid emits."""

from __future__ import annotations

import argparse
import os
import sys
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any

from gpupool.base.errors import BadOption
from gpupool.base.units import NANOS_PER_SECOND, parse_since
from gpupool.terminal.confirm import confirm_plan
from gpupool.terminal.context import CommandContext
from gpupool.terminal.listing import describe_instant
from gpupool.terminal.output import Row, TableColumn, print_data, print_list
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output, add_yes

#: Of a row and of the whole report: what the cards drew, as far as they were measured.
ENERGY_FIELDS = ("energy_milliwatt_hours", "measured_card_milliseconds", "co2e_milligrams")
_PER_UNIT = 1_000_000


def register(parser: CommandParser) -> None:
    parser.about = """
    Cards report what they draw; reports and statements show it in kWh. CO2e is energy times PUE times the emissions of
    the grid. Both hold from an hour on, until others begin; hours that are over keep theirs. Without them CO2e is --.
    """
    parser.examples = [
        "gpupool energy set --pue 1.3 --grid 570",
        "gpupool energy set --pue 1.25 --grid 480 --from 2027-01",
        "gpupool energy show -o json",
        "gpupool energy delete 2027-01 --yes",
        "gpupool report --since 2026-11",
    ]
    parser.add_verbs()
    change = parser.add_verb("set", "set PUE and emissions of the grid from an hour on (admins)")
    change.add_argument(
        "--pue",
        required=True,
        metavar="RATIO",
        help="energy of the site divided by that of its computers: 1 to 10",
    )
    change.add_argument(
        "--grid", required=True, metavar="GRAMS", help="CO2e of one kWh of the grid, in grams"
    )
    change.add_argument(
        "--from",
        dest="since",
        metavar="TIME",
        help="2026-12, 2026-12-01T08:00, UTC (default: the hour that runs)",
    )
    add_output(change, OBJECT_FORMATS)
    show = parser.add_verb("show", "PUE and emissions of the grid, the earliest first")
    add_output(show)
    delete = parser.add_verb("delete", "delete those that have not begun (admins)")
    delete.add_argument("since", metavar="TIME", help="where they begin")
    add_yes(delete)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    return int(_VERBS[options.verb](options, context))


def _set_factors(options: argparse.Namespace, context: CommandContext) -> int:
    body = {
        "from_ns": None if options.since is None else _parse_from(options.since),
        "pue_milli": _parse_thousandths(options.pue, "--pue", 1, 10),
        "grid_milligrams": _parse_thousandths(options.grid, "--grid", 0, 5000),
    }
    found = context.api.request(
        "POST", "energy/factors", body, idempotency_key=os.urandom(16).hex()
    )
    if options.output != "table":
        print_data(found, options.output)
        return 0
    sys.stdout.write(
        f"PUE {_describe_pue(found)}, {_describe_grid(found)} g CO2e per kWh "
        f"from {describe_instant(found['from_ns'])}\n"
    )
    return 0


def _show_factors(options: argparse.Namespace, context: CommandContext) -> int:
    found = context.api.request("GET", "energy/factors")
    print_list(
        found,
        COLUMNS,
        options.output,
        empty="no energy factors: reports show kWh, and -- as CO2e",
        color=context.color,
    )
    return 0


def _delete_factors(options: argparse.Namespace, context: CommandContext) -> int:
    from_ns = _parse_from(options.since)
    begin = describe_instant(from_ns)
    confirm_plan(
        [f"delete the energy factors of {begin}; the ones before hold on"], yes=options.yes
    )
    context.api.request("DELETE", f"energy/factors/{from_ns}")
    sys.stdout.write(f"energy factors of {begin} deleted\n")
    return 0


def _parse_from(text: str) -> int:
    return int(parse_since(text, datetime.now(UTC)).timestamp()) * NANOS_PER_SECOND


def _parse_thousandths(text: str, option: str, least: int, most: int) -> int:
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        number = Decimal("NaN")
    scaled = number * 1000
    if (
        not number.is_finite()
        or scaled != scaled.to_integral_value()
        or not least <= number <= most
    ):
        raise BadOption(
            f"{option} {text[:40]} cannot be used",
            hint=f"it is between {least} and {most}, with at most three decimals",
        )
    return int(scaled)


def _describe_pue(row: Row) -> str:
    return f"{row['pue_milli'] / 1000:g}"


def _describe_grid(row: Row) -> str:
    return f"{row['grid_milligrams'] / 1000:g}"


COLUMNS = (
    TableColumn("FROM", lambda row: describe_instant(row["from_ns"])),
    TableColumn("UNTIL", lambda row: describe_instant(row["until_ns"]) or "the next one"),
    TableColumn("PUE", _describe_pue, right=True),
    TableColumn("G CO2e PER kWh", _describe_grid, right=True),
    TableColumn("SET BY", lambda row: row["set_by"]),
)
_VERBS = {"set": _set_factors, "show": _show_factors, "delete": _delete_factors}


# In reports and statements -------------------------------------------------------------------


def list_energy_columns(report: dict[str, Any]) -> list[TableColumn]:
    """List the columns of what is known; none where the rows are by job or card.

    The line below the table says what is not known, and why.
    """
    if "job" in report["by"] or "card" in report["by"]:
        return []
    energy, _, co2e = ENERGY_FIELDS
    titles = {energy: "ENERGY kWh", co2e: "CO2e kg"}
    return [
        TableColumn(title, partial(_format_field, name), right=True)
        for name, title in titles.items()
        if _is_known(report, name)
    ]


def _is_known(report: dict[str, Any], name: str) -> bool:
    return any(row.get(name) is not None for row in (report, *report["rows"]))


def _format_field(name: str, row: dict[str, Any]) -> str | None:
    return format_millionths(row.get(name))


def describe_energy(report: dict[str, Any], card_milliseconds: int) -> str:
    """Say how much of the card time was measured, and how much energy that is.

    >>> describe_energy({}, 1)
    'energy: no card reported its power in this range'
    """
    energy, measured, co2e = (report.get(name) for name in ENERGY_FIELDS)
    if energy is None or measured is None:
        return "energy: no card reported its power in this range"
    # The slot of five minutes in which a range begins is counted whole.
    part = f"measured {describe_part(measured, card_milliseconds)} of the time"
    shown = f"energy: {format_millionths(energy)} kWh, {part}"
    if co2e is None:
        return f"{shown}; CO2e --: gpupool energy set --pue RATIO --grid GRAMS"
    return f"{shown}; CO2e {format_millionths(co2e)} kg"


def describe_part(measured: int, whole: int) -> str:
    """Describe a part of card time in percent, 100 at most.

    >>> describe_part(1, 3), describe_part(2, 0)
    ('33.3 %', '--')
    """
    return f"{min(100.0, 100 * measured / whole):.1f} %" if whole else "--"


def format_millionths(number: int | None) -> str | None:
    """Format milliwatt-hours as kWh, or milligrams as kg; None is unknown.

    >>> format_millionths(1_234_560)
    '1.2346'
    """
    return None if number is None else f"{number / _PER_UNIT:.4f}"
