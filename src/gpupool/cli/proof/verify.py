"""`gpupool verify`: proves on the spot that a card's shares are what they promise."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpupool.base.errors import NotFound, RequestRejection, StateUnusable
from gpupool.base.units import format_mib
from gpupool.client.paging import iterate_items
from gpupool.terminal.context import CommandContext, print_notice
from gpupool.terminal.interrupt import interrupted_by_sigterm
from gpupool.terminal.output import TableColumn, format_pairs, format_table, print_data
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output, one_of
from gpupool.verification.checks import CHECKS

if TYPE_CHECKING:
    from gpupool.verification.checks import CardChecks
    from gpupool.verification.report import ReportIdentity

#: The exit code when a promise was not kept.
NOT_KEPT = 8


def register(parser: CommandParser) -> None:
    parser.about = """
    Submits jobs of its own to the pool and measures what they get: the memory they see and are refused, the
    compute of several shares beside each other, fixed and burst, what a busy, a crashing and a killed neighbour
    do, and how soon a resize is in force. Needs one wholly free card for about a minute (--quick: 15 s). An admin
    has it done in two tenants made for it. Ends everything it started, also after Ctrl-C. Exit code 8 when a
    promise was not kept. The report is one JSON document and one HTML page that needs no network. With
    --calibrate FILE it only measures what a context and an allocation take of the card, and puts that into FILE.
    """
    parser.examples = [
        "gpupool verify",
        "gpupool verify node-1:3 --out audit/2026-11",
        "gpupool verify --quick -o json",
        "gpupool verify --calibrate calibration.json",
    ]
    parser.add_argument(
        "card", nargs="?", metavar="CARD", help="node:index or uuid (default: a card that is free)"
    )
    parser.add_argument(
        "--only",
        action="append",
        type=one_of("--only", *CHECKS),
        metavar="STEP",
        help=f"only this step; may be repeated: {', '.join(CHECKS)}",
    )
    parser.add_argument(
        "--quick", action="store_true", help="fewer and shorter measurements, wider tolerances"
    )
    parser.add_argument(
        "--out", metavar="DIR", help="folder of the report (default: gpupool-verify-TIME here)"
    )
    parser.add_argument(
        "--calibrate", metavar="FILE", help="measure the costs of a card into FILE, and end"
    )
    parser.add_argument("--no-report", action="store_true", help="write no report")
    add_output(parser, OBJECT_FORMATS)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    from gpupool.verification.bench import VerificationBench
    from gpupool.verification.checks import CardChecks
    from gpupool.verification.report import build_document
    from gpupool.verification.scale import FULL, QUICK

    card = _choose_card(context, options.card)
    if options.calibrate:
        return _calibrate_card(options, context, card)
    began_ns = time.time_ns()
    began = time.monotonic()  # the wall clock may be set meanwhile
    with interrupted_by_sigterm(), VerificationBench(context.api, card["model"]) as bench:
        bench.choose_card(card, _list_other_cards(context, card))
        checks = CardChecks(bench, QUICK if options.quick else FULL, card["memory_bytes"])
        # Told as each promise is measured: a full run takes a minute.
        for words in checks.run_checks(options.only or ()):
            print_notice(words)
        answered = checks.find_identity()
    identity = _describe_identity(
        context, card, answered, options.quick, began_ns, time.monotonic() - began
    )
    if not options.no_report:
        _write_report(options.out, identity, checks)
    if options.output != "table":
        print_data(build_document(identity, checks.findings), options.output)
    else:
        _print_report(identity, checks)
    return 0 if checks.findings.is_kept else NOT_KEPT


def _calibrate_card(
    options: argparse.Namespace, context: CommandContext, card: dict[str, Any]
) -> int:
    """Measure the costs in a whole card, which has no fence; beside it what the fence charges."""
    from gpupool.mechanisms.calibration import record_figures
    from gpupool.verification.bench import VerificationBench
    from gpupool.verification.costs import measure_charges, measure_costs

    with interrupted_by_sigterm(), VerificationBench(context.api, card["model"]) as bench:
        bench.choose_card(card, _list_other_cards(context, card))
        measured = measure_costs(bench)
        charged = measure_charges(bench, card["memory_bytes"])
    record_figures(Path(options.calibrate), card["model"], measured)
    answer = {"card": card["name"], "model": card["model"], "measured": measured, "in_use": charged}
    if options.output != "table":
        print_data(answer, options.output)
        return 0
    rows = []
    for what, key in (("a context", "context_bytes"), ("step of allocations", "granule_bytes")):
        charge = format_mib(charged[key]) if charged else "none"
        rows.append({"what": what, "measured": format_mib(measured[key]), "in_use": charge})
    sys.stdout.write(
        f"{card['name']}: {card['model']}\n\n{format_table(rows, COSTS, color=False)}\n"
    )
    print_notice(
        f"{options.calibrate} has it; an agent reads it as calibration.json in the directory agent "
        "of its state"
    )
    return 0


def _choose_card(context: CommandContext, named: str | None) -> dict[str, Any]:
    """Choose the card to verify, wholly free.

    Raises:
        NotFound: No card has that name.
        RequestRejection: It is not free, or none is.
    """
    cards: list[dict[str, Any]] = list(iterate_items(context.api, "devices", {}))
    if named is not None:
        found = [
            card for card in cards if named in (card["name"], card["uuid"], str(card["index"]))
        ]
        if len(found) != 1:
            raise NotFound(
                f"no card is named {named!r}",
                hint="gpupool gpus lists them; write node:index or a uuid",
            )
        cards = found
    for card in cards:
        # Wholly free: what a neighbour does would be measured as the card's own.
        if card["state"] == "adopted" and card["shares"] == 0 and card["health"] != "failed":
            return card
    if named is not None:
        card = cards[0]
        why = (
            f"{card['shares']} shares are on it"
            if card["shares"]
            else f"it is {card['state']}, {card['health']}"
        )
        raise RequestRejection(
            f"{card['name']} is not free: {why}",
            hint="name another card, or drain it: gpupool release --drain",
        )
    raise RequestRejection(
        f"none of {len(cards)} cards is wholly free, and what others hold would be measured with "
        "it",
        hint="gpupool gpus  shows what is held; gpupool verify CARD  when one is free",
    )


def _list_other_cards(context: CommandContext, card: dict[str, Any]) -> list[dict[str, Any]]:
    """List the cards on which a job could land instead."""
    same = iterate_items(context.api, "devices", {"model": card["model"]})
    return [
        other for other in same if other["name"] != card["name"] and other["state"] == "adopted"
    ]


def _describe_identity(
    context: CommandContext,
    card: dict[str, Any],
    answered: tuple[dict[str, Any], dict[str, Any]],
    quick: bool,
    began_ns: int,
    seconds: float,
) -> ReportIdentity:
    from gpupool.verification.report import ReportIdentity

    pool = context.api.request("GET", "pool")
    me = context.api.request("GET", "whoami")
    return ReportIdentity(
        pool=pool["id"],
        pool_version=pool["version"],
        node=card["node"],
        card=card["name"],
        card_model=card["model"],
        card_uuid=card["uuid"],
        card_memory_bytes=card["memory_bytes"],
        driver_version=answered[0].get("driver_version", 0),
        simulated=card["simulated"],
        fence=answered[1].get("fence", "none"),
        fence_why=answered[1].get("fence_why", ""),
        user=me["user"],
        tenant=me["tenant"],
        began_ns=began_ns,
        seconds=seconds,
        quick=quick,
        # Of this machine, which says nothing of a pool elsewhere.
        processors=len(os.sched_getaffinity(0)) if context.api.local else None,
        load=os.getloadavg()[0] if context.api.local else None,
    )


def _write_report(out: str | None, identity: ReportIdentity, checks: CardChecks) -> None:
    from gpupool.verification.report import write_report

    folder = Path(
        out or time.strftime("gpupool-verify-%Y%m%dT%H%M%SZ", time.gmtime(identity.began_ns / 1e9))
    )
    try:
        written = write_report(folder, identity, checks.findings)
    except OSError as error:
        raise StateUnusable(
            f"the report cannot be written to {folder}: {error.strerror}", hint="--out DIR"
        ) from error
    print_notice(f"report: {written[0]} and {written[1]}")


def _print_report(identity: ReportIdentity, checks: CardChecks) -> None:
    from gpupool.verification.report import format_verdict, list_facts, list_rows

    sys.stdout.write(format_pairs(list(list_facts(identity))) + "\n\n")
    sys.stdout.write(
        format_table(list_rows(checks.findings), COLUMNS, color=sys.stdout.isatty()) + "\n\n"
    )
    sys.stdout.write(format_verdict(identity, checks.findings) + "\n")


COSTS = (
    TableColumn("TAKES", lambda row: row["what"]),
    TableColumn("MEASURED", lambda row: row["measured"]),
    TableColumn("IN USE", lambda row: row["in_use"]),
)
COLUMNS = (
    TableColumn("PROMISE", lambda row: row["title"]),
    TableColumn("PROMISED", lambda row: row["promised"]),
    TableColumn("MEASURED", lambda row: row["measured"]),
    TableColumn(
        "",
        lambda row: row["verdict"],
        color=lambda row: "green" if row["verdict"] == "kept" else "red",
    ),
)
