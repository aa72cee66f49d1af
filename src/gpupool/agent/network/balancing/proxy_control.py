"""Speaks with the master process of a HAProxy (HAProxy 2.6 management guide, section 9.4).

A reload leaves the worker before it running until its connections have ended, so questions and
settings go to all workers.
"""

from __future__ import annotations

import csv
import io
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

#: Seconds in which a master answers.
_ANSWER_SECONDS: Final = 2.0

#: What HAProxy writes of probes that passed.
_GOOD_CHECKS: Final = frozenset({"L4OK", "L6OK", "L7OK", "L7OKC"})

ServerState = Literal["up", "down", "draining", "unknown"]


class ProxyUnavailable(Exception):
    """The master does not answer: it has not started yet, or has ended."""


@dataclass(frozen=True)
class ServerCounts:
    """One server in one worker.

    Attributes:
        check: the last probe, as `L7OK 200`.
        sessions: requests and connections that it serves now.
        requests: that it got from this worker.
    """

    key: str
    state: ServerState
    check: str
    sessions: int
    requests: int


@dataclass(frozen=True)
class WorkerList:
    """The processes of a proxy: the worker that takes connections, and those that end."""

    current: int | None
    old: tuple[int, ...]

    @property
    def pids(self) -> tuple[int, ...]:
        return self.old if self.current is None else (self.current, *self.old)


class ProxyControl:
    """The control socket of one proxy. Each call is a connection of its own."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def list_workers(self) -> WorkerList:
        """Ask for the processes. Raises ProxyUnavailable."""
        return parse_workers(self._ask("show proc"))

    def reload(self) -> None:
        """Let the master read its configuration again; no connection is dropped."""
        self._ask("reload")

    def read_servers(self, worker: int) -> list[ServerCounts]:
        """Read what a worker counts of its servers. Raises ProxyUnavailable."""
        # -1: of all proxies; 4: servers; -1: all of them.
        return parse_servers(self._ask(f"@!{worker} show stat -1 4 -1"))

    def stop_new_requests(self, servers: Mapping[str, Iterable[str]], workers: WorkerList) -> None:
        """Give servers no new requests; those under way go on. Idempotent.

        Args:
            servers: by the key of each server, the backends that have it.
        """
        for worker in workers.pids:
            for key, backends in servers.items():
                for backend in backends:
                    # A worker of an older configuration may not know the server, and says so.
                    self._ask(f"@!{worker} set server {backend}/{key} state maint")

    def _ask(self, command: str) -> str:
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
                channel.settimeout(_ANSWER_SECONDS)
                channel.connect(str(self._path))
                channel.sendall(f"{command}\n".encode())
                channel.shutdown(socket.SHUT_WR)
                parts = list[bytes]()
                while part := channel.recv(65536):
                    parts.append(part)
        except OSError as error:
            raise ProxyUnavailable(f"{self._path.parent.name} does not answer: {error}") from error
        return b"".join(parts).decode("utf-8", "replace")


def parse_workers(text: str) -> WorkerList:
    """Parse the answer of `show proc`."""
    current: int | None = None
    old = list[int]()
    section = ""
    for line in text.splitlines():
        if line.startswith("#"):
            section = line[1:].strip()
            continue
        words = line.split()
        if len(words) < 2 or words[1] != "worker":
            continue
        if section == "workers":
            current = int(words[0])
        elif section == "old workers":
            old.append(int(words[0]))
    return WorkerList(current, tuple(old))


def parse_servers(text: str) -> list[ServerCounts]:
    """Parse the answer of `show stat`: CSV with a header that begins with `# `."""
    found = list[ServerCounts]()
    for row in csv.DictReader(io.StringIO(text.strip().removeprefix("# "))):
        check = row["check_status"].lstrip("* ")
        found.append(
            ServerCounts(
                row["svname"],
                _parse_state(row["status"], check),
                f"{check} {row['check_code']}".strip(),
                int(row["scur"]),
                int(row["stot"]),
            )
        )
    return found


def _parse_state(status: str, check: str) -> ServerState:
    # `MAINT (via ...)` follows another server.
    word = status.partition(" ")[0]
    if word in ("MAINT", "DRAIN"):
        return "draining"
    if word in ("DOWN", "NOLB"):
        return "down"
    # HAProxy takes a server for up before its first probe, and until its second failure.
    return "up" if check in _GOOD_CHECKS else "unknown"
