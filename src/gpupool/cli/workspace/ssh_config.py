"""`gpupool ssh-config`: let ssh, sftp, scp and editors find running jobs as hosts."""

from __future__ import annotations

import argparse
import sys

from gpupool.cli.workspace.ssh import HOST_PREFIX, make_proxy_command
from gpupool.cli.workspace.ssh_keys import ensure_key, list_options
from gpupool.terminal.context import CommandContext
from gpupool.terminal.parser import CommandParser


def register(parser: CommandParser) -> None:
    parser.about = """
    Prints lines for ~/.ssh/config: afterwards each running job of yours is the host gpupool-JOB, for ssh, sftp, scp,
    rsync and for editors with Remote-SSH.
    """
    parser.examples = [
        "gpupool ssh-config >> ~/.ssh/config",
        "ssh gpupool-train",
        "sftp gpupool-train",
    ]


def run(_options: argparse.Namespace, context: CommandContext) -> int:
    key = ensure_key(context)
    settings = [*list_options(key), ("ProxyCommand", make_proxy_command(context))]
    lines = [f"Host {HOST_PREFIX}*"]
    for name, value in settings:
        quoted = f'"{value}"' if " " in value and name != "ProxyCommand" else value
        lines.append(f"    {name} {quoted}")
    sys.stdout.write("\n".join(lines) + "\n")
    return 0
