"""The verbs of `gpupool idle` for policies: options or a file become one request."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any, Final

from gpupool.base.errors import BadInput, BadOption
from gpupool.base.units import format_gpu, format_span, parse_duration
from gpupool.client.yaml_text import BadYaml, read_documents
from gpupool.terminal.confirm import confirm_plan
from gpupool.terminal.context import CommandContext
from gpupool.terminal.output import Row, TableColumn, format_pairs, print_data, print_list
from gpupool.terminal.parser import (
    OBJECT_FORMATS,
    CommandParser,
    add_output,
    add_yes,
    integer_within,
    one_of,
)
from gpupool.terminal.references import quote_segment

KINDS: Final = ("notebook", "gang", "container", "job")
#: Compute of each card that a shrink leaves where nothing else is said.
_USUAL_SHARE: Final = "0.05"
_STEP: Final = re.compile(r"(warn|shrink|suspend|stop)(?: to (\S+))? after (\S+)")
_FILE_KEYS: Final = {
    "tenant", "project", "kind", "mode", "window", "steps", "keep", "keeps_per_day",
}  # fmt: skip


def register_policies(parser: CommandParser) -> None:
    """Add the verbs."""
    change = parser.add_verb("policy-set", "set the policy of the pool, a tenant, project or kind")
    change.add_argument("-f", "--file", metavar="FILE", help="YAML in place of options; -: stdin")
    change.add_argument("--tenant", metavar="TENANT", help="only of this tenant")
    change.add_argument("--project", metavar="PROJECT", help="only of this project of the tenant")
    change.add_argument(
        "--kind", type=one_of("--kind", *KINDS), metavar="KIND", help=f"only {', '.join(KINDS)}"
    )
    change.add_argument("--warn", metavar="TIME", help="idle time after which its user is told")
    change.add_argument("--shrink", metavar="TIME", help="… its compute shrinks; memory stays")
    change.add_argument(
        "--shrink-to",
        metavar="SHARE",
        help=f"compute of each card that is left (default: {_USUAL_SHARE})",
    )
    change.add_argument(
        "--suspend", metavar="TIME", help="… it is suspended, if it has --when-idle suspend"
    )
    change.add_argument("--stop", metavar="TIME", help="… it is stopped")
    change.add_argument(
        "--window", default="5m", metavar="TIME", help="activity in it is none of idleness (5m)"
    )
    change.add_argument(
        "--keep", default="2h", metavar="TIME", help="longest time of one keep (default: 2h)"
    )
    change.add_argument(
        "--keeps",
        type=integer_within("--keeps", "a number of keeps", 0, 100),
        default=2,
        metavar="COUNT",
        help="keeps of one job in 24 hours (default: 2)",
    )
    change.add_argument(
        "--dry-run", action="store_true", help="only count what would be given back"
    )
    add_output(change, OBJECT_FORMATS)
    listing = parser.add_verb("policy-list", "policies of the pool and of your tenant")
    add_output(listing)
    show = parser.add_verb("policy-show", "one policy; -o yaml for policy set -f")
    show.add_argument("policy", metavar="POLICY", help="its id")
    add_output(show, OBJECT_FORMATS)
    remove = parser.add_verb("policy-remove", "remove a policy; jobs get back what they gave")
    remove.add_argument("policy", metavar="POLICY", help="its id")
    add_yes(remove)


def _set_policy(options: argparse.Namespace, context: CommandContext) -> int:
    body = _read_options(options) if options.file is None else _read_file(options)
    found = context.api.request("PUT", "idle/policies", body)
    return _print_policy(found, options.output)


def _list_policies(options: argparse.Namespace, context: CommandContext) -> int:
    rows = context.api.request("GET", "idle/policies")
    print_list(
        rows, COLUMNS, options.output, empty="no idle policies: nothing happens to idle jobs"
    )
    return 0


def _show_policy(options: argparse.Namespace, context: CommandContext) -> int:
    return _print_policy(context.api.request("GET", _path(options.policy)), options.output)


def _remove_policy(options: argparse.Namespace, context: CommandContext) -> int:
    policy = context.api.request("GET", _path(options.policy))
    confirm_plan(
        [f"remove the idle policy of {policy['scope']}: {describe_policy(policy)}"],
        yes=options.yes,
    )
    context.api.request("DELETE", _path(options.policy))
    sys.stdout.write(f"idle policy {policy['id']} is removed\n")
    return 0


def _path(policy: str) -> str:
    return f"idle/policies/{quote_segment(policy, 'policy')}"


def _read_options(options: argparse.Namespace) -> dict[str, Any]:
    steps = list[dict[str, Any]]()
    for act in ("warn", "shrink", "suspend", "stop"):
        after = getattr(options, act)
        if after is not None:
            share = (options.shrink_to or _USUAL_SHARE) if act == "shrink" else None
            steps.append(_build_step(act, after, share))
    if options.shrink_to is not None and options.shrink is None:
        raise BadOption("--shrink-to alone does nothing", hint="add --shrink 60m")
    if not steps:
        raise BadOption(
            "a policy needs steps", hint="--warn 50m --shrink 60m --stop 2h, or -f FILE"
        )
    return {
        "tenant": options.tenant,
        "project": options.project,
        "kind": options.kind,
        "mode": "dry-run" if options.dry_run else "on",
        "window_seconds": parse_duration(options.window),
        "steps": steps,
        "keep_seconds": parse_duration(options.keep),
        "keeps_per_day": options.keeps,
    }


def _read_file(options: argparse.Namespace) -> dict[str, Any]:
    """Read a policy as `policy show -o yaml` prints it, or with times and shares as people write."""
    text = sys.stdin.read() if options.file == "-" else Path(options.file).read_text("utf-8")
    try:
        documents = [value for _, value in read_documents(text)]
    except BadYaml as error:
        raise BadInput(
            f"{options.file}: {error}", hint="gpupool idle policy show -o yaml"
        ) from None
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise BadInput(
            f"{options.file}: got {len(documents)} documents, expected one policy",
            hint="see docs/how-to/idle.md",
        )
    found: dict[str, Any] = documents[0]
    unknown = sorted(str(key) for key in found if key not in _FILE_KEYS)
    if unknown:
        raise BadInput(
            f"{options.file}: unknown keys {', '.join(unknown)}",
            hint=f"known are {', '.join(sorted(_FILE_KEYS))}",
        )
    steps = [_parse_step(step) for step in found.get("steps") or ()]
    return {
        "tenant": found.get("tenant"),
        "project": found.get("project"),
        "kind": found.get("kind"),
        "mode": _read_mode(options, found),
        "window_seconds": parse_duration(str(found.get("window", "5m"))),
        "steps": steps,
        "keep_seconds": parse_duration(str(found.get("keep", "2h"))),
        "keeps_per_day": found.get("keeps_per_day", 2),
    }


def _read_mode(options: argparse.Namespace, found: dict[str, Any]) -> str:
    mode = found.get("mode", "on")
    if options.dry_run:
        return "dry-run"
    # YAML 1.1 reads an unquoted `on` as true.
    return "on" if mode is True else str(mode)


def _parse_step(text: object) -> dict[str, Any]:
    found = _STEP.fullmatch(str(text).strip())
    if found is None:
        raise BadInput(
            f"step {text!r} is not understood",
            hint="write it like: warn after 50m, shrink to 0.05 after 60m, stop after 2h",
        )
    act, share, after = found.groups()
    return _build_step(act, after, share or (_USUAL_SHARE if act == "shrink" else None))


def _build_step(act: str, after: str, share: str | None) -> dict[str, Any]:
    milli = None if share is None else _parse_share(share)
    return {"act": act, "after_seconds": parse_duration(after), "gpu_milli": milli}


def _parse_share(text: str) -> int:
    from gpupool.base.units import parse_gpu

    milli, _ = parse_gpu(text)
    return milli


def _print_policy(policy: dict[str, Any], output: str) -> int:
    if output == "json":
        print_data(policy, output)
    elif output == "yaml":
        print_data(_write_file(policy), output)
    else:
        facts: list[tuple[str, object]] = [
            ("policy", policy["id"]),
            ("of", policy["scope"]),
            ("set by", _describe_setter(policy)),
            ("mode", policy["mode"]),
            *((step["act"], _describe_step(step)) for step in policy["steps"]),
            ("window", format_span(policy["window_seconds"])),
            ("keep", _describe_keep(policy)),
        ]
        sys.stdout.write(format_pairs(facts) + "\n")
    return 0


def _write_file(policy: dict[str, Any]) -> dict[str, Any]:
    """Build what `policy set -f` reads."""
    steps = []
    for step in policy["steps"]:
        share = "" if step["gpu_milli"] is None else f" to {step['gpu_milli'] / 1000:g}"
        steps.append(f"{step['act']}{share} after {format_span(step['after_seconds'])}")
    names = {key: policy[key] for key in ("tenant", "project", "kind") if policy[key] is not None}
    return {
        **names,
        "mode": policy["mode"],
        "window": format_span(policy["window_seconds"]),
        "steps": steps,
        "keep": format_span(policy["keep_seconds"]),
        "keeps_per_day": policy["keeps_per_day"],
    }


def describe_policy(policy: Row) -> str:
    """Describe the steps in one line: `warn 50m, shrink to 0.05 1h, stop 2h`."""
    return ", ".join(f"{step['act']} {_describe_step(step)}" for step in policy["steps"])


def _describe_step(step: Row) -> str:
    after = f"after {format_span(step['after_seconds'])}"
    if step["gpu_milli"] is None:
        return after
    return f"to {format_gpu(step['gpu_milli'])} GPU {after}"


def _describe_keep(policy: Row) -> str:
    if not policy["keeps_per_day"] or not policy["keep_seconds"]:
        return "none"
    return f"{format_span(policy['keep_seconds'])}, {policy['keeps_per_day']} in 24 hours"


def _describe_setter(policy: Row) -> str:
    return "its tenant" if policy["by_tenant"] else "the pool"


COLUMNS = (
    TableColumn("POLICY", lambda row: row["id"]),
    TableColumn("OF", lambda row: row["scope"]),
    TableColumn("SET BY", _describe_setter),
    TableColumn("MODE", lambda row: row["mode"]),
    TableColumn("KEEP", _describe_keep),
    TableColumn("STEPS", describe_policy),
)
VERBS = {
    "policy-set": _set_policy,
    "policy-list": _list_policies,
    "policy-show": _show_policy,
    "policy-remove": _remove_policy,
}
