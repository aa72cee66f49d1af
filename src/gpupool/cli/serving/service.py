"""`gpupool service`: replicas of one job behind one address, as many as their load needs."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from gpupool.base.errors import BadOption
from gpupool.base.units import format_gpu, format_span
from gpupool.cli.accounts.price import format_micro
from gpupool.cli.serving.rule_options import add_rule, build_new_rule, read_rule
from gpupool.terminal.confirm import confirm_plan
from gpupool.terminal.context import CommandContext, print_notice
from gpupool.terminal.listing import describe_instant
from gpupool.terminal.output import Row, TableColumn, format_table, print_data, print_list
from gpupool.terminal.parser import (
    OBJECT_FORMATS,
    CommandParser,
    add_output,
    add_yes,
    integer_within,
)
from gpupool.terminal.references import quote_segment
from gpupool.terminal.share_options import OF, make_job_body, read_plain


def register(parser: CommandParser) -> None:
    parser.about = """
    A service keeps replicas of one HTTP server: it starts more under load and ends them afterwards, checks and replaces
    them, and answers at https://SERVER/services/NAME/ with a token of your tenant. Each replica is a job of yours and
    counts for quotas and budgets. {port} in the command is the replica's port; it is in PORT too. The options of the
    job come after --, as for  gpupool submit, then -- and the command.
    """
    parser.examples = [
        "gpupool service create web --min 1 --max 4 --check-path /health -- --gpu 0.25 -- python serve.py {port}",
        "gpupool template run vllm --model /models/llama --name chat --min 1 --max 4",
        "gpupool service list",
        "gpupool service show web",
        "gpupool service scale web 2 --dry-run",
        "gpupool service update web --max 8 --target 20",
        "gpupool service delete web",
    ]
    parser.add_verbs()
    create = parser.add_verb("create", "start replicas of a job behind one address")
    create.add_argument(
        "name", metavar="NAME", help="its name, and the beginning of its jobs' names"
    )
    create.add_argument(
        "--port",
        type=integer_within("--port", "a port", 1024, 65535),
        metavar="PORT",
        help="of the first replica; the next ones have the next (default 8000)",
    )
    add_rule(create)
    create.add_argument(
        "words", nargs="+", metavar="WORD", help="after --: options of submit, --, the command"
    )
    add_output(create, OBJECT_FORMATS)
    add_output(parser.add_verb("list", "the services of your tenant"))
    show = parser.add_verb("show", "one service with its replicas, and why some do not run")
    _add_name(show)
    add_output(show, OBJECT_FORMATS)
    scale = parser.add_verb("scale", "keep a fixed number of replicas")
    _add_name(scale)
    scale.add_argument(
        "number",
        type=integer_within("N", "the number of replicas", 1, 64),
        metavar="N",
        help="replicas; --min and --max of `service update` let it follow the load again",
    )
    _add_dry_run(scale)
    add_output(scale, OBJECT_FORMATS)
    update = parser.add_verb("update", "change bounds, checks and times; what is left out stays")
    _add_name(update)
    add_rule(update)
    _add_dry_run(update)
    add_output(update, OBJECT_FORMATS)
    delete = parser.add_verb("delete", "end its replicas, each once it has no requests")
    _add_name(delete)
    add_yes(delete)


def _add_name(verb: CommandParser) -> None:
    verb.add_argument("name", metavar="NAME", help="as `service list` shows it")


def _add_dry_run(verb: CommandParser) -> None:
    verb.add_argument("--dry-run", action="store_true", help="show the plan and change nothing")


def run(options: argparse.Namespace, context: CommandContext) -> int:
    if options.verb == "create":
        return _create(options, context)
    if options.verb == "list":
        rows = context.api.request("GET", "services")["items"]
        print_list(
            rows,
            COLUMNS,
            options.output,
            fields=_list_fields,
            empty="no services; make one: gpupool service create NAME -- --gpu 0.5 -- COMMAND",
            color=context.color,
        )
        return 0
    path = f"services/{quote_segment(options.name, 'service')}"
    if options.verb == "delete":
        confirm_plan([f"end the replicas of service {options.name} and remove it"], yes=options.yes)
        gone = context.api.request("DELETE", path)
        sys.stdout.write(f"{gone['name']} {gone['explain']}\n")
        return 0
    if options.verb == "show":
        return _print_service(context, context.api.request("GET", path), options.output)
    if options.verb == "scale":
        rule = {"min_replicas": options.number, "max_replicas": options.number}
    else:
        rule = read_rule(options)
        if not rule:
            raise BadOption(
                "service update got no option, expected one to change",
                hint="gpupool service update --help",
            )
    if options.dry_run:
        return _print_plan(context.api.request("POST", f"{path}/plan", {"rule": rule}), options)
    changed = context.api.request("PATCH", path, {"rule": rule})
    return _print_service(context, changed, options.output)


def _create(options: argparse.Namespace, context: CommandContext) -> int:
    words = options.words[1:] if options.words[:1] == ["--"] else options.words
    asked = read_plain("submit", words)
    if asked is None or not asked.command:
        known = ", ".join(flags[0] for flags, *_ in OF["submit"][:4])
        raise BadOption(
            f"{' '.join(words) or 'nothing'}: got no options of submit and a command",
            hint=f"write  -- [{known} ...] -- COMMAND;  gpupool submit --help  has all options",
        )
    body = {
        "name": options.name,
        "port": options.port,
        "rule": build_new_rule(options),
        "job": make_job_body(asked, attached=False, local=context.api.local),
    }
    return create_service(context, body, options.output)


def create_service(context: CommandContext, body: dict[str, Any], output: str) -> int:
    """Create a service and print it; return the exit code."""
    key = os.urandom(16).hex()
    made = context.api.request("POST", "services", body, idempotency_key=key)
    code = _print_service(context, made, output)
    if sys.stderr.isatty():
        print_notice(f"next: gpupool service show {made['name']}")
    return code


def _print_plan(plan: dict[str, Any], options: argparse.Namespace) -> int:
    if options.output != "table":
        print_data(plan, options.output)
        return 0
    lines = [f"would start {plan['starts']} more"] if plan["starts"] else []
    for one in plan["ends"]:
        job = one["job"] or "--"
        requests = one["requests"]
        lines.append(f"would end replica {one['number']} ({job}, requests under way: {requests})")
    if not lines:
        lines = ["would start and end no replica"]
    rule = plan["rule"]
    now = f"{plan['desired_before']} -> {plan['desired']}"
    lines.append(
        f"{options.name}: {rule['min_replicas']} to {rule['max_replicas']} replicas, {now} now"
    )
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0


def _print_service(context: CommandContext, one: dict[str, Any], output: str) -> int:
    if output != "table":
        print_data(one, output)
        return 0
    rule = one["rule"]
    check = rule["check_path"] or "accepts connections"
    bounds = f"{rule['min_replicas']} to {rule['max_replicas']}"
    sys.stdout.write(
        f"{one['name']}  {one['explain']}\n"
        f"  address    {one['path']}  with a token of tenant {one['tenant']}\n"
        f"  replicas   {one['ready']} healthy of {one['desired']}; {bounds}\n"
        f"  load       {_format_load(one)}\n"
        f"  answers    {_format_recent(one)}\n"
        f"  holds      {_format_holding(one)}\n"
        f"  check      {check}, every {rule['check_seconds']} s\n"
        f"  template   {one['template'] or '--'}\n"
        f"  owner      {one['user']} of {one['tenant']}\n"
    )
    socket = context.api.endpoint.path
    if socket is not None:
        # No listener of this pool need be on a port.
        call = f"curl --unix-socket {socket} http://localhost{one['path']}"
        sys.stdout.write(f"  from here  {call}\n")
    if one["replicas"]:
        sys.stdout.write("\n" + format_table(one["replicas"], REPLICA_COLUMNS) + "\n")
    return 0


def _format_load(row: Row) -> str:
    rule = row["rule"]
    target = rule["target"] or {"requests": 10, "gpu": 70}[rule["measure"]]
    load = "--" if row["load"] is None else f"{row['load']:.1f}"
    if rule["measure"] == "requests":
        waiting = f", {row['waiting']} waiting" if row["waiting"] else ""
        return f"{load} requests under way, {target} a replica{waiting}"
    return f"{load} % of all shares together, {target} % a replica"


def _format_recent(row: Row) -> str:
    # A server of an earlier release tells nothing of them.
    recent = row.get("recent")
    if recent is None:
        return "-- in the last 5m"
    median = _format_seconds(recent["p50_seconds"])
    slow = _format_seconds(recent["p95_seconds"])
    rate = _format_rate(recent["per_second"])
    share = 100 * recent["errors"] / recent["requests"]
    span = format_span(recent["seconds"])
    errors = f"{recent['errors']} errors ({share:.1f} %)"
    return f"{rate} requests/s, p50 {median}, p95 {slow}, {errors} in the last {span}"


def _format_holding(row: Row) -> str:
    # A server of an earlier release tells nothing of it.
    milli = row.get("gpu_milli")
    if milli is None:
        return "--"
    cost = row["cost_per_hour_micro"]
    price = "--" if cost is None else f"{format_micro(cost)} {row['currency']}"
    return f"{format_gpu(milli)} GPU, {price} an hour"


def _format_rate(rate: float) -> str:
    return f"{rate:.1f}" if rate >= 10 else f"{rate:.2g}"


def _format_seconds(seconds: float | None) -> str:
    if seconds is None:
        return "--"
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


def _list_fields() -> Any:
    from gpupool.wire.serving.services import ServiceOut

    return list(ServiceOut.model_fields)


COLUMNS = (
    TableColumn("NAME", lambda row: row["name"]),
    TableColumn("HEALTHY", lambda row: f"{row['ready']}/{row['desired']}"),
    TableColumn("MIN", lambda row: str(row["rule"]["min_replicas"])),
    TableColumn("MAX", lambda row: str(row["rule"]["max_replicas"])),
    TableColumn("LOAD", lambda row: "--" if row["load"] is None else f"{row['load']:.1f}"),
    TableColumn("ADDRESS", lambda row: row["path"]),
    TableColumn("USER", lambda row: row["user"]),
    TableColumn("STATE", lambda row: row["explain"]),
)
REPLICA_COLUMNS = (
    TableColumn("REPLICA", lambda row: str(row["number"])),
    TableColumn("STATE", lambda row: row["state"]),
    TableColumn("JOB", lambda row: row["job"] or "--"),
    TableColumn("PORT", lambda row: str(row["port"])),
    TableColumn("REQUESTS", lambda row: str(row["requests"])),
    TableColumn("HEALTHY SINCE", lambda row: describe_instant(row["ready_ns"]) or "--"),
    TableColumn("REASON", lambda row: row["reason"] or "--"),
)
