"""`gpupool backup`: save what a pool knows."""

from __future__ import annotations

import argparse
import os

from gpupool.cli.context import Context
from gpupool.cli.host_process import ask_host
from gpupool.cli.parser import Parser


def register(parser: Parser) -> None:
    parser.about = """
    Jobs, books, tenants, quotas and tokens' hashes as they are at one instant, in one file that only you can read;
    the pool may run meanwhile. Output of jobs is not in it. The file is the same for SQLite and PostgreSQL.
    """
    parser.examples = ["gpupool backup /backup/pool-monday"]
    parser.add_argument("file", metavar="FILE", help="a new file")


def run(options: argparse.Namespace, context: Context) -> int:
    return ask_host(context.state_dir, "--backup", os.path.abspath(options.file))
