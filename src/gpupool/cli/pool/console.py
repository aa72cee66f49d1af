"""`gpupool console`: a link that opens the web console."""

from __future__ import annotations

import argparse
import sys
from urllib.parse import urlsplit

from gpupool.terminal.context import CommandContext, print_notice
from gpupool.terminal.listing import describe_instant
from gpupool.terminal.output import print_data
from gpupool.terminal.parser import OBJECT_FORMATS, CommandParser, add_output


def register(parser: CommandParser) -> None:
    parser.about = """
    The link logs one browser in as you, once, within 10 minutes. The first browser that opens it is logged in: do not
    share it. A pool that listens on its Unix socket alone opens a port on 127.0.0.1 for browsers; it closes after an
    hour without use and with the server. Tokens do not count on that port.
    """
    parser.examples = [
        "gpupool console",
        "gpupool console --print-url",
        "gpupool console -o json",
    ]
    parser.add_argument("--print-url", action="store_true", help="print the link and nothing else")
    add_output(parser, OBJECT_FORMATS)


def run(options: argparse.Namespace, context: CommandContext) -> int:
    link = context.api.request("POST", "console")
    if options.output != "table":
        print_data(link, options.output)
        return 0
    sys.stdout.write(f"{link['url']}\n")
    if options.print_url:
        return 0
    print_notice(
        f"logs one browser in as {link['user']}, once, until {describe_instant(link['expires_ns'])}"
    )
    place = urlsplit(link["address"])
    if place.hostname == "127.0.0.1":
        print_notice(
            f"from another machine first:  ssh -L {place.port}:127.0.0.1:{place.port} THIS-MACHINE"
        )
    return 0
