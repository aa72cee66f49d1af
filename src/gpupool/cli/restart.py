"""`gpupool restart`: stop the server and start it again; jobs keep running."""

from __future__ import annotations

import argparse
import sys

from gpupool.base.client_settings import ClientSettings
from gpupool.cli.context import Context
from gpupool.cli.down import stop_server
from gpupool.cli.host_process import HostStart
from gpupool.cli.parser import Parser
from gpupool.cli.up import open_log
from gpupool.client.transport import Api


def register(parser: Parser) -> None:
    parser.about = """
    The server starts again as it was started, of the version that is installed now, and takes its jobs back. Returns
    when it answers. A pool that ran in the foreground goes on detached.
    """
    parser.examples = ["gpupool restart"]


def run(_options: argparse.Namespace, context: Context) -> int:
    state_dir = context.state_dir
    with Api(ClientSettings(state_dir=state_dir)) as api:
        pool = api.request("GET", "pool")
    stop_server(pool)
    with open_log(state_dir) as log:
        said = HostStart(state_dir, [], log=log).ready()
    sys.stdout.write(f"the server runs again (pid {said['pid']}); its jobs went on\n")
    return 0
