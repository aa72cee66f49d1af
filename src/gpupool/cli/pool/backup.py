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
    tenants, quotas, sign-on, hashes of tokens. The pool may run. Job output is not included. The file works for SQLite
    and PostgreSQL.

    Secrets (of webhooks, the mail server, sign-on and authenticators) are encrypted in it. Their key is in the file
    secrets/secret.key of the state directory, or in GPUPOOL_SECRET_KEY_FILE, and not in the backup: keep a copy of that
    file elsewhere. With --with-key it is in the backup, which then opens every secret.
    """
    parser.examples = [
        "gpupool backup /backup/pool-monday",
        "gpupool backup /safe/pool-monday --with-key",
    ]
    parser.add_argument("file", metavar="FILE", help="a new file")
    parser.add_argument(
        "--with-key", action="store_true", help="also save the key that opens the secrets"
    )


def run(options: argparse.Namespace, context: CommandContext) -> int:
    # Full path: the host works in another directory.
    more = ["--with-key"] if options.with_key else []
    return ask_host(context.state_dir, "--backup", os.path.abspath(options.file), *more)
