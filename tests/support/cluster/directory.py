"""One rig's directory: its lock, its ports, its processes. What is used is written here first."""

import errno
import fcntl
import json
import os
import random
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LOCK = "gpupool-cluster.lock"
LOCK_SECONDS = 20
POLL_SECONDS = 0.05
PORTS = range(
    20000, 32000
)  # below what the kernel hands out for outgoing connections, which could take one in between
SOCKET_PATH_LIMIT_BYTES = 107  # sizeof(sockaddr_un.sun_path) less the closing NUL
DEEPEST_SOCKET = "kubelet/device-plugins/kubelet.sock.new"


class ClusterError(Exception):
    """The rig cannot do what was asked; the message says why and what to type."""


class Directory:
    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        longest = len(os.fsencode(self.path / DEEPEST_SOCKET))
        if longest > SOCKET_PATH_LIMIT_BYTES:
            raise ClusterError(
                f"sockets in {self.path} would have {longest} bytes, the limit is {SOCKET_PATH_LIMIT_BYTES}; "
                "give a shorter directory"
            )

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One command at a time. A child between fork and exec still holds the lock of a rig that
        was killed, so whoever gets it sees every process that was started."""
        lock = self._lock()
        try:
            yield
        finally:
            os.close(lock)

    def remove(self) -> None:
        """Take the directory away; the lock goes last, so that one cut short is known for ours.
        Under the lock."""
        for entry in self.path.iterdir():
            if entry.name != LOCK:
                shutil.rmtree(
                    entry
                ) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        (self / LOCK).unlink()
        try:
            self.path.rmdir()
        except OSError as refusal:
            if refusal.errno != errno.ENOTEMPTY:  # the next command is already there
                raise

    def _lock(self) -> int:
        deadline = time.monotonic() + LOCK_SECONDS
        while time.monotonic() < deadline:
            self._make()
            lock = os.open(self / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if self._is_ours(lock):
                return lock
            os.close(lock)
            time.sleep(POLL_SECONDS)
        raise ClusterError(
            f"another command is at work on {self.path}; wait for it, or end it, and try again"
        )

    def _make(self) -> None:
        """Make the directory, or take it where it is ours: `remove` deletes all that is in it."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.path.stat().st_uid != os.geteuid():
            raise ClusterError(f"{self.path} belongs to another user; give another directory")
        if any(self.path.iterdir()) and not (self / LOCK).exists():
            raise ClusterError(
                f"{self.path} holds something else than a cluster; give an empty or a new directory"
            )

    def _is_ours(self, lock: int) -> bool:
        """Locked, and still the file by that name: a `down` that just ended has taken it away with
        the directory."""
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return os.path.samestat(os.fstat(lock), os.stat(self / LOCK))
        except (BlockingIOError, FileNotFoundError):
            return False

    def read(self, name: str) -> dict[str, Any]:
        try:
            content: dict[str, Any] = json.loads((self / f"{name}.json").read_text())
        except FileNotFoundError:
            return {}
        return content

    def write(self, name: str, content: dict[str, Any]) -> None:
        new = self / f"{name}.json.new"
        new.write_text(json.dumps(content, indent=1))
        new.replace(self / f"{name}.json")

    def port(self, name: str) -> int:
        """The port by this name: the same one for the whole life of the directory."""
        ports = self.read("ports")
        if name not in ports:
            ports[name] = _free_port(set(ports.values()))
            self.write("ports", ports)
        return int(ports[name])


def _free_port(taken: set[int]) -> int:
    for port in random.sample(PORTS, len(PORTS)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if port not in taken and probe.connect_ex(("127.0.0.1", port)) != 0:
                return port
    raise ClusterError(f"no free port from {PORTS.start} to {PORTS.stop} on 127.0.0.1")
