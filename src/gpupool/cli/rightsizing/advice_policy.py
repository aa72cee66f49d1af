"""The verbs of `gpupool advise` for policies: what may be cut by itself, and within which bounds."""

from __future__ import annotations

import argparse
import sys
from typing import Any, Final

from gpupool.base.errors import BadOption
from gpupool.base.units import format_gpu, format_mib, parse_gpu, parse_memory
from gpupool.terminal.confirm import confirm_plan
from gpupool.terminal.context import CommandContext
from gpupool.terminal.output import Row, TableColumn, format_pairs, print_data, print_list
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output, add_yes, one_of
from gpupool.terminal.references import quote_segment

MODES: Final = ("off", "propose", "apply")
TARGETS: Final = ("new", "running", "both")
CONFIDENCES: Final = ("low", "medium", "high")


def register_policies(parser: CommandParser) -> None:
    """Add the verbs."""
    unset = argparse.SUPPRESS
    change = parser.add_verb("policy-set", "let a policy give jobs their advice, within bounds")
    change.about = """
    An admin of the pool says what is allowed: for the pool, a tenant or a project, and of these for families alone
    whose names match. The policy that names a family closest holds. A tenant's admin may only tighten it. A job never
    gets more than it asked for; what is not known is not changed. A job at its limit for more than 5 % of its time
    gets back what it asked for, and its family is left alone for a week. `gpupool submit --exact` refuses any advice.
    """
    change.examples = [
        "gpupool advise policy set --mode apply --dry-run --since 30d",
        "gpupool advise policy set nlp --mode apply --when both --min-share 0.1 --max-cut 50%",
        "gpupool advise policy set nlp/chat --families 'eval-*' --mode off",
    ]
    change.add_argument(
        "scope",
        nargs="?",
        metavar="TENANT[/PROJECT]",
        help="whose jobs (default: the pool's; of a tenant's admin, the own tenant's)",
    )
    change.add_argument(
        "--families", metavar="PATTERN", help="only families with such a name: train, eval-*"
    )
    change.add_argument(
        "--mode",
        type=one_of("--mode", *MODES),
        default="propose",
        metavar="MODE",
        help="off, propose (jobs say what they would get), apply (default: propose)",
    )
    change.add_argument(
        "--when",
        type=one_of("--when", *TARGETS),
        default="new",
        metavar="WHICH",
        help="new jobs, running ones, or both (default: new)",
    )
    change.add_argument(
        "--min-share",
        default="0.05",
        metavar="SHARE",
        help="compute of a card that stays at least (default: 0.05)",
    )
    change.add_argument(
        "--max-cut",
        default="50%",
        metavar="PERCENT",
        help="of the request that is cut at most (default: half of it)",
    )
    change.add_argument(
        "--min-memory",
        default="1GiB",
        metavar="SIZE",
        help="memory of a card that stays at least (default: 1GiB)",
    )
    change.add_argument(
        "--confidence",
        type=one_of("--confidence", *CONFIDENCES),
        default="high",
        metavar="LEVEL",
        help="the least that is trusted: low, medium, high (default: high)",
    )
    change.add_argument(
        "--dry-run", action="store_true", help="say what it would have done; set nothing"
    )
    change.add_argument(
        "--since", default=unset, metavar="TIME", help="of a dry run: jobs from when on"
    )
    add_output(change, OBJECT_FORMATS)
    listing = parser.add_verb("policy-list", "policies of the pool and of your tenant")
    add_output(listing)
    show = parser.add_verb("policy-show", "one policy")
    show.add_argument("policy", metavar="POLICY", help="its id")
    add_output(show, OBJECT_FORMATS)
    remove = parser.add_verb("policy-remove", "remove a policy; changed jobs keep what they have")
    remove.add_argument("policy", metavar="POLICY", help="its id")
    add_yes(remove)


def _set_policy(options: argparse.Namespace, context: CommandContext) -> int:
    body = _read_options(options)
    if options.dry_run:
        query = {"since": options.since}
        found = context.api.request("POST", "advice/policies/trial", body, query=query)
        return _print_trial(found, options.since, options.output)
    return _print_policy(context.api.request("PUT", "advice/policies", body), options.output)


def _read_options(options: argparse.Namespace) -> dict[str, Any]:
    tenant, _, project = (options.scope or "").partition("/")
    milli, _ = parse_gpu(options.min_share)
    return {
        "tenant": tenant or None,
        "project": project or None,
        "families": options.families,
        "mode": options.mode,
        "target": options.when,
        "least_milli": milli,
        "most_cut_percent": parse_cut(options.max_cut),
        "least_bytes": parse_memory(options.min_memory),
        "confidence": options.confidence,
    }


