"""`gpupool ssh`: log in to a running job by OpenSSH."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys

from gpupool.base.errors import CommandNotFound
from gpupool.cli.workspace.ssh_keys import ensure_key, list_options, read_public_key
from gpupool.client.streams.byte_connection import ByteFlow, relay_bytes
from gpupool.client.streams.job_stream import open_stream
from gpupool.terminal.context import CommandContext
from gpupool.terminal.parser import CommandParser
from gpupool.terminal.references import quote_segment

#: How hosts of jobs are named in an ssh_config.
HOST_PREFIX = "gpupool-"


def register(parser: CommandParser) -> None:
    parser.about = """
    Starts `ssh` with a connection that the pool relays: no port is opened, and nothing of yours is needed beforehand.
    You are the job's user, in its cgroup, its network and its share. sftp, scp, forwarding of ports and editors with
    Remote-SSH work through `gpupool ssh-config`. The job's machine needs openssh-server; `gpupool exec` needs nothing.
    """
    parser.examples = [
        "gpupool ssh train",
        "gpupool ssh train -- python --version",
        "gpupool ssh train -L 6006:localhost:6006",
    ]
    parser.add_argument("job", metavar="JOB", help="a name or id; `last` is your newest")
    parser.add_argument(
        "argv", nargs="*", metavar="PROGRAM", help="what to run (default: your shell)"
    )
    parser.add_argument(
        "-L", action="append", default=[], dest="forwards", metavar="PORT:HOST:PORT",
        help="forward a port of this machine, as ssh -L",
    )  # fmt: skip
    parser.add_argument(
        "--stdio",
        action="store_true",
        help="relay the connection on standard input and output, for ProxyCommand of ssh",
    )


def run(options: argparse.Namespace, context: CommandContext) -> int:
    key = ensure_key(context)
    job = options.job.removeprefix(HOST_PREFIX) if options.stdio else options.job
    quote_segment(job, "job")
    if options.stdio:
        target = {"kind": "ssh", "public_key": read_public_key(key)}
        stream = open_stream(context.api, job, target)
        incoming = ByteFlow(stream.socket, 1)
        incoming.waiting = stream.early
        relay_bytes((ByteFlow(0, stream.socket), incoming))
        return 0
    program = shutil.which("ssh")
    if program is None:
        raise CommandNotFound(
            "ssh is not installed on this machine", hint="gpupool exec needs none"
        )
    # Asked now, so that what is wrong is told in the words of the pool.
    found = context.api.request("GET", f"jobs/{quote_segment(job, 'job')}")
    words = [program]
    for name, value in [*list_options(key), ("ProxyCommand", make_proxy_command(context))]:
        words += ["-o", f"{name}={value}"]
    for forward in options.forwards:
        words += ["-L", forward]
    words += [f"{HOST_PREFIX}{found['id']}", *options.argv]
    os.execv(program, words)


def make_proxy_command(context: CommandContext) -> str:
    """Make the command by which ssh reaches a job of this command's pool; %n is the job's host."""
    installed = shutil.which("gpupool")
    words = [sys.executable, "-c", "from gpupool.cli.main import entry; entry()"]
    if installed is not None:
        words = [installed]
    if context.settings.state_dir is not None:
        words += ["--state-dir", str(context.settings.state_dir)]
    # ssh expands %, and a shell the rest.
    quoted = " ".join(shlex.quote(word) for word in words).replace("%", "%%")
    return f"{quoted} ssh --stdio %n"
