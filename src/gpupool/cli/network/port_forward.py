"""`gpupool port-forward`: a port of this machine, for you alone, that leads into your job."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import socket
import sys
import threading
from pathlib import Path
from typing import Any

from gpupool.base.errors import BadInput, WrongState
from gpupool.terminal.context import CommandContext, print_notice
from gpupool.terminal.parser import CommandParser
from gpupool.terminal.references import job_path

_PORTS = re.compile(r"(?:([0-9]{1,5}):)?([0-9]{1,5})")
_CHUNK = 65536


def register(parser: CommandParser) -> None:
    parser.about = """
    Listens on 127.0.0.1 and passes each connection on to a port of a running job, also to one that the job opened for
    its own loopback address, such as Jupyter. Only your own programs get in: connections of other users of this machine
    are closed. It ends with Ctrl-C. To publish a port for others: gpupool expose.
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
    path = _find_relay(context, job)
    # Asked once now, so that what is wrong is said before a client meets it.
    try:
        open_relay(path, job["id"], remote).close()
    except WrongState as refusal:
        if "accepts connections" not in refusal.message:
            raise
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
                arguments = (client, path, job["id"], remote)
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


def _find_relay(context: CommandContext, job: dict[str, Any]) -> str:
    """Return the path of the relay's socket. Raises WrongState with the reason against it."""
    if not context.api.local:
        raise WrongState(
            "port-forward works on the machine of the pool",
            hint=f"ssh to it, or publish the port: gpupool expose {job['name']} PORT --http",
        )
    if job["state"] != "running":
        raise WrongState(f"job {job['name']} is {job['state']}", hint="gpupool ps")
    if not job["network"]:
        raise WrongState(
            f"job {job['name']} is in no network, so its ports are the machine's own",
            hint="connect to 127.0.0.1 and the port",
        )
    engine = context.api.request("GET", "network-engine")
    if not engine["relay_socket"]:
        raise WrongState(
            "the agent of the pool has not said yet where it relays ports", hint="try again"
        )
    return str(engine["relay_socket"])


def open_relay(path: str, job: str, port: int) -> socket.socket:
    """Open a connection to a port of a job. Raises WrongState with the agent's reason."""
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # Through its directory: a socket's name has 107 bytes at most (unix(7)).
        directory = os.open(os.path.dirname(path), os.O_PATH | os.O_CLOEXEC)
        try:
            channel.connect(f"/proc/self/fd/{directory}/{os.path.basename(path)}")
        finally:
            os.close(directory)
        channel.sendall(json.dumps({"job": job, "port": port}).encode() + b"\n")
        answer = b""
        while not answer.endswith(b"\n") and (part := channel.recv(1)):
            answer += part
    except OSError as error:
        channel.close()
        raise WrongState(f"the agent does not relay: {error}", hint="gpupool doctor") from error
    if answer != b"ok\n":
        channel.close()
        raise WrongState(answer.decode("utf-8", "replace").strip() or "the agent gave no answer")
    return channel


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
            return int(words[7])
    return None


def _listen(port: int) -> socket.socket:
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError as error:
        raise WrongState(
            f"port {port} of this machine cannot be used: {error.strerror}",
            hint="name another one, or 0 for a free one: 0:REMOTE",
        ) from error


def _serve(client: socket.socket, path: str, job: str, port: int) -> None:
    with client:
        try:
            server = open_relay(path, job, port)
        except WrongState as refusal:
            print_notice(refusal.message)
            return
        with server:
            back = threading.Thread(target=_copy, args=(server, client), daemon=True)
            back.start()
            _copy(client, server)
            back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    # A connection that breaks on one side ends on the other one too.
    with contextlib.suppress(OSError):
        while part := source.recv(_CHUNK):
            target.sendall(part)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
