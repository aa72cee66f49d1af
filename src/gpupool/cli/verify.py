"""`gpupool verify`: proves on the spot that a card's shares are what they promise."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpupool.base.errors import NotFound, Refused, StateUnusable
from gpupool.base.units import format_mib
from gpupool.cli.context import Context, say
from gpupool.cli.interrupt import interrupted_by_sigterm
from gpupool.cli.output import Column, pairs, print_data, table
from gpupool.cli.parser import OBJECT_FORMATS, Parser, add_output, one_of
from gpupool.client.paging import every
from gpupool.verification.checks import STEPS

if TYPE_CHECKING:
    from gpupool.verification.checks import Checks
    from gpupool.verification.report import Identity

NOT_KEPT = 8
"""The exit code when a promise was not kept."""


def register(parser: Parser) -> None:
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
    parser.add_argument("card", nargs="?", metavar="CARD", help="node:index or uuid (default: a card that is free)")
    parser.add_argument(
        "--only",
        action="append",
        type=one_of("--only", *STEPS),
        metavar="STEP",
        help=f"only this step; may be repeated: {', '.join(STEPS)}",
    )
    parser.add_argument("--quick", action="store_true", help="fewer and shorter measurements, wider tolerances")
    parser.add_argument("--out", metavar="DIR", help="where the report goes (default: gpupool-verify-TIME here)")
    parser.add_argument("--calibrate", metavar="FILE", help="measure the card's costs into FILE, and end")
    parser.add_argument("--no-report", action="store_true", help="write no report")
    add_output(parser, OBJECT_FORMATS)


def run(options: argparse.Namespace, context: Context) -> int:
    from gpupool.verification.bench import Bench
    from gpupool.verification.checks import FULL, QUICK, Checks
    from gpupool.verification.report import document

    card = _card(context, options.card)
    if options.calibrate:
        return _calibrate(options, context, card)
    began_ns, began = time.time_ns(), time.monotonic()
    with interrupted_by_sigterm(), Bench(context.api, card["model"]) as bench:
        bench.settle(card, _others(context, card))
        checks = Checks(bench, QUICK if options.quick else FULL, card["memory_bytes"])
        for words in checks.run(options.only or ()):
            say(words)
        answered = checks.identity()
    identity = _identity(context, card, answered, options.quick, began_ns, time.monotonic() - began)
    if not options.no_report:
        _keep(options.out, identity, checks)
    if options.output != "table":
        print_data(document(identity, checks.found), options.output)
    else:
        _show(identity, checks)
    return 0 if checks.found.kept else NOT_KEPT


def _calibrate(options: argparse.Namespace, context: Context, card: dict[str, Any]) -> int:
    """Measured in a whole card, which has no fence; beside it what the fence charges, as a share is shown."""
    from gpupool.mechanisms.calibration import record
    from gpupool.verification.bench import Bench
    from gpupool.verification.costs import figures, in_use

    with interrupted_by_sigterm(), Bench(context.api, card["model"]) as bench:
        bench.settle(card, _others(context, card))
        measured = figures(bench)
        charged = in_use(bench, card["memory_bytes"])
    record(Path(options.calibrate), card["model"], measured)
    answer = {"card": card["name"], "model": card["model"], "measured": measured, "in_use": charged}
    if options.output != "table":
        print_data(answer, options.output)
        return 0
    rows = [
        {"what": what, "measured": format_mib(measured[key]), "in_use": format_mib(charged[key]) if charged else "none"}
        for what, key in (("a context", "context_bytes"), ("step of allocations", "granule_bytes"))
    ]
    sys.stdout.write(f"{card['name']}: {card['model']}\n\n{table(rows, COSTS, color=False)}\n")
    say(f"{options.calibrate} has it; an agent reads it as calibration.json in the directory agent of its state")
    return 0


def _card(context: Context, named: str | None) -> dict[str, Any]:
    """The card to verify, wholly free. Raises NotFound, Refused."""
    cards: list[dict[str, Any]] = list(every(context.api, "devices", {}))
    if named is not None:
        found = [card for card in cards if named in (card["name"], card["uuid"], str(card["index"]))]
        if len(found) != 1:
            raise NotFound(f"no card is named {named!r}", hint="gpupool gpus lists them; write node:index or a uuid")
        cards = found
    free = [card for card in cards if card["state"] == "adopted" and card["shares"] == 0 and card["health"] != "failed"]
    if free:
        return free[0]
    if named is not None:
        card = cards[0]
        why = f"{card['shares']} shares are on it" if card["shares"] else f"it is {card['state']}, {card['health']}"
        raise Refused(
            f"{card['name']} is not free: {why}", hint="name another card, or drain it: gpupool release --drain"
        )
    raise Refused(
        f"none of {len(cards)} cards is wholly free, and what others hold would be measured with it",
        hint="gpupool gpus  shows what is held; gpupool verify CARD  when one is free",
    )


def _others(context: Context, card: dict[str, Any]) -> list[dict[str, Any]]:
    """The cards on which a job could land instead."""
    same = every(context.api, "devices", {"model": card["model"]})
    return [other for other in same if other["name"] != card["name"] and other["state"] == "adopted"]


def _identity(
    context: Context,
    card: dict[str, Any],
    answered: tuple[dict[str, Any], dict[str, Any]],
    quick: bool,
    began_ns: int,
    seconds: float,
) -> Identity:
    from gpupool.verification.report import Identity

    pool, me = context.api.request("GET", "pool"), context.api.request("GET", "whoami")
    return Identity(
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
        processors=len(os.sched_getaffinity(0)) if context.api.local else None,
        load=os.getloadavg()[0] if context.api.local else None,
    )


def _keep(out: str | None, identity: Identity, checks: Checks) -> None:
    from gpupool.verification.report import write

    folder = Path(out or time.strftime("gpupool-verify-%Y%m%dT%H%M%SZ", time.gmtime(identity.began_ns / 1e9)))
    try:
        written = write(folder, identity, checks.found)
    except OSError as error:
        raise StateUnusable(f"the report cannot be written to {folder}: {error.strerror}", hint="--out DIR") from error
    say(f"report: {written[0]} and {written[1]}")


def _show(identity: Identity, checks: Checks) -> None:
    from gpupool.verification.report import facts, table_rows, verdict

    sys.stdout.write(pairs(list(facts(identity))) + "\n\n")
    sys.stdout.write(table(table_rows(checks.found), COLUMNS, color=sys.stdout.isatty()) + "\n\n")
    sys.stdout.write(verdict(identity, checks.found) + "\n")


COSTS = (
    Column("TAKES", lambda row: row["what"]),
    Column("MEASURED", lambda row: row["measured"]),
    Column("IN USE", lambda row: row["in_use"]),
)
COLUMNS = (
    Column("PROMISE", lambda row: row["title"]),
    Column("PROMISED", lambda row: row["promised"]),
    Column("MEASURED", lambda row: row["measured"]),
    Column("", lambda row: row["verdict"], color=lambda row: "green" if row["verdict"] == "kept" else "red"),
)
