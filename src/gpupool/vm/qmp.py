"""A blocking client of QMP, the protocol by which a running QEMU is controlled.

The socket lies in a directory of the tenant, and its path may lead to any socket. So the peer's
account is checked before anything is sent. Every call has a deadline; an answer has a bound.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import time
from pathlib import Path
from typing import Any, Final

from gpupool.base.errors import VmUnreachable

#: Seconds for a connection and for each command.
USUAL_SECONDS: Final = 5.0
#: Bytes of one message. The largest answers that are asked for here have some KiB.
_MOST_BYTES: Final = 1 << 20
_PEER: Final = struct.Struct("3i")


def open_socket(path: Path, seconds: float = USUAL_SECONDS) -> socket.socket:
    """Connect to a socket whose path may have any length.

    Raises:
        VmUnreachable: No QEMU listens there.
    """
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.settimeout(seconds)
    try:
        # sockaddr_un has 108 bytes: the path of a directory's descriptor is short.
        folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            made.connect(f"/proc/self/fd/{folder}/{path.name}")
        finally:
            os.close(folder)
    except OSError as error:
        made.close()
        raise VmUnreachable(
            f"the VM does not answer at {path}: {error.strerror or error}",
            hint="gpupool vm list  shows whether it runs",
        ) from error
    return made


class QmpConnection:
    """One connection to a QEMU. Not thread-safe."""

    def __init__(
        self, path: Path, *, uid: int | None = None, seconds: float = USUAL_SECONDS
    ) -> None:
        """Connect and agree on capabilities.

        Args:
            path: The QMP socket.
            uid: The account that must be at the other end; None is any.
            seconds: The longest wait for the connection and for each answer.

        Raises:
            VmUnreachable: No QEMU of that account answers.
        """
        self._path = path
        self._seconds = seconds
        self._unread = b""
        self._socket = open_socket(path, seconds)
        try:
            self._check_peer(uid)
            deadline = time.monotonic() + seconds
            if "QMP" not in self._read_message(deadline):
                raise self._make_error("what listens there is no QEMU")
            self.execute("qmp_capabilities")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> QmpConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. Idempotent."""
        self._socket.close()

    def execute(self, command: str, **arguments: Any) -> Any:
        """Run a command and return its answer. Events that come before the answer are dropped.

        Raises:
            VmUnreachable: QEMU refused the command, did not answer in time, or ended.
        """
        request: dict[str, Any] = {"execute": command}
        if arguments:
            request["arguments"] = arguments
        deadline = time.monotonic() + self._seconds
        try:
            self._socket.settimeout(self._seconds)
            self._socket.sendall(json.dumps(request).encode() + b"\n")
        except OSError as error:
            raise self._make_error(error.strerror or str(error)) from error
        while True:
            message = self._read_message(deadline)
            if "return" in message:
                return message["return"]
            if "error" in message:
                raise self._make_error(f"{command}: {message['error'].get('desc', 'refused')}")

    def _check_peer(self, uid: int | None) -> None:
        if uid is None:
            return
        raw = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
        found = _PEER.unpack(raw)[1]
        if found != uid:
            raise self._make_error(f"account {found} listens there, expected account {uid}")

    def _read_message(self, deadline: float) -> dict[str, Any]:
        while b"\n" not in self._unread:
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._make_error(f"no answer within {self._seconds:g} s")
            if len(self._unread) > _MOST_BYTES:
                raise self._make_error(f"an answer of more than {_MOST_BYTES} bytes")
            self._socket.settimeout(left)
            try:
                read = self._socket.recv(65536)
            except TimeoutError:
                continue
            except OSError as error:
                raise self._make_error(error.strerror or str(error)) from error
            if not read:
                raise self._make_error("it closed the connection")
            self._unread += read
        line, _, self._unread = self._unread.partition(b"\n")
        try:
            message = json.loads(line)
        except ValueError as error:
            raise self._make_error("its answer is no JSON") from error
        if not isinstance(message, dict):
            raise self._make_error("its answer is no object")
        return message

    def _make_error(self, reason: str) -> VmUnreachable:
        return VmUnreachable(
            f"the VM does not answer at {self._path}: {reason}",
            hint="gpupool vm list  shows whether it runs",
        )


def power_down(path: Path, *, uid: int | None = None) -> None:
    """Press the power button of a guest. Returns before the guest has shut down."""
    with QmpConnection(path, uid=uid) as connection:
        connection.execute("system_powerdown")
