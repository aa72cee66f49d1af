"""`gpupool reservation`: hold capacity for a tenant from a time on."""

from __future__ import annotations

import argparse
import os
import sys
from datetime import UTC, datetime
from typing import Any

from gpupool.base.errors import BadDuration, BadOption
from gpupool.base.units import NANOS_PER_SECOND, format_duration, parse_duration, parse_when
from gpupool.client.submission import share_shape
from gpupool.terminal.context import CommandContext, print_notice
from gpupool.terminal.listing import add_limit, describe_instant, show_list
from gpupool.terminal.output import Row, TableColumn, print_data
from gpupool.terminal.parser import (
    OBJECT_FORMATS,
    CommandParser,
    add_output,
    integer_within,
    one_of,
)
from gpupool.terminal.references import quote_segment

#: Seconds. A day is 24 hours: repetitions do not follow a clock that is changed in summer.
PERIODS = {"day": 86400, "week": 7 * 86400}


def register(parser: CommandParser) -> None:
    parser.about = """
    Only jobs that name a reservation use it while it lasts: gpupool submit --reservation NAME. No other job starts
    that would still run when it begins. Times are UTC unless they say otherwise; a day is 24 hours. A tenant-admin
    reserves for the own tenant, an admin for any.
    """
    parser.examples = [
        (
            "gpupool reservation create demo --gpu 1 --count 8 --nodes 2 --start 2026-12-01T08:00 "
            "--for 4h"
        ),
        (
            "gpupool reservation create nightly --gpu 4 --start 2026-12-01T22:00 --for 6h --every day "
            "--until 2027-01-01"
        ),
        "gpupool reservation list",
        "gpupool reservation delete demo",
    ]
    parser.add_verbs()
    create = parser.add_verb("create", "reserve cards for a time")
    create.add_argument("name", metavar="NAME", help="the name that jobs use")
    create.add_argument(
        "--gpu", metavar="SHARE", help="compute per card, or a number of whole cards (default: 1)"
    )
    create.add_argument(
        "--memory", metavar="SIZE", help="memory per card (default: as the compute)"
    )
    create.add_argument("--count", metavar="N", help="that many cards of one node (default: 1)")
    create.add_argument("--model", metavar="MODEL", help="only cards of this model")
    create.add_argument(
        "--label",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="only nodes with this label",
    )
    nodes = integer_within("--nodes", "the number of nodes", 1, 10_000)
    create.add_argument(
        "--nodes", type=nodes, default=1, metavar="N", help="that many times, on one node each"
    )
    create.add_argument(
        "--start",
        metavar="TIME",
        help="2026-12-01T08:00, or 2h for two hours from now (default: now)",
    )
    create.add_argument(
        "--for", dest="lasts", type=parse_duration, metavar="TIME", help="so long (default: no end)"
    )
    create.add_argument(
        "--every", type=one_of("--every", *PERIODS), metavar="PERIOD", help="again each day or week"
    )
    create.add_argument("--until", metavar="TIME", help="the last repetition begins before that")
    create.add_argument("--tenant", metavar="TENANT", help="for another tenant (admins)")
    add_output(create, OBJECT_FORMATS)
    listing = parser.add_verb("list", "reservations that are not over")
    listing.add_argument("-a", "--all", action="store_true", help="also those that are over")
    add_limit(listing)
    add_output(listing)
    delete = parser.add_verb("delete", "give back what they hold; jobs in them go on")
    delete.add_argument("names", nargs="+", metavar="NAME", help="reservations")
    delete.add_argument("--tenant", metavar="TENANT", help="of another tenant (admins)")


def run(options: argparse.Namespace, context: CommandContext) -> int:
    return int(_VERBS[options.verb](options, context))


#: From now on means when the request has arrived: a start in the past is refused.
SLACK_NS = 2 * NANOS_PER_SECOND