def parse_cut(text: str) -> int:
    """Parse `50%` or `50`. Raises BadOption.

    >>> parse_cut("50%"), parse_cut("30")
    (50, 30)
    """
    number = text.removesuffix("%").strip()
    if not (number.isascii() and number.isdigit() and 1 <= int(number) <= 99):
        raise BadOption(
            f"--max-cut {text!r}: expected a whole number of percent from 1 to 99",
            hint="--max-cut 50%",
        )
    return int(number)


def _print_trial(found: dict[str, Any], since: str, output: str) -> int:
    if output != "table":
        print_data(found, output)
        return 0
    sys.stdout.write(
        f"would have changed {found['changed_jobs']} of {found['jobs']} jobs since {since} "
        f"({found['scope']})\n"
    )
    if not found["changed_jobs"]:
        known = found["known_jobs"]
        sys.stdout.write(f"advice was known for {known} of them, within these bounds for none\n")
        return 0
    facts: list[tuple[str, object]] = [
        ("starved", f"{found['starved_percent']:g} % of their time"),
        ("returned", f"{found['returned_jobs']} jobs got back what they asked for"),
        ("left alone", f"{found['paused_families']} times a family, for a week each"),
        ("short of memory", f"{found['short_of_memory']} jobs would have met their limit"),
        ("saved", _describe_saving(found)),
    ]
    sys.stdout.write(format_pairs(facts) + "\n")
    return 0


def _describe_saving(found: Row) -> str:
    hours = f"{found['saved_hours']:.2f} of {found['requested_hours']:.2f} GPU-hours"
    part = found["saved_percent"]
    return hours if part is None else f"{hours} ({part:g} %)"


def _list_policies(options: argparse.Namespace, context: CommandContext) -> int:
    rows = context.api.request("GET", "advice/policies")
    empty = "no advice policies: jobs get what they ask for"
    print_list(rows, COLUMNS, options.output, empty=empty)
    return 0


def _show_policy(options: argparse.Namespace, context: CommandContext) -> int:
    return _print_policy(context.api.request("GET", _path(options.policy)), options.output)


def _remove_policy(options: argparse.Namespace, context: CommandContext) -> int:
    policy = context.api.request("GET", _path(options.policy))
    confirm_plan([f"remove the advice policy of {policy['scope']}"], yes=options.yes)
    context.api.request("DELETE", _path(options.policy))
    sys.stdout.write(f"advice policy {policy['id']} is removed\n")
    return 0


def _path(policy: str) -> str:
    return f"advice/policies/{quote_segment(policy, 'policy')}"


def _print_policy(policy: dict[str, Any], output: str) -> int:
    if output != "table":
        print_data(policy, output)
        return 0
    facts: list[tuple[str, object]] = [
        ("policy", policy["id"]),
        ("of", policy["scope"]),
        ("set by", _describe_setter(policy)),
        ("mode", policy["mode"]),
        ("jobs", policy["target"]),
        ("least share", _describe_least(policy)),
        ("largest cut", f"{policy['most_cut_percent']} %"),
        ("confidence", f"{policy['confidence']} or better"),
    ]
    sys.stdout.write(format_pairs(facts) + "\n")
    return 0


def _describe_least(policy: Row) -> str:
    return f"{format_gpu(policy['least_milli'])} GPU + {format_mib(policy['least_bytes'])}"


def _describe_setter(policy: Row) -> str:
    return "its tenant" if policy["by_tenant"] else "the pool"


COLUMNS = (
    TableColumn("POLICY", lambda row: row["id"]),
    TableColumn("OF", lambda row: row["scope"]),
    TableColumn("SET BY", _describe_setter),
    TableColumn("MODE", lambda row: row["mode"]),
    TableColumn("JOBS", lambda row: row["target"]),
    TableColumn("LEAST SHARE", _describe_least, right=True),
    TableColumn("LARGEST CUT", lambda row: f"{row['most_cut_percent']} %", right=True),
    TableColumn("CONFIDENCE", lambda row: row["confidence"]),
)
VERBS: Final = {
    "policy-set": _set_policy,
    "policy-list": _list_policies,
    "policy-show": _show_policy,
    "policy-remove": _remove_policy,
}
