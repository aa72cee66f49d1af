"""`gpupool exec`: run a program in a running job."""

from __future__ import annotations

import argparse
import os

from gpupool.client.streams.job_stream import open_stream
from gpupool.client.streams.remote_program import RemoteProgram, read_terminal_size
from gpupool.terminal.context import CommandContext
from gpupool.terminal.parser import CommandParser
from gpupool.terminal.references import quote_segment


def register(parser: CommandParser) -> None:
    parser.about = """
    Runs a program beside the job's own: as the same user, in its cgroup, its network and its share of the card, with
    its environment and in its directory. Without a program it is your shell. It has a terminal if you have one. Its
    exit code is that of gpupool. It ends with the job, and when this command ends.
    """
    parser.examples = [
        "gpupool exec train -- nvidia-smi",
        "gpupool exec train",
        "gpupool exec train -- python -c 'import torch; print(torch.cuda.mem_get_info())'",
        "tar -c data | gpupool exec train -- tar -x",
    ]
    parser.add_argument("job", metavar="JOB", help="a name or id; `last` is your newest")
    parser.add_argument(
        "argv", nargs="*", metavar="PROGRAM", help="what to run (default: your shell)"
    )
    parser.add_argument(
        "-T", "--no-terminal", action="store_true", help="pipes, also where this is a terminal"
    )
    parser.add_argument("--cwd", metavar="DIR", help="start there (default: the job's directory)")


def run(options: argparse.Namespace, context: CommandContext) -> int:
    quote_segment(options.job, "job")
    has_terminal = not options.no_terminal and os.isatty(0) and os.isatty(1)
    target = {"kind": "exec", "argv": options.argv}
    if options.cwd is not None:
        target["cwd"] = options.cwd
    if has_terminal:
        target |= {"terminal": read_terminal_size(0), "term": os.environ.get("TERM", "xterm")[:64]}
    stream = open_stream(context.api, options.job, target)
    try:
        return RemoteProgram(stream, (0, 1, 2), has_terminal=has_terminal).run()
    finally:
        stream.close()
