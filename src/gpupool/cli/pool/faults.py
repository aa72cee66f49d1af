"""`gpupool faults`: incidents of cards, their evidence, and what a person does about them."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from gpupool.base.errors import UnknownXid
from gpupool.terminal.context import CommandContext
from gpupool.terminal.listing import describe_instant
from gpupool.terminal.output import Row, TableColumn, format_pairs, print_data, print_list
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output, integer_within
from gpupool.terminal.references import quote_segment


def register(parser: CommandParser) -> None:
    parser.about = """
    A card's driver reports a fault by a number, the XID. The XIDs of one node are one incident until the node is
    silent for three minutes, and the first one is blamed. A card that must be drained is closed for new jobs at once;
    a reset, a reboot or an inspection is only proposed, and never done by gpupool. You see the incidents that ended
    jobs of your tenant; admins and operators see all.
    """
    parser.examples = [
        "gpupool faults list",
        "gpupool faults list --all --node node-1",
        "gpupool faults show x-4k9x2m7q8w",
        "gpupool faults accept x-4k9x2m7q8w",
        "gpupool faults close x-4k9x2m7q8w --note 'reset, burn ran for an hour'",
        "gpupool faults xid 79",
    ]
    parser.add_verbs()
    listing = parser.add_verb("list", "incidents that are not closed, the latest first")
    listing.add_argument("--node", metavar="NODE", help="only of this node")
    listing.add_argument("--all", action="store_true", help="closed ones too")
    add_output(listing)
    show = parser.add_verb("show", "one incident: its XIDs, the jobs that it hit, what to do next")
    _add_incident(show)
    accept = parser.add_verb("accept", "take the proposed repair over; its cards must be free")
    _add_incident(accept)
    close = parser.add_verb("close", "end an incident; its cards must be healthy")
    _add_incident(close)
    close.add_argument("--note", default="", metavar="TEXT", help="what was done")
    close.add_argument(
        "--still-failed", action="store_true", help="also while a card of it is not healthy"
    )
    xid = parser.add_verb("xid", "what an XID means and what follows; needs no pool")
    xid.add_argument(
        "code",
        metavar="CODE",
        nargs="?",
        type=integer_within("CODE", "the number of an XID", 0, 1_000_000),
        help="the number (default: all)",
    )
    add_output(xid)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    return int(_VERBS[options.verb](options, context))


def _add_incident(parser: CommandParser) -> None:
    parser.add_argument("incident", metavar="INCIDENT", help="as `faults list` shows it")
    add_output(parser, OBJECT_FORMATS)


def _list_incidents(options: argparse.Namespace, context: CommandContext) -> int:
    query = {"node": options.node, "all": "true" if options.all else None}
    rows = context.api.request("GET", "faults", query=query)
    print_list(
        rows,
        COLUMNS,
        options.output,
        fields=_list_fields,
        empty="no incidents" if options.all else "no open incidents",
        color=context.color,
    )
    return 0


def _show_incident(options: argparse.Namespace, context: CommandContext) -> int:
    return _print_incident(context.api.request("GET", _locate(options)), options.output)


def _accept_incident(options: argparse.Namespace, context: CommandContext) -> int:
    return _change(options, context, "accept", {})


def _close_incident(options: argparse.Namespace, context: CommandContext) -> int:
    body = {"note": options.note, "still_failed": options.still_failed}
    return _change(options, context, "close", body)


def _change(
    options: argparse.Namespace, context: CommandContext, act: str, body: dict[str, Any]
) -> int:
    path = f"{_locate(options)}/{act}"
    found = context.api.request("POST", path, body, idempotency_key=os.urandom(16).hex())
    if options.output != "table":
        print_data(found, options.output)
        return 0
    sys.stdout.write(f"{found['id']} is {found['state']}\n")
    _print_next(found)
    return 0


def _locate(options: argparse.Namespace) -> str:
    return f"faults/{quote_segment(options.incident, 'incident')}"


def _print_incident(found: dict[str, Any], output: str) -> int:
    if output != "table":
        print_data(found, output)
        return 0
    facts: list[tuple[str, object]] = [
        ("incident", found["id"]),
        ("state", _describe_state(found)),
        ("card", found["card"]),
        ("blamed", f"XID {found['xid']}: {found['meaning']}"),
        ("reach", found["containment"]),
        ("proposed", found["repair"]),
        ("first", describe_instant(found["first_ns"])),
        ("last", describe_instant(found["last_ns"])),
    ]
    if found["accepted_ns"] is not None:
        facts.append(("accepted", _describe_act(found, "accepted")))
    if found["closed_ns"] is not None:
        facts.append(("closed", _describe_act(found, "closed")))
    if found["note"]:
        facts.append(("note", found["note"]))
    sys.stdout.write(format_pairs(facts) + "\n\n")
    print_list(found["evidence"], EVIDENCE_COLUMNS, "table")
    sys.stdout.write("\n")
    print_list(found["affected"], JOB_COLUMNS, "table", empty="no job held a share of its cards")
    sys.stdout.write("\n")
    _print_next(found)
    return 0


def _print_next(found: dict[str, Any]) -> None:
    sys.stdout.write(f"{found['advice']}\n")
    if found["next"]:
        sys.stdout.write(f"next:  {found['next']}\n")


def _describe_act(found: dict[str, Any], act: str) -> str:
    by = found[f"{act}_by"]
    at = describe_instant(found[f"{act}_ns"])
    return f"{at} by {by}" if by else f"{at}"


def _describe_state(row: Row) -> str:
    return f"{row['state']}, going on" if row["going_on"] else str(row["state"])


def _explain_xid(options: argparse.Namespace, _context: CommandContext) -> int:
    from gpupool.model.faults.catalogue import read_xids

    if options.code is None:
        rows = [_describe_xid(code) for code in read_xids()]
        print_list(rows, XID_COLUMNS, options.output)
        return 0
    if options.code not in read_xids():
        raise UnknownXid(
            f"XID {options.code} is not in the catalogue of this gpupool",
            hint="NVIDIA's catalogue is at docs.nvidia.com/deploy/xid-errors; all that are known:  "
            "gpupool faults xid",
        )
    found = _describe_xid(options.code)
    if options.output != "table":
        print_list([found], XID_COLUMNS, options.output)
        return 0
    facts: list[tuple[str, object]] = [
        ("XID", found["xid"]),
        ("name", found["mnemonic"]),
        ("meaning", found["meaning"]),
        ("NVIDIA, at once", found["immediate"] or None),
        ("NVIDIA, then", found["investigate"] or None),
        ("reach", found["containment"]),
        ("proposed", found["repair"]),
        ("card after it", found["health"]),
    ]
    sys.stdout.write(format_pairs(facts) + "\n\n")
    sys.stdout.write(_explain_mark(found["mark"]) + "\n")
    return 0


def _describe_xid(code: int) -> dict[str, Any]:
    from gpupool.model.faults.catalogue import read_xids
    from gpupool.model.faults.diagnosis import diagnose_xid

    entry = read_xids()[code]
    return {
        "xid": code,
        "mnemonic": entry.mnemonic,
        "meaning": entry.meaning,
        "immediate": entry.immediate,
        "investigate": entry.investigate,
        "containment": str(entry.containment),
        "repair": str(entry.repair),
        "mark": str(entry.mark),
        "health": str(diagnose_xid(code).health),
    }


def _explain_mark(mark: str) -> str:
    if mark == "follows":
        return "It follows another XID, which is blamed where there is one."
    if mark == "counted":
        return "Repeats of it are a sign of a card that wears out."
    if mark == "driver-decides":
        return (
            "The driver's recovery action decides where it is known; `none` concerns the job alone."
        )
    return "A graver recovery action of the driver holds instead."


def _list_fields() -> list[str]:
    from gpupool.wire.faults.incidents import IncidentRow

    return list(IncidentRow.model_fields)


def _color_state(row: Row) -> str | None:
    return {"open": "red", "accepted": "yellow"}.get(row["state"])


COLUMNS = (
    TableColumn("INCIDENT", lambda row: row["id"]),
    TableColumn("STATE", _describe_state, color=_color_state),
    TableColumn("CARD", lambda row: row["card"]),
    TableColumn("XID", lambda row: str(row["xid"]), right=True),
    TableColumn("MEANING", lambda row: row["meaning"], spare=2),
    TableColumn("REACH", lambda row: row["containment"], spare=3),
    TableColumn("PROPOSED", lambda row: row["repair"]),
    TableColumn("JOBS", lambda row: str(row["jobs"]), right=True, spare=4),
    TableColumn("LAST", lambda row: describe_instant(row["last_ns"]), spare=1),
    TableColumn("FIRST", lambda row: describe_instant(row["first_ns"]), wide=True),
    TableColumn("XIDS", lambda row: str(row["xids"]), wide=True, right=True),
)
EVIDENCE_COLUMNS = (
    TableColumn("AT", lambda row: describe_instant(row["at_ns"])),
    TableColumn("CARD", lambda row: row["card"]),
    TableColumn("XID", lambda row: str(row["xid"]), right=True),
    TableColumn("MEANING", lambda row: row["meaning"]),
    TableColumn("RECOVERY", lambda row: row["recovery"]),
)
JOB_COLUMNS = (
    TableColumn("JOB", lambda row: row["job"]),
    TableColumn("NAME", lambda row: row["name"]),
    TableColumn("TENANT", lambda row: row["tenant"]),
    TableColumn("USER", lambda row: row["user"]),
    TableColumn("CARD", lambda row: row["card"]),
    TableColumn("STATE", lambda row: row["state"]),
    TableColumn("ENDED BY IT", lambda row: "yes" if row["ended_by_fault"] else "no"),
)
XID_COLUMNS = (
    TableColumn("XID", lambda row: str(row["xid"]), right=True),
    TableColumn("MEANING", lambda row: row["meaning"]),
    TableColumn("REACH", lambda row: row["containment"]),
    TableColumn("PROPOSED", lambda row: row["repair"]),
    TableColumn("CARD AFTER IT", lambda row: row["health"]),
    TableColumn("NAME", lambda row: row["mnemonic"], wide=True),
    TableColumn("NVIDIA AT ONCE", lambda row: row["immediate"] or "--", wide=True),
    TableColumn("NVIDIA THEN", lambda row: row["investigate"] or "--", wide=True),
)
_VERBS = {
    "list": _list_incidents,
    "show": _show_incident,
    "accept": _accept_incident,
    "close": _close_incident,
    "xid": _explain_xid,
}
