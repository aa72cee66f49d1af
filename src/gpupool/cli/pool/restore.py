"""`gpupool restore`: make a pool from a backup or from a copied state directory."""

from __future__ import annotations

import argparse
import os

from gpupool.cli.pool.host_process import ask_host
from gpupool.terminal.context import CommandContext
from gpupool.terminal.parser import CommandParser


def register(parser: CommandParser) -> None:
    parser.about = """
    Into a new state directory (--state-dir); with --store into an empty PostgreSQL database. Starts nothing. Jobs that
    ran when the backup was made are lost when the pool starts, and jobs that waited are placed: end the
    original first, where it is still there. Logins of browsers end; tokens that were revoked since are valid again.

    The key of its secrets comes from a backup --with-key or from the copied directory. Else put the old pool's key file
    in its place, secrets/secret.key of the new state directory (mode 0600); a pool without it runs, and messages and
    sign-on that need a secret fail with GP-2270.
    """
    parser.examples = [
        "gpupool restore /backup/pool-monday --state-dir /var/lib/gpupool",
        (
            "gpupool restore /backup/pool-monday --state-dir /srv/pool --store "
            "postgresql://pool@db/gpupool"
        ),
    ]
    parser.add_argument("file", metavar="FILE", help="a backup, or a copy of a state directory")
    parser.add_argument(
        "--store", metavar="URL", help="an empty PostgreSQL database (default: SQLite)"
    )


def run(options: argparse.Namespace, context: CommandContext) -> int:
    # Without it the host restores into SQLite.
    store = ["--store", options.store] if options.store else []
    return ask_host(context.state_dir, "--restore", os.path.abspath(options.file), *store)
