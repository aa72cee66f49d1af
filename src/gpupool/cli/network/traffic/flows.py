"""The verbs of `gpupool network` for flow logs."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from typing import Any

from gpupool.cli.network.objects import (
    add_network,
    build_path,
    create_part,
    delete_part,
    list_parts,
)
from gpupool.terminal.context import CommandContext
from gpupool.terminal.output import Row, TableColumn, print_data, print_list
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output, integer_within

_KIND = "flow-logs"
#: Seconds that a request for more records waits at the server.
_WAIT_SECONDS = 20
#: Records that one request gets.
_PAGE = 1000


def register_flow_logs(parser: CommandParser) -> None:
    """Add the verbs."""
    create = parser.add_verb(
        "flowlog-create", "log which packets of a network are denied or allowed"
    )
    delete = parser.add_verb("flowlog-delete", "delete a flow log with its records")
    listing = parser.add_verb("flowlog-list", "flow logs of a network")
    show = parser.add_verb("flowlog-show", "records of a flow log: flows, verdicts and rules")
    add_network(create, delete, listing, show)
    for verb in (create, delete, show):
        verb.add_argument("log", metavar="LOG", help="name of the flow log")
    create.add_argument(
        "--verdict",
        choices=("all", "allowed", "denied"),
        default="all",
        help="what became of the packets (default: all)",
    )
    create.add_argument(
        "--job", metavar="JOB", help="as the source or the target (default: every job)"
    )
    show.add_argument(
        "-n",
        "--tail",
        type=integer_within("--tail", "the number of records", 1, _PAGE),
        default=100,
        metavar="RECORDS",
        help="the last RECORDS of them (default: 100)",
    )
    show.add_argument("-f", "--follow", action="store_true", help="wait for more, until Ctrl-C")
    add_output(create, OBJECT_FORMATS)
    add_output(listing)
    add_output(show)


def _create_log(options: argparse.Namespace, context: CommandContext) -> int:
    body = {"name": options.log, "choice": options.verdict, "job": options.job}
    made = create_part(options, context, build_path(options, _KIND), body)
    if options.output != "table":
        print_data(made, options.output)
        return 0
    of = "" if made["job"] is None else f" of {made['job']}"
    sys.stdout.write(f"{made['name']}: logs {_describe_choice(made)} packets{of}\n")
    return 0


def _delete_log(options: argparse.Namespace, context: CommandContext) -> int:
    delete_part(options, context, build_path(options, _KIND, log=options.log))
    sys.stdout.write(f"{options.log} deleted\n")
    return 0


def _list_logs(options: argparse.Namespace, context: CommandContext) -> int:
    logs = list_parts(options, context, build_path(options, _KIND))
    print_list(logs, COLUMNS, options.output, empty="no flow logs")
    return 0


def _show_log(options: argparse.Namespace, context: CommandContext) -> int:
    page = _read_page(options, context, {"limit": options.tail})
    if not options.follow:
        print_list(page["records"], RECORD_COLUMNS, options.output, empty="no records yet")
        return 0
    while True:
        for record in page["records"]:
            sys.stdout.write(f"{_format_line(record, options.output)}\n")
        sys.stdout.flush()
        more = {"after": page["next"], "limit": _PAGE, "wait_seconds": _WAIT_SECONDS}
        page = _read_page(options, context, more)


def _read_page(
    options: argparse.Namespace, context: CommandContext, query: dict[str, Any]
) -> dict[str, Any]:
    path = f"{build_path(options, _KIND, log=options.log)}/records"
    found: dict[str, Any] = context.api.request(
        "GET", path, query={"tenant": options.tenant, **query}, timeout=_WAIT_SECONDS + 30
    )
    return found


def _format_line(record: Row, output: str) -> str:
    """Format a record as one line: of JSON where another format than a table is wanted."""
    if output != "table":
        return json.dumps(record)
    return "  ".join(str(column.text(record)) for column in RECORD_COLUMNS)


def _describe_choice(log: Row) -> str:
    return "allowed and denied" if log["choice"] == "all" else str(log["choice"])


def _describe_end(record: Row, end: str) -> str:
    port = record[f"{end}_port"]
    address = record[end] if port is None else f"{record[end]}:{port}"
    job = record[f"{end}_job"]
    return address if job is None else f"{address} ({job})"


def _format_time(record: Row) -> str:
    at = datetime.fromtimestamp(record["at_ns"] // 10**9, UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


COLUMNS = (
    TableColumn("NAME", lambda row: row["name"]),
    TableColumn("PACKETS", _describe_choice),
    TableColumn("JOB", lambda row: row["job"] or "all"),
    TableColumn("RECORDS", lambda row: row["records"]),
    TableColumn("EXPIRED", lambda row: row["expired_records"]),
    TableColumn("SKIPPED PACKETS", lambda row: row["skipped_packets"]),
    TableColumn("LOST BYTES", lambda row: row["lost_bytes"], wide=True),
)
RECORD_COLUMNS = (
    TableColumn("TIME", _format_time),
    TableColumn("VERDICT", lambda row: row["verdict"]),
    TableColumn("PROTOCOL", lambda row: row["protocol"]),
    TableColumn("SOURCE", lambda row: _describe_end(row, "source")),
    TableColumn("TARGET", lambda row: _describe_end(row, "target")),
    TableColumn("GROUP", lambda row: row["group"] or "--"),
    TableColumn("RULE", lambda row: row["rule"]),
    TableColumn("PACKETS", lambda row: row["packets"]),
)
FLOW_LOG_VERBS = {
    "flowlog-create": _create_log,
    "flowlog-delete": _delete_log,
    "flowlog-list": _list_logs,
    "flowlog-show": _show_log,
}
