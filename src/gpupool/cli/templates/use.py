"""`gpupool template run`: render a template, submit what it makes, and publish its port."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from gpupool.base.errors import BadOption, GpupoolError, TooManyCards
from gpupool.cli.serving.rule_options import build_new_rule
from gpupool.cli.serving.service import create_service
from gpupool.cli.templates.field_words import read_fields
from gpupool.client.gangs.even_gang import choose_gang, describe_gang_request
from gpupool.client.launch_capture import capture, check_command
from gpupool.terminal.context import CommandContext, print_notice
from gpupool.terminal.output import print_data
from gpupool.terminal.references import quote_segment


def run_template(options: argparse.Namespace, context: CommandContext) -> int:
    """Submit what the template makes of the fields; with --dry-run print it."""
    api = context.api
    path = f"templates/{quote_segment(options.template, 'template')}"
    use = _build_use(options)
    rule = build_new_rule(options)
    if rule:
        return _serve_template(options, context, use, rule)
    made = api.request("POST", f"{path}/render", use)
    if options.dry_run:
        return _print_rendering(made, options.output)
    if options.preview:
        from gpupool.terminal.preview_lines import print_preview

        may_be_gang = _may_be_gang(options, made)
        return print_preview(context, made["job"], options.output, may_be_gang=may_be_gang)
    if api.local:
        _check_programs(made)
    # The job has the name that the commands to type next are made of.
    use |= {"name": made["job"]["name"], "version": made["version"]}
    submitted = _submit(options, context, made, use)
    first = submitted["first"]
    if options.output != "table":
        print_data({**submitted, "follow": made["follow"]}, options.output)
    else:
        sys.stdout.write(f"{submitted['array'] or first['id']}\n")
    # The command that publishes the port is the first one, and done here.
    follow = made["follow"]
    if made["balancer"] is not None:
        _publish(context, made["balancer"], follow[0])
        follow = [f"gpupool network lb-show {_name_balancer(made)}", *follow[1:]]
    if sys.stderr.isatty():
        count = f"{submitted['count']} jobs, each " if submitted["count"] > 1 else ""
        print_notice(f"{made['job']['name']}: {count}{first['share']}")
        for line in follow:
            print_notice(f"next: {line}")
    return 0


def _submit(
    options: argparse.Namespace, context: CommandContext, made: dict[str, Any], use: dict[str, Any]
) -> Any:
    """Submit; more cards than a node has as the gang that the refusal offers."""
    api = context.api
    path = f"templates/{quote_segment(options.template, 'template')}/run"
    try:
        return api.request("POST", path, use, idempotency_key=os.urandom(16).hex())
    except TooManyCards as error:
        gang = choose_gang(made["job"], error, may_be_gang=_may_be_gang(options, made))
    answer = api.request("POST", "jobs", gang, idempotency_key=os.urandom(16).hex())
    print_notice(describe_gang_request(made["job"], gang))
    return answer


def _may_be_gang(options: argparse.Namespace, made: dict[str, Any]) -> bool:
    # A program that reads JSON asked for one job. A port is served once, not by each member.
    is_server = made.get("port") is not None or made["balancer"] is not None
    return not (options.no_gang or options.output != "table" or is_server)


def _serve_template(
    options: argparse.Namespace, context: CommandContext, use: dict[str, Any], rule: dict[str, Any]
) -> int:
    """Create a service of the template. Raises BadOption."""
    if "min_replicas" not in rule:
        raise BadOption("--target and --measure are of a service", hint="add --min 1 --max 4")
    if options.dry_run or options.preview:
        raise BadOption(
            "--dry-run and --preview show one job, and --min and --max make a service",
            hint="leave out --min and --max to see the job",
        )
    name = options.name or options.template
    body = {"name": name, "template": options.template, "use": {**use, "name": None}, "rule": rule}
    return create_service(context, body, options.output)


def _build_use(options: argparse.Namespace) -> dict[str, Any]:
    # The command is the template's own: only what surrounds it is this shell's.
    launch = capture(["true"], local=False)
    del launch["argv"]
    use: dict[str, Any] = {
        "values": read_fields(options.command or (), options.set),
        "version": options.version,
        "owner": options.tenant,
        "name": options.name,
        "project": options.project,
        "launch": launch,
    }
    if options.priority is not None:
        is_number = options.priority.lstrip("+-").isdigit() and options.priority.isascii()
        use["priority"] = int(options.priority) if is_number else options.priority
    return use


def _print_rendering(made: dict[str, Any], output: str) -> int:
    if output != "table":
        print_data(made, output)
        return 0
    command = made["command"] or "# no command line can say it; the YAML does"
    sys.stdout.write(f"{command}\n\n{made['manifest']}")
    for line in made["follow"]:
        sys.stdout.write(f"# then: {line}\n")
    return 0


def _check_programs(made: dict[str, Any]) -> None:
    """Look for the programs as the job will. Raises CommandNotFound."""
    launch = made["job"]["launch"]
    if launch["container"] is not None:
        return
    path = launch["env"].get("PATH", os.defpath)
    for program in (launch["argv"][0], *made["programs"]):
        check_command(program, path, launch["cwd"])


def _publish(context: CommandContext, balancer: dict[str, Any], command: str) -> None:
    """Put the load balancer in front of the jobs. They run on where that fails."""
    network = quote_segment(balancer["network"], "network")
    key = os.urandom(16).hex()
    try:
        context.api.request(
            "POST", f"networks/{network}/load-balancers", balancer["body"], idempotency_key=key
        )
    except GpupoolError:
        print_notice(f"the jobs are submitted and not published; once mended: {command}")
        raise


def _name_balancer(made: dict[str, Any]) -> str:
    return f"{made['balancer']['network']} {made['balancer']['body']['name']}"
