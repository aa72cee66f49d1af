"""`gpupool network verify`: proves on the spot that networks keep what they promise."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from typing import Any, Final

from gpupool.base.errors import NetworkingUnavailable
from gpupool.terminal.context import CommandContext, print_notice
from gpupool.terminal.output import Row, TableColumn, format_table, print_data
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output

#: The exit code when a promise was not kept, as of `gpupool verify`.
NOT_KEPT: Final = 8
#: Seconds in which an agent reports.
_REPORT_SECONDS: Final = 150.0
_LOOK_SECONDS: Final = 0.3
_VERDICTS: Final = {True: "kept", False: "NOT KEPT", None: "not tested"}


def register_verify(parser: CommandParser) -> None:
    """Add the verb."""
    verify = parser.add_verb(
        "verify", "prove isolation, limits, names and gateways; exit code 8 when one is not kept"
    )
    verify.add_argument(
        "name", nargs="?", metavar="NAME", help="one network (default: all that you may see)"
    )
    verify.add_argument("--tenant", metavar="TENANT", help="of another tenant (admins)")
    add_output(verify, OBJECT_FORMATS)


def verify_networks(options: argparse.Namespace, context: CommandContext) -> int:
    body = {"network": options.name, "tenant": options.tenant}
    key = os.urandom(16).hex()
    found = context.api.request("POST", "network-verifications", body, idempotency_key=key)
    if options.output == "table":
        print_notice("packets are sent between networks, and through each limit for 3 seconds")
    deadline = time.monotonic() + _REPORT_SECONDS
    while found["state"] == "running":
        if time.monotonic() >= deadline:
            raise NetworkingUnavailable(
                f"no report of {found['id']} within {_REPORT_SECONDS:g} s",
                hint="gpupool network status",
            )
        time.sleep(_LOOK_SECONDS)
        found = context.api.request("GET", f"network-verifications/{found['id']}")
    if options.output != "table":
        print_data(found, options.output)
    else:
        _print_report(found)
    # Also where nothing could be tested: that is no proof.
    return 0 if found["kept"] else NOT_KEPT


def _print_report(found: dict[str, Any]) -> None:
    sys.stdout.write(format_table(found["checks"], COLUMNS) + "\n\n")
    counts = Counter(_describe_verdict(one) for one in found["checks"])
    parts = [f"{counts[words]} {words}" for words in _VERDICTS.values()]
    sys.stdout.write(f"{found['id']}: {', '.join(parts)}\n")
    if found["reason"]:
        sys.stdout.write(f"failed: {found['reason']}\n")


def _describe_verdict(row: Row) -> str:
    return _VERDICTS[row["kept"]]


COLUMNS = (
    TableColumn("CHECK", lambda row: row["name"]),
    TableColumn("RESULT", _describe_verdict),
    TableColumn("MEASURED", lambda row: row["measured"] or "--"),
    TableColumn("WHY", lambda row: row["reason"] or "--"),
)
