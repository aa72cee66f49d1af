"""Connections to the sockets that jobs make in their run directories, and the tokens beside them.

The agent may be root and the names are the job's: a link there could lead to a socket that trusts
root, or to any file. So nothing is followed, and only what the job's user owns is opened.
"""

from __future__ import annotations

import os
import re
import socket
import stat
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpupool.agent.relay.refusal import StreamRefusal
from gpupool.agent.supervisor.run_directory import RUN_DIRECTORY

#: Seconds for the service to accept.
_CONNECT_SECONDS: Final = 5.0
#: Bytes of a token.
_TOKEN_BYTES: Final = 300
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")


@dataclass(frozen=True)
class ServiceConnection:
    """A connection to a service of a job.

    Attributes:
        token: what it wants to see in `Authorization`; empty: nothing.
        is_at_root: its pages begin at `/`: `NAME.root` is beside its socket.
    """

    socket: socket.socket
    token: str
    is_at_root: bool


def connect_service(directory: Path, service: str, uid: int) -> ServiceConnection:
    """Connect to `NAME.sock` in a job's run directory, and read what is beside it.

    Args:
        directory: the job's own.
        uid: of the job's user.

    Raises:
        StreamRefusal: there is no such socket of the user, or nothing listens.
        OSError: the connection failed.
    """
    if not _NAME.fullmatch(service):
        raise StreamRefusal(f"not the name of a service: {service[:40]!r}")
    try:
        run = os.open(directory / RUN_DIRECTORY, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        raise StreamRefusal("the job has no run directory") from error
    try:
        connection = _connect(run, f"{service}.sock", uid)
        token = _read_token(run, f"{service}.token", uid)
        return ServiceConnection(connection, token, _has_file(run, f"{service}.root", uid))
    finally:
        os.close(run)


def _connect(run: int, name: str, uid: int) -> socket.socket:
    try:
        file = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=run)
    except OSError as error:
        raise StreamRefusal(f"the job has not made {name} in GPUPOOL_RUN yet") from error
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        found = os.fstat(file)
        if not stat.S_ISSOCK(found.st_mode) or found.st_uid != uid:
            raise StreamRefusal(f"{name} in GPUPOOL_RUN is no socket of the job's user")
        connection.settimeout(_CONNECT_SECONDS)
        # By its descriptor: the name may be another file's by now.
        connection.connect(f"/proc/self/fd/{file}")
        if _read_peer(connection) != uid:
            raise StreamRefusal(f"{name} in GPUPOOL_RUN is served by another user")
    except ConnectionRefusedError as error:
        connection.close()
        raise StreamRefusal(f"nothing in the job listens on {name}") from error
    except BaseException:
        connection.close()
        raise
    finally:
        os.close(file)
    connection.settimeout(None)
    return connection


def _read_peer(connection: socket.socket) -> int:
    """Return the account that listened."""
    size = struct.calcsize("iII")
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    uid: int = struct.unpack("iII", credentials)[1]
    return uid


def _has_file(run: int, name: str, uid: int) -> bool:
    try:
        found = os.stat(name, dir_fd=run, follow_symlinks=False)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_uid == uid


def _read_token(run: int, name: str, uid: int) -> str:
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=run)
    except OSError:
        return ""
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != uid:
            return ""
        text = os.read(file, _TOKEN_BYTES).decode("ascii", "replace").strip()
    finally:
        os.close(file)
    return text if text.isascii() and text.isprintable() and " " not in text else ""
