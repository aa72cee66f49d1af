"""Carries out the switches of a `gpupool mig` plan: checks, asks, begins them, and follows each."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpupool.base.errors import BadOption, UnknownProfile, WriteConflict, WrongState
from gpupool.cli.planning.mig_plan import EXIT_REFUSED, format_plan, make_plan, read_running
from gpupool.cli.planning.mode_progress import follow_switches
from gpupool.client.paging import iterate_items
from gpupool.terminal.confirm import confirm_plan
from gpupool.terminal.context import CommandContext
from gpupool.terminal.output import print_data

#: Exit code where a card was not switched, or something is in the way of it.
EXIT_NOT_SWITCHED = 1
#: The largest plan that is read; the largest pool's has less.
MOST_PLAN_BYTES = 64 << 20


def apply_plan(options: argparse.Namespace, context: CommandContext) -> int:
    """Switch the cards that a plan needs to MIG mode. Returns the exit code.

    Raises:
        BadOption: the plan's file cannot be read, or nothing says yes.
        WriteConflict: a card has changed since the plan.
        WrongState: a card cannot be switched.
        UnknownProfile: a card of the plan has no such profile.
    """
    if options.plan is not None:
        if options.demand is not None:
            raise BadOption("--demand and --plan exclude each other: a plan has its demand")
        plan = _read_plan(Path(options.plan))
        _check_plan(plan, options, context)
    else:
        plan = make_plan(options, context)
    if options.dry_run:
        return _show_steps(plan, options, context)
    if options.output == "table":
        sys.stdout.write(format_plan(plan))
        if plan["moves"]:
            sys.stdout.write(f"apply moves no job: gpupool stop {plan['moves'][0]['job']}\n")
    switches = plan["switches"]
    if switches:
        _confirm(switches, options)
        switches = _begin_and_follow(switches, options, context)
    elif options.output == "table":
        sys.stdout.write("no card needs to be switched\n")
    if options.output != "table":
        print_data({**plan, "switches": switches}, options.output)
    if any(one["state"] in ("failed", "replaced") for one in switches):
        return EXIT_NOT_SWITCHED
    return EXIT_REFUSED if plan["missing"] else 0


def _read_plan(path: Path) -> dict[str, Any]:
    """Read what `mig plan -o json` printed. Raises BadOption."""
    hint = "gpupool mig plan -o json > FILE"
    try:
        if path.stat().st_size > MOST_PLAN_BYTES:
            raise BadOption(f"{path} is larger than any plan", hint=hint)
        plan = json.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise BadOption(f"{path} cannot be read: {problem.strerror}", hint=hint) from problem
    except ValueError as problem:
        raise BadOption(f"{path} is no JSON: {problem}", hint=hint) from problem
    try:
        for switch in plan["switches"]:
            for key in ("card", "uuid", "mode", "expected"):
                if not isinstance(switch[key], str):
                    raise TypeError(f"{key} of a switch is no text")
        for card in plan["cards"]:
            for slot in card["after"]:
                str(slot["profile"])
        format_plan(plan)
    except (KeyError, TypeError, AttributeError) as problem:
        raise BadOption(
            f"{path} is no plan of this version: {type(problem).__name__} {problem}", hint=hint
        ) from problem
    found: dict[str, Any] = plan
    return found


def _check_plan(
    plan: Mapping[str, Any], options: argparse.Namespace, context: CommandContext
) -> None:
    """Refuse a plan from a file whose cards are others now."""
    from gpupool.simulation.studies.mode_candidates import (
        find_mig_offer,
        format_endless,
        list_offered_profiles,
        read_candidates,
    )

    devices = list(iterate_items(context.api, "devices", {}))
    by_uuid = {device["uuid"]: device for device in devices}
    wanted = {card["card"]: card["after"] for card in plan["cards"]}
    gone = [one["card"] for one in plan["switches"] if one["uuid"] not in by_uuid]
    if gone:
        raise WriteConflict(
            f"{len(gone)} of {len(plan['switches'])} cards of the plan have left the pool: "
            f"{', '.join(gone[:5])}",
            hint="plan again: gpupool mig plan",
        )
    for switch in plan["switches"]:
        device = by_uuid[switch["uuid"]]
        offer = find_mig_offer(device)
        known = [profile.name for profile in list_offered_profiles(device, offer)]
        for slot in wanted.get(switch["card"], ()):
            if slot["profile"] not in known:
                raise UnknownProfile(
                    f"{device['name']} ({device['model']}) has no profile {slot['profile']!r}",
                    hint=f"known: {', '.join(known) or 'none'}",
                )
    if options.with_endless:
        return
    cards = read_candidates(devices, read_running(context), with_endless=True)
    chosen = {switch["uuid"] for switch in plan["switches"]}
    for one in cards.candidates:
        if one.uuid in chosen and one.endless and not one.is_under_way:
            raise WrongState(
                f"{one.card.name} cannot be drained: {format_endless(one.endless)}",
                hint=f"gpupool stop {one.endless[0]}, or --with-endless to wait for it",
            )


def _show_steps(plan: dict[str, Any], options: argparse.Namespace, context: CommandContext) -> int:
    """Print the plan with the steps of each switch, and what blocks it."""
    switches = _ask_pool(plan["switches"], context, dry_run=True)
    if options.output != "table":
        print_data({**plan, "switches": switches}, options.output)
    else:
        sys.stdout.write(format_plan(plan))
        for switch in switches:
            sys.stdout.write(f"\n{switch['card']}: {switch['expected']} -> {switch['mode']}\n")
            for number, step in enumerate(switch["steps"], 1):
                sys.stdout.write(f"  {number}. {step}\n")
            for reason in switch["blocked_by"]:
                sys.stdout.write(f"blocked: {reason}\n")
        sys.stdout.write("nothing was changed\n")
    if any(switch["blocked_by"] for switch in switches):
        return EXIT_NOT_SWITCHED
    return EXIT_REFUSED if plan["missing"] else 0


def _ask_pool(
    switches: Sequence[Mapping[str, Any]], context: CommandContext, *, dry_run: bool
) -> list[dict[str, Any]]:
    """Ask the pool for the switches, all of them or none; what it answers is added to each."""
    if not switches:
        return []
    cards = [{"device": one["uuid"], "expected": one["expected"]} for one in switches]
    body = {"mode": "mig", "cards": cards, "dry_run": dry_run}
    answers = context.api.request("POST", "devices/modes", body)
    found = []
    for one, answer in zip(switches, answers, strict=True):
        shown = {key: answer[key] for key in ("steps", "blocked_by", "state", "reason")}
        found.append({**one, **shown})
    return found


def _confirm(switches: Sequence[Mapping[str, Any]], options: argparse.Namespace) -> None:
    if options.output != "table":
        # The question would stand in the document.
        if not options.yes:
            raise BadOption("nothing was done: this needs a yes", hint="add --yes")
        return
    lines = []
    for one in switches:
        wait = f", when these have ended: {', '.join(one['waits_for'])}" if one["waits_for"] else ""
        lines.append(f"switch {one['card']} from {one['expected']} to mig{wait}")
    confirm_plan(lines, yes=options.yes)


def _begin_and_follow(
    switches: Sequence[dict[str, Any]], options: argparse.Namespace, context: CommandContext
) -> list[dict[str, Any]]:
    """Begin the switches and follow them to their ends; returns them with state and reason."""
    last_event = int(context.api.request("GET", "pool")["last_event"])
    begun = _ask_pool(switches, context, dry_run=False)
    # On stderr beside a document, so that a long wait is not silent.
    stream = sys.stdout if options.output == "table" else sys.stderr
    if options.no_wait:
        if options.output == "table":
            _tell_going_on(begun)
        return begun
    try:
        ends = follow_switches(context.api, begun, last_event, stream)
    except KeyboardInterrupt:
        _tell_going_on(begun)
        raise
    return [{**one, **ends[one["uuid"]]} for one in begun]


def _tell_going_on(switches: Sequence[Mapping[str, Any]]) -> None:
    word = "the switch goes on" if len(switches) == 1 else f"{len(switches)} switches go on"
    sys.stderr.write(f"{word} without this command\n")
    sys.stderr.write(f"  how far it is:  gpupool show {switches[0]['card']}\n")
    sys.stderr.write(f"  turn back:      gpupool mode {switches[0]['card']} plain\n")