def make_request(options: argparse.Namespace, now: datetime) -> dict[str, Any]:
    """Make the body that creates the reservation. Raises BadInput's classes."""
    start = now if options.start is None else parse_when(options.start, now)
    if options.every and not options.lasts:
        raise BadOption(
            "what comes again needs an end: how long does it last?", hint="add --for 4h"
        )
    if options.until and not options.every:
        raise BadOption("--until without --every", hint="add --every day or --every week")
    if start < now:
        raise BadDuration(
            f"--start {options.start} is in the past: it is {describe_instant(_to_ns(now))}",
            hint="times are UTC; 2h is from now",
        )
    return {
        "name": options.name,
        "shape": share_shape(
            options.gpu, options.memory, options.count, options.model, options.label, "fixed"
        ),
        "replicas": options.nodes,
        "start_ns": _to_ns(start) + (SLACK_NS if options.start is None else 0),
        "end_ns": None
        if options.lasts is None
        else _to_ns(start) + options.lasts * NANOS_PER_SECOND,
        "every_seconds": PERIODS[options.every] if options.every else None,
        "until_ns": _to_ns(parse_when(options.until, now)) if options.until else None,
        "tenant": options.tenant,
    }


def _to_ns(at: datetime) -> int:
    return int(at.timestamp()) * NANOS_PER_SECOND


def _create_reservation(options: argparse.Namespace, context: CommandContext) -> int:
    asked = make_request(options, datetime.now(UTC).replace(microsecond=0))
    made = context.api.request("POST", "reservations", asked, idempotency_key=os.urandom(16).hex())
    if options.output != "table":
        print_data(made, options.output)
        return 0
    sys.stdout.write(f"{made['name']}\n")
    when = describe_instant(made["start_ns"])
    print_notice(
        f"{_describe_share(made)} for {made['tenant']} from {when}; gpupool submit --reservation "
        f"{made['name']}"
    )
    return 0


def _list_reservations(options: argparse.Namespace, context: CommandContext) -> int:
    query = {"all": options.all or None}
    return show_list(
        context,
        "reservations",
        query,
        COLUMNS,
        options.output,
        limit=options.limit,
        wire=_wire_model,
        empty="none",
    )


def _delete_reservations(options: argparse.Namespace, context: CommandContext) -> int:
    for name in options.names:
        context.api.request(
            "DELETE",
            f"reservations/{quote_segment(name, 'reservation')}",
            query={"tenant": options.tenant},
        )
        sys.stdout.write(f"{name} ended\n")
    return 0


def _wire_model() -> Any:
    from gpupool.wire.reservations import ReservationOut

    return ReservationOut


def _describe_share(row: Row) -> str:
    return f"{row['replicas']} × {row['share']}" if row["replicas"] > 1 else str(row["share"])


def _describe_repetition(row: Row) -> str | None:
    if row["every_seconds"] is None:
        return None
    names = {seconds: f"every {name}" for name, seconds in PERIODS.items()}
    return names.get(row["every_seconds"], f"every {format_duration(row['every_seconds'])}")


COLUMNS = (
    TableColumn("NAME", lambda row: row["name"]),
    TableColumn("ID", lambda row: row["id"], wide=True),
    TableColumn("TENANT", lambda row: row["tenant"]),
    TableColumn("STATE", lambda row: row["state"]),
    TableColumn("SHARE", _describe_share),
    TableColumn("MODEL", lambda row: row["model"] or "any"),
    TableColumn("START", lambda row: describe_instant(row["start_ns"])),
    TableColumn("END", lambda row: describe_instant(row["end_ns"]) or "none"),
    TableColumn("AGAIN", _describe_repetition),
    TableColumn("UNTIL", lambda row: describe_instant(row["until_ns"]), wide=True),
    TableColumn("USER", lambda row: row["user"], wide=True),
)

_VERBS = {"create": _create_reservation, "list": _list_reservations, "delete": _delete_reservations}
