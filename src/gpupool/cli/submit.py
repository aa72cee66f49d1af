"""`gpupool submit`: hand in a command and go; ids on stdout, one a line."""

from __future__ import annotations

import os
import sys

from gpupool.cli.context import Context, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gpupool.cli.parser import Parser
    from gpupool.cli.share_options import Options

ABOUT = """
Prints the id of the job; of an array its name, which `ps`, `logs` and `stop` understand.
Output is kept: gpupool logs JOB.
"""


def register(parser: Parser) -> None:
    from gpupool.cli.parser import add_table, one_of
    from gpupool.cli.share_options import OF

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


def run(options: Options, context: Context) -> int:
    from gpupool.cli.share_options import body

    if options.output not in (None, "text", "json"):
        from gpupool.cli.parser import one_of

        one_of("-o", "text", "json")(options.output)
    api = context.api
    asked = body(options, attached=False, local=api.local)
    submitted = api.request("POST", "jobs", asked, idempotency_key=os.urandom(16).hex())
    first = submitted["first"]
    if options.output == "json":
        from gpupool.cli.output import print_data

        print_data(submitted, "json")
        return 0
    sys.stdout.write(f"{submitted['array'] or first['id']}\n")
    if sys.stderr.isatty():
        many = f"{submitted['count']} jobs {submitted['array']}.0 ..., each {first['share']}"
        one = f"{first['name']}: {first['share']}"
        say(f"{many if submitted['array'] else one}; gpupool ps  lists them")
    return 0
