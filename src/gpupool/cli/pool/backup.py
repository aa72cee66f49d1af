"""`gpupool backup`: save what a pool knows."""

from __future__ import annotations

import argparse
import os

from gpupool.cli.pool.host_process import ask_host
from gpupool.terminal.context import CommandContext
from gpupool.terminal.parser import CommandParser


def register(parser: CommandParser) -> None:
    parser.about = """
    Saves the whole database of one instant in one file that only you can read: jobs, usage records, prices, budgets,
    tenants, quotas, sign-on with its secrets, hashes of tokens. The pool may run. Job output is not included. The file
    works for SQLite and PostgreSQL.
    """
    parser.examples = ["gpupool backup /backup/pool-monday"]
    parser.add_argument("file", metavar="FILE", help="a new file")


def run(options: argparse.Namespace, context: CommandContext) -> int:
    # Full path: the host works in another directory.
    return ask_host(context.state_dir, "--backup", os.path.abspath(options.file))
