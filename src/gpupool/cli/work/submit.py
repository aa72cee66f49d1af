"""`gpupool submit`: hand in a command and go; ids on stdout, one a line."""

from __future__ import annotations

import os
import sys

from gpupool.terminal.context import CommandContext, print_notice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from gpupool.terminal.parser import CommandParser
    from gpupool.terminal.share_options import ShareOptions

ABOUT = """
Prints the id of the job; of an array its name, which `ps`, `logs` and `stop` understand.
Output is kept: gpupool logs JOB. More cards than a node has are requested as a gang, if they divide evenly; with
--no-gang and with -o json they are refused.
"""


def register(parser: CommandParser) -> None:
    from gpupool.terminal.parser import add_table, one_of
    from gpupool.terminal.share_options import OF

    add_table(parser, OF["submit"])
    for action in parser._actions:
        if action.dest == "output":
            action.type = one_of("-o", "text", "json")
    parser.placeholder = "[--] COMMAND [ARG...]"
    parser.about = ABOUT
    parser.examples = [
        "gpupool submit --gpu 0.3 --memory 8GiB --name train -- python train.py",
        "gpupool submit --gpu 1 --array 100 --name sweep -- python sweep.py",
        "gpupool logs -f train",
    ]


def run(options: ShareOptions, context: CommandContext) -> int:
    from gpupool.terminal.share_options import make_job_body

    if options.output not in (None, "text", "json"):
        from gpupool.terminal.parser import one_of

        # `read_plain` checks no values: a wrong format is refused before the job exists.
        one_of("-o", "text", "json")(options.output)
    api = context.api
    asked = make_job_body(options, attached=False, local=api.local)
    if options.preview:
        from gpupool.terminal.preview_lines import print_preview

        may_be_gang = _may_be_gang(options)
        return print_preview(context, asked, options.output, may_be_gang=may_be_gang)
    if options.dry_run:
        return _print_plan(options, context, asked)
    submitted = _submit(options, context, asked)
    first = submitted["first"]
    if options.output == "json":
        from gpupool.terminal.output import print_data

        print_data(submitted, "json")
        return 0
    sys.stdout.write(f"{submitted['array'] or first['id']}\n")
    if sys.stderr.isatty():
        many = f"{submitted['count']} jobs {submitted['array']}.0 ..., each {first['share']}"
        one = f"{first['name']}: {first['share']}"
        print_notice(f"{many if submitted['array'] else one}; gpupool ps  lists them")
    return 0


def _submit(options: ShareOptions, context: CommandContext, asked: dict[str, Any]) -> Any:
    """Submit; more cards than a node has as the gang that the refusal offers."""
    from gpupool.base.errors import TooManyCards

    # The key makes a repetition after a lost answer harmless: one job is submitted.
    try:
        return context.api.request("POST", "jobs", asked, idempotency_key=os.urandom(16).hex())
    except TooManyCards as error:
        # Not before: most submissions need none of it.
        from gpupool.client.gangs.even_gang import choose_gang, describe_gang_request

        gang = choose_gang(asked, error, may_be_gang=_may_be_gang(options))
    answer = context.api.request("POST", "jobs", gang, idempotency_key=os.urandom(16).hex())
    print_notice(describe_gang_request(asked, gang))
    return answer


def _may_be_gang(options: ShareOptions) -> bool:
    # A program that reads JSON asked for one job, and decides by itself on another request.
    return not options.no_gang and options.output != "json"


def _print_plan(options: ShareOptions, context: CommandContext, asked: dict[str, Any]) -> int:
    """Print which mechanism the jobs would get. Submits nothing."""
    from gpupool.client.gangs.even_gang import describe_gang_request, request_plan
    from gpupool.terminal.mechanism_lines import format_plan, format_shares
    from gpupool.terminal.output import print_data

    answer, gang = request_plan(context.api, asked, may_be_gang=_may_be_gang(options))
    if options.output == "json":
        print_data(answer, "json")
        return 0
    if gang is not None:
        print_notice(describe_gang_request(asked, gang))
    sys.stdout.write("\n".join((format_shares(answer), *format_plan(answer))) + "\n")
    return 0
