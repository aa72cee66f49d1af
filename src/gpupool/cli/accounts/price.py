"""`gpupool price`: what a card costs an hour, from when on."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from typing import Any

from gpupool.base.errors import BadOption
from gpupool.base.units import NANOS_PER_SECOND, parse_since
from gpupool.terminal.confirm import confirm_plan
from gpupool.terminal.context import CommandContext
from gpupool.terminal.listing import describe_instant
from gpupool.terminal.output import (
    Row,
    TableColumn,
    format_pairs,
    format_table,
    print_data,
    print_list,
)
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output, add_yes, one_of
from gpupool.terminal.references import quote_segment

RULES = ("max", "compute-only", "memory-only")
#: Micro-units of one unit of a currency.
_UNIT = 1_000_000
_CONDITIONS = ("mechanism", "sharing", "hours")


def register(parser: CommandParser) -> None:
    parser.about = """
    A price list holds from its beginning until the next one begins. A price is per card and hour; a share pays the
    larger of its parts of compute and memory. Conditions follow the model: mechanism=, sharing= and hours= (22-08 is
    the night, in the list's time zone); the price that names most holds. A sealed month keeps its prices. Hours that
    are over and not sealed are charged again; set and delete say which, and ask.
    """
    parser.examples = [
        "gpupool price set winter --from 2026-12 --currency EUR --price H200:3.50 --price '*:1.20'",
        "gpupool price set night --from 2026-12 --currency EUR --price '*:1.20' --price '*,hours=22-08:0.90'",
        "gpupool price set held --from 2026-12 --currency EUR --price '*:1.20' --reserved 50",
        "gpupool price list",
        "gpupool price delete winter --yes",
    ]
    parser.add_verbs()
    change = parser.add_verb("set", "make a price list, or replace one whole (admins)")
    change.add_argument("name", metavar="NAME", help="its name")
    change.add_argument(
        "--from", dest="since", required=True, metavar="TIME", help="2026-12, 2026-12-01T08:00, UTC"
    )
    change.add_argument("--currency", required=True, metavar="NAME", help="EUR, CNY, ...")
    change.add_argument(
        "--price",
        action="append",
        required=True,
        metavar="MODEL:PRICE",
        help="per card and hour; * is every other model; MODEL,sharing=burst,hours=22-08:PRICE",
    )
    change.add_argument(
        "--timezone", default="UTC", metavar="ZONE", help="of months and hours (default: UTC)"
    )
    change.add_argument(
        "--rule",
        default="max",
        type=one_of("--rule", *RULES),
        metavar="RULE",
        help=f"what a share is charged for: {', '.join(RULES)} (default: max)",
    )
    change.add_argument(
        "--preemptible-discount",
        default="0",
        metavar="PERCENT",
        help="what preemptible jobs are let off (default: 0)",
    )
    change.add_argument("--tax", default="0", metavar="PERCENT", help="on documents (default: 0)")
    change.add_argument(
        "--reserved",
        default="0",
        metavar="PERCENT",
        help="of a card's price while it is reserved and no job uses it (default: 0)",
    )
    add_yes(change)
    add_output(change, OBJECT_FORMATS)
    listing = parser.add_verb("list", "price lists, the earliest first")
    add_output(listing)
    show = parser.add_verb("show", "the prices of one list")
    show.add_argument("name", metavar="NAME", help="which")
    add_output(show, OBJECT_FORMATS)
    delete = parser.add_verb("delete", "delete a price list; the one before holds (admins)")
    delete.add_argument("name", metavar="NAME", help="which")
    add_yes(delete)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    return int(_VERBS[options.verb](options, context))


def _set_prices(options: argparse.Namespace, context: CommandContext) -> int:
    since = parse_since(options.since, datetime.now(UTC))
    body = {
        "from_ns": int(since.timestamp()) * NANOS_PER_SECOND,
        "currency": options.currency,
        "timezone": options.timezone,
        "rule": options.rule,
        "rates": [parse_rate(text) for text in options.price],
        "preemptible_discount_milli": _parse_percent(
            options.preemptible_discount, 10, "--preemptible-discount"
        ),
        "tax_basis_points": _parse_percent(options.tax, 100, "--tax"),
        "reserved_milli": _parse_percent(options.reserved, 10, "--reserved"),
    }
    lists = context.api.request("GET", "prices")
    changes = plan_changes(lists, options.name, body["from_ns"], _read_now_ns())
    if changes:
        confirm_plan(changes, yes=options.yes)
    return _print_list(context.api.request("PUT", _path(options.name), body), options.output)


def _read_now_ns() -> int:
    return int(datetime.now(UTC).timestamp()) * NANOS_PER_SECOND


def plan_changes(lists: list[Row], name: str, from_ns: int | None, now_ns: int) -> list[str]:
    """Describe which hours that are over get other prices by setting or deleting a list.

    Args:
        lists: the price lists as they are.
        name: the list that is set or deleted.
        from_ns: where it begins then; None: it is deleted.
        now_ns: the present instant.

    >>> hour = 3600 * NANOS_PER_SECOND
    >>> plan_changes([{"name": "old", "from_ns": 0}], "new", 2 * hour, 5 * hour)
    ['charge 3 hours again, from 1970-01-01T02:00:00Z to now: by new, and no longer by old']
    >>> plan_changes([], "new", 9 * hour, 5 * hour)
    []
    """
    before = [(one["from_ns"], one["name"]) for one in lists]
    after = [one for one in before if one[1] != name]
    if from_ns is not None:
        after.append((from_ns, name))
    cuts = sorted({start for start, _ in (*before, *after) if start < now_ns})
    found = []
    for start_ns, end_ns in pairwise([*cuts, now_ns]):
        old = max((one for one in before if one[0] <= start_ns), default=None)
        new = max((one for one in after if one[0] <= start_ns), default=None)
        is_changed = old != new or (new is not None and new[1] == name)
        if is_changed:
            hours = -(-(end_ns - start_ns) // (3600 * NANOS_PER_SECOND))
            counted = "1 hour" if hours == 1 else f"{hours} hours"
            until = "now" if end_ns == now_ns else describe_instant(end_ns)
            found.append(
                f"charge {counted} again, from {describe_instant(start_ns)} to {until}: "
                f"{_describe_prices(name, old, new)}"
            )
    return found


def _describe_prices(name: str, old: tuple[int, str] | None, new: tuple[int, str] | None) -> str:
    was = "no list" if old is None else old[1]
    if new is None:
        return f"without a price, and no longer by {was}"
    if old is not None and old[1] == new[1] == name:
        return f"by the new prices of {name}"
    return f"by {new[1]}, and no longer by {was}"


def parse_rate(text: str) -> dict[str, Any]:
    """Parse a price with its conditions. Raises BadOption.

    >>> parse_rate("H200,sharing=burst:2.50")["price_micro"]
    2500000
    """
    left, colon, number = text.rpartition(":")
    model, *conditions = left.split(",")
    if not colon or not model:
        raise BadOption(
            f"{text[:80]!r} is not a price",
            hint="write MODEL:PRICE per card and hour, as H200:2.50",
        )
    rate: dict[str, Any] = {"model": model, "price_micro": _parse_micro(number, text)}
    for condition in conditions:
        name, _, value = condition.partition("=")
        if name not in _CONDITIONS or not value:
            raise BadOption(
                f"{condition[:40]!r} is no condition of a price",
                hint=f"conditions: {', '.join(f'{one}=' for one in _CONDITIONS)}",
            )
        if name == "hours":
            rate["from_hour"], rate["until_hour"] = _parse_hours(value)
        else:
            rate[name] = value
    return rate


def _parse_micro(number: str, text: str) -> int:
    micro = _parse_decimal(number, text) * _UNIT
    if micro != micro.to_integral_value() or not 0 <= micro <= 10**15:
        raise BadOption(
            f"price {text[:80]!r} cannot be used",
            hint="a price is between 0 and 1000000000, with at most six decimals",
        )
    return int(micro)


def _parse_percent(text: str, scale: int, option: str) -> int:
    scaled = _parse_decimal(text, f"{option} {text}") * scale
    if scaled != scaled.to_integral_value() or not 0 <= scaled <= 100 * scale:
        decimals = len(str(scale)) - 1
        raise BadOption(
            f"{option} {text[:40]} cannot be used",
            hint=f"a percentage is between 0 and 100, with at most {decimals} decimals",
        )
    return int(scaled)


def _parse_decimal(number: str, text: str) -> Decimal:
    try:
        found = Decimal(number.strip())
    except InvalidOperation:
        found = Decimal("NaN")
    if not found.is_finite():
        raise BadOption(f"{text[:80]!r} is no number", hint="write it as 2.50")
    return found


def _parse_hours(text: str) -> tuple[int, int]:
    first, dash, after = text.partition("-")
    words = (first, after)
    if dash and all(word.isascii() and word.isdigit() and len(word) <= 2 for word in words):
        hours = int(first), int(after)
        if hours[0] <= 23 and hours[1] <= 24 and hours[0] != hours[1] % 24:
            return hours
    raise BadOption(f"hours={text[:20]} are no hours of a day", hint="write hours=22-08")


def _list_prices(options: argparse.Namespace, context: CommandContext) -> int:
    found = context.api.request("GET", "prices")
    print_list(found, COLUMNS, options.output, empty="no price list", color=context.color)
    return 0


def _show_prices(options: argparse.Namespace, context: CommandContext) -> int:
    return _print_list(context.api.request("GET", _path(options.name)), options.output)


def _delete_prices(options: argparse.Namespace, context: CommandContext) -> int:
    lists = context.api.request("GET", "prices")
    changes = plan_changes(lists, options.name, None, _read_now_ns())
    confirm_plan([f"delete price list {options.name}", *changes], yes=options.yes)
    context.api.request("DELETE", _path(options.name))
    sys.stdout.write(f"{options.name} deleted\n")
    return 0


def _path(name: str) -> str:
    return f"prices/{quote_segment(name, 'price list')}"


def _print_list(found: dict[str, Any], output: str) -> int:
    if output != "table":
        print_data(found, output)
        return 0
    facts = [
        ("price list", found["name"]),
        ("from", describe_instant(found["from_ns"])),
        ("until", describe_instant(found["until_ns"]) or "the next one"),
        ("time zone", found["timezone"]),
        ("rule", found["rule"]),
        ("preemptible jobs pay", f"{100 - found['preemptible_discount_milli'] / 10:g} %"),
        ("reserved, unused cards", f"{found.get('reserved_milli', 0) / 10:g} %"),
        ("tax", f"{found['tax_basis_points'] / 100:g} %"),
    ]
    columns = [*RATE_COLUMNS, TableColumn(f"{found['currency']} PER HOUR", _price, right=True)]
    table = format_table(found["rates"], columns)
    sys.stdout.write(f"{format_pairs(facts)}\n\n{table}\n")
    return 0


def _price(rate: Row) -> str:
    return format_micro(rate["price_micro"])


def format_micro(micro: int) -> str:
    """Format micro-units exactly, with two decimals at least.

    >>> format_micro(2_500_000), format_micro(-1)
    ('2.50', '-0.000001')
    """
    units, part = divmod(abs(micro), _UNIT)
    decimals = f"{part:06}"
    sign = "-" if micro < 0 else ""
    return f"{sign}{units}.{decimals[:2]}{decimals[2:].rstrip('0')}"


def _describe_hours(rate: Row) -> str:
    if rate["from_hour"] is None:
        return "all day"
    return f"{rate['from_hour']:02}-{rate['until_hour']:02}"


COLUMNS = (
    TableColumn("NAME", lambda row: row["name"]),
    TableColumn("FROM", lambda row: describe_instant(row["from_ns"])),
    TableColumn("UNTIL", lambda row: describe_instant(row["until_ns"]) or "the next one"),
    TableColumn("CURRENCY", lambda row: row["currency"]),
    TableColumn("ZONE", lambda row: row["timezone"]),
    TableColumn("PRICES", lambda row: len(row["rates"]), right=True),
)
RATE_COLUMNS = (
    TableColumn("MODEL", lambda row: row["model"]),
    TableColumn("MECHANISM", lambda row: row["mechanism"] or "any"),
    TableColumn("SHARING", lambda row: row["sharing"] or "any"),
    TableColumn("HOURS", _describe_hours),
)
_VERBS = {
    "set": _set_prices,
    "list": _list_prices,
    "show": _show_prices,
    "delete": _delete_prices,
}
