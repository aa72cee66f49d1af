"""`gpupool mig`: which partitions the cards get for a demand, and switching cards to MIG for it."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from gpupool.cli.planning.mig_plan import EXIT_REFUSED, format_plan, make_plan
from gpupool.cli.planning.mig_switches import apply_plan
from gpupool.terminal.context import CommandContext
from gpupool.terminal.output import print_data
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output


def register(parser: CommandParser) -> None:
    parser.about = """
    Plans partitions (MIG) for what waits, or for another demand. Running partitions stay where they are. If the
    demand does not fit so, the plan moves jobs of one card, those with the least compute first; only jobs submitted
    with --preemptible may move. What still finds no slot gets further cards, which must be switched to MIG mode.

    `plan` changes nothing. `apply` switches the modes of these cards and nothing else: each is drained, set up by its
    agent and handed out again. Partitions are created when their jobs start, so the profiles of the plan are a
    forecast. Cards whose jobs have no time limit are left out. The exit code is 3 if something finds no slot, and 1
    if a card was not switched.
    """
    parser.examples = [
        "gpupool mig plan",
        "gpupool mig plan --demand 3x1g.18gb,1x3g.71gb",
        "gpupool mig apply --demand 2x4g --dry-run -o json",
        "gpupool mig apply --plan plan.json --yes",
    ]
    parser.add_verbs()
    plan = parser.add_verb("plan", "show which partitions the cards would get")
    _add_demand(plan)
    add_output(plan, OBJECT_FORMATS)
    apply = parser.add_verb("apply", "switch the cards that the plan needs to MIG mode")
    _add_demand(apply)
    apply.add_argument(
        "--plan", metavar="FILE", help="what `mig plan -o json` printed, instead of a new plan"
    )
    apply.add_argument(
        "--dry-run", action="store_true", help="show every step and what is in the way"
    )
    apply.add_argument("--yes", action="store_true", help="do not ask")
    apply.add_argument("--no-wait", action="store_true", help="do not wait for the switches")
    add_output(apply, OBJECT_FORMATS)


def _add_demand(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--demand",
        metavar="LIST",
        help="numbers and profiles, like 3x1g.18gb,1x3g.71gb (default: what waits)",
    )
    verb.add_argument(
        "--with-endless",
        action="store_true",
        help="also switch cards whose jobs have no time limit; the switch waits for them",
    )


def run(options: argparse.Namespace, context: CommandContext) -> int:
    if options.verb == "apply":
        return apply_plan(options, context)
    found: dict[str, Any] = make_plan(options, context)
    if options.output == "table":
        sys.stdout.write(format_plan(found))
    else:
        print_data(found, options.output)
    return EXIT_REFUSED if found["missing"] else 0
