"""`gpupool port-forward`: a port of this machine, for you alone, that leads into your job."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import socket
import sys
import threading
from pathlib import Path

from gpupool.base.errors import BadInput, GpupoolError, JobUnreachable, WrongState
from gpupool.client.streams.byte_connection import ByteFlow, relay_bytes
from gpupool.client.streams.job_stream import open_stream
from gpupool.client.transport import Api
from gpupool.terminal.context import CommandContext, print_notice
from gpupool.terminal.parser import CommandParser
from gpupool.terminal.references import job_path

_PORTS = re.compile(r"(?:([0-9]{1,5}):)?([0-9]{1,5})")


def register(parser: CommandParser) -> None:
    parser.about = """
    Listens on 127.0.0.1 and passes each connection on to a port of a running job, also to one that the job opened for
    its own loopback address, such as TensorBoard. The pool may be on another machine. Only your own programs get in:
    connections of other users of this machine are closed. It ends with Ctrl-C. To publish a port for others:
    gpupool expose.
    """
    parser.examples = [
        "gpupool port-forward notebook 8888",
        "gpupool port-forward train 16006:6006",
    ]
    parser.add_argument("job", metavar="JOB", help="a name or id; `last` is your newest")
    parser.add_argument(
        "ports", metavar="[LOCAL:]REMOTE", help="LOCAL 0 takes a free one (default: as REMOTE)"
    )


def run(options: argparse.Namespace, context: CommandContext) -> int:
    local, remote = parse_ports(options.ports)
    job = context.api.request("GET", job_path(options.job))
    # Asked once now, so that what is wrong is said before a client meets it.
    try:
        open_stream(context.api, job["id"], {"kind": "port", "port": remote}).close()
    except JobUnreachable as refusal:
        print_notice(f"{refusal.message}; connections are tried as they come")
    with _listen(local) as listener:
        number = listener.getsockname()[1]
        sys.stdout.write(f"127.0.0.1:{number} leads to {job['name']}:{remote}\n")
        sys.stdout.flush()
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                client, address = listener.accept()
                if find_owner(Path("/proc/net/tcp").read_text(), address[1], number) not in (
                    os.geteuid(),
                    0,
                ):
                    print_notice("another user of this machine tried to connect, and was refused")
                    client.close()
                    continue
                arguments = (client, context.api.another(), job["id"], remote)
                threading.Thread(target=_serve, args=arguments, daemon=True).start()
    return 0


def parse_ports(text: str) -> tuple[int, int]:
    """Parse `16006:6006` or `6006`. Raises BadInput."""
    found = _PORTS.fullmatch(text)
    if found is not None:
        remote = int(found[2])
        local = remote if found[1] is None else int(found[1])
        if 1 <= remote <= 65535 and 0 <= local <= 65535:
            return local, remote
    raise BadInput(f"not ports: {text[:40]!r}", hint="write them like 8888 or 18888:8888")


def find_owner(table: str, client: int, server: int) -> int | None:
    """Find the account of a loopback client in the kernel's table of TCP sockets (proc(5)).

    Args:
        table: text of `/proc/net/tcp`.
        client, server: ports of the connection.
    """
    for line in table.splitlines()[1:]:
        words = line.split()
        local = words[1].partition(":")[2]
        remote = words[2].partition(":")[2]
        if (int(local, 16), int(remote, 16)) == (client, server):
            owner = int(words[7])
            # Of a client that has closed already, the kernel may name root and no inode.
            return None if (owner, int(words[9])) == (0, 0) else owner
    return None


def _listen(port: int) -> socket.socket:
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError as error:
        raise WrongState(
            f"port {port} of this machine cannot be used: {error.strerror}",
            hint="name another one, or 0 for a free one: 0:REMOTE",
        ) from error


def _serve(client: socket.socket, api: Api, job: str, port: int) -> None:
    with client, api:
        try:
            stream = open_stream(api, job, {"kind": "port", "port": port})
        except GpupoolError as refusal:
            print_notice(refusal.message)
            return
        api.close()
        with stream.socket:
            incoming = ByteFlow(stream.socket, client)
            incoming.waiting = stream.early
            relay_bytes((ByteFlow(client, stream.socket), incoming))
