"""Sets the limits of jobs on an MPS server, by protocol 2 or 3, before a client can connect.

Protocol 2 has one limit for all clients of a server: the largest share. A job's own smaller share
is in its environment, which it can change. Protocol 3 gives each job a namespace with limits of its
own, reached through a directory of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gpupool.mechanisms.card_settings.records import CardRecord, CardUse
from gpupool.mechanisms.mps.control import ControlClient, ControlTarget
from gpupool.mechanisms.mps.replies import (
    ControlReply,
    ReplyKind,
    is_same_number,
    parse_pids,
    parse_rows,
)

#: Name of the one server of a daemon, by protocol 3.
SERVER = "gpupool"


@dataclass(frozen=True)
class ServerState:
    """How far a server is.

    Attributes:
        pid: of the server; None where it does not serve yet.
        missing: what is waited for, for people; empty where the server serves.
        refusal: why it will not serve, for people.
        has_daemon: whether the daemon answered.
    """

    pid: int | None = None
    missing: str = ""
    refusal: str = ""
    has_daemon: bool = True


class LimitedServer(Protocol):
    """One way to talk to a daemon.

    Attributes:
        longest_socket: the longest path of a socket, below the pipe directory.
    """

    @property
    def longest_socket(self) -> str: ...

    def list_arguments(self) -> tuple[str, ...]:
        """Return the options of the daemon, which stays in the foreground."""
        ...

    def configure(self, target: ControlTarget, record: CardRecord) -> ServerState:
        """Start the server and set the limits of all users. Idempotent."""
        ...

    def count_clients(self, target: ControlTarget) -> int:
        """Return how many processes are connected; 0 without a server."""
        ...

    def locate_pipe(self, target: ControlTarget, allocation: str) -> Path:
        """Return the directory through which a job's processes connect."""
        ...

    def request_quit(self, target: ControlTarget) -> ControlReply:
        """Ask the daemon to end itself and its server."""
        ...


def compute_percentage(gpu_milli: int) -> float:
    """Return the percentage of a share; at least 1, since 0 is refused.

    >>> compute_percentage(305), compute_percentage(0)
    (30.5, 1.0)
    """
    return max(gpu_milli, 10) / 10


def write_mebibytes(memory_bytes: int) -> str:
    return f"{memory_bytes >> 20}M"


def find_largest(record: CardRecord) -> CardUse:
    """Return the largest compute and the largest memory of all users."""
    uses = record.users.values()
    return CardUse(0, max(u.gpu_milli for u in uses), max(u.memory_bytes for u in uses))


def _report_failure(reply: ControlReply, command: str) -> ServerState:
    if reply.kind is ReplyKind.NO_DAEMON:
        return ServerState(missing="its MPS daemon", has_daemon=False)
    if reply.kind is ReplyKind.NO_SERVER:
        return ServerState(missing="its MPS server")
    if reply.kind is ReplyKind.TIMEOUT:
        return ServerState(missing="an answer of its MPS daemon")
    return ServerState(refusal=f"the MPS daemon answered {reply.text!r} to {command!r}")


class SharedLimitServer:
    """A server by protocol 2: one limit for all clients."""

    longest_socket = "control_privileged"

    def __init__(self, control: ControlClient) -> None:
        self._control = control

    def list_arguments(self) -> tuple[str, ...]:
        return ("-f",)

    def configure(self, target: ControlTarget, record: CardRecord) -> ServerState:
        largest = find_largest(record)
        percentage = compute_percentage(largest.gpu_milli)
        memory = write_mebibytes(largest.memory_bytes)
        # The defaults hold for the next server, so they come before it: no client is ever without.
        problem = self._set_percentage(target, "set_default_active_thread_percentage", percentage)
        problem = problem or self._set(target, f"set_default_device_pinned_mem_limit 0 {memory}")
        if problem is not None:
            return problem
        reply = self._control.send_line(target, "get_server_list")
        pids = parse_pids(reply)
        if not pids:
            self._control.send_line(target, f"start_server -uid {target.uid}")
            pids = parse_pids(self._control.send_line(target, "get_server_list"))
        if not pids:
            return ServerState(missing="its MPS server")
        # A server that runs does not take the defaults.
        setter = f"set_active_thread_percentage {pids[0]}"
        problem = self._set_percentage(target, setter, percentage)
        problem = problem or self._set(target, f"set_device_pinned_mem_limit {pids[0]} 0 {memory}")
        return problem or ServerState(pids[0])

    def count_clients(self, target: ControlTarget) -> int:
        clients = 0
        for pid in parse_pids(self._control.send_line(target, "get_server_list")):
            reply = self._control.send_line(target, f"get_client_list {pid}")
            clients += len(parse_pids(reply))
        return clients

    def locate_pipe(self, target: ControlTarget, allocation: str) -> Path:
        return target.pipe

    def request_quit(self, target: ControlTarget) -> ControlReply:
        # Its jobs have ended: nothing is waited for longer.
        return self._control.send_line(target, "quit -t 1")

    def _set_percentage(
        self, target: ControlTarget, setter: str, percentage: float
    ) -> ServerState | None:
        line = f"{setter} {percentage:g}"
        reply = self._control.send_line(target, line)
        if not reply.is_success:
            return _report_failure(reply, line)
        # A value out of range is answered with the one that holds, and without an error.
        reply = self._control.send_line(target, setter.replace("set_", "get_", 1))
        return None if is_same_number(reply.text, percentage) else _report_failure(reply, line)

    def _set(self, target: ControlTarget, line: str) -> ServerState | None:
        # The getter prints whole GiB above one, so its answer cannot be compared.
        reply = self._control.send_line(target, line)
        return None if reply.is_success else _report_failure(reply, line)


class NamespaceServer:
    """A server by protocol 3: a namespace for each job."""

    longest_socket = f"{SERVER}/a0123456789abcdef/control"

    def __init__(self, control: ControlClient) -> None:
        self._control = control

    def list_arguments(self) -> tuple[str, ...]:
        return ("-f", "-p", "3")

    def configure(self, target: ControlTarget, record: CardRecord) -> ServerState:
        rows = self._list(target, "server", SERVER)
        if isinstance(rows, ServerState):
            return rows
        if not rows:
            created = self._send(
                target,
                ("server", "create", SERVER, f"--uid={target.uid}"),
                f"--allowed-devices={record.uuid}",
            )
            if created is not None:
                return created
        # A client that connects to no namespace gets these limits: too little to run.
        closed = self._send(
            target,
            ("server", "set", SERVER, "--active-thread-percentage=1"),
            "--pinned-memory-limit=1M",
        )
        problem = closed or self._match_namespaces(target, record.users)
        if problem is not None:
            return problem
        rows = self._list(target, "server", SERVER)
        if isinstance(rows, ServerState):
            return rows
        status = rows[0][3] if rows and len(rows[0]) > 3 else "gone"
        if status.lower() not in ("ready", "active"):
            return ServerState(missing=f"its MPS server, which is {status}")
        return ServerState(int(rows[0][2]) if rows[0][2].isdigit() else 0)

    def count_clients(self, target: ControlTarget) -> int:
        rows = self._list(target, "client", f"--server={SERVER}")
        return 0 if isinstance(rows, ServerState) else len(rows)

    def locate_pipe(self, target: ControlTarget, allocation: str) -> Path:
        return target.pipe / SERVER / name_namespace(allocation)

    def request_quit(self, target: ControlTarget) -> ControlReply:
        return self._control.send_words(target, ("-q",))

    def _match_namespaces(
        self, target: ControlTarget, users: Mapping[str, CardUse]
    ) -> ServerState | None:
        rows = self._list(target, "namespace", f"--server={SERVER}")
        if isinstance(rows, ServerState):
            return rows
        limits = {row[0]: row[3:5] for row in rows if row[0] != "default"}
        wanted = {name_namespace(allocation): use for allocation, use in users.items()}
        for name in sorted(set(limits) - set(wanted)):
            # The job of the namespace has ended.
            self._send(target, ("namespace", "delete", name, f"--server={SERVER}"), "--force")
        for name, use in wanted.items():
            problem = None
            if name not in limits:
                command = ("namespace", "create", name)
                problem = self._send(target, command, f"--server={SERVER}")
            if problem is None and not _are_limits_of(use, limits.get(name, ())):
                problem = self._limit_namespace(target, name, use)
            if problem is not None:
                return problem
        return None

    def _limit_namespace(
        self, target: ControlTarget, name: str, use: CardUse
    ) -> ServerState | None:
        percentage = f"{int(compute_percentage(use.gpu_milli))}"
        memory = write_mebibytes(use.memory_bytes)
        problem = self._send(
            target,
            ("namespace", "set", name, f"--server={SERVER}", f"--pinned-memory-limit={memory}"),
            f"--active-thread-percentage={percentage}",
        )
        if problem is not None:
            return problem
        words = ("namespace", "get", name, SERVER, "active-thread-percentage")
        reply = self._control.send_words(target, words)
        if is_same_number(reply.text, float(percentage)):
            return None
        return _report_failure(reply, " ".join(words))

    def _list(
        self, target: ControlTarget, module: str, what: str
    ) -> tuple[tuple[str, ...], ...] | ServerState:
        words = (module, "list", what, "--format=csv,noheader")
        reply = self._control.send_words(target, words)
        if reply.kind in (ReplyKind.NO_DAEMON, ReplyKind.TIMEOUT, ReplyKind.UNKNOWN_COMMAND):
            return _report_failure(reply, " ".join(words))
        return parse_rows(reply)

    def _send(self, target: ControlTarget, words: tuple[str, ...], last: str) -> ServerState | None:
        reply = self._control.send_words(target, (*words, last))
        return None if reply.is_success else _report_failure(reply, " ".join((*words, last)))


def _are_limits_of(use: CardUse, columns: tuple[str, ...]) -> bool:
    """Whether the columns of a listed namespace are the limits of a use, in the form sent."""
    percentage = float(int(compute_percentage(use.gpu_milli)))
    return (
        len(columns) == 2
        and columns[0] == write_mebibytes(use.memory_bytes)
        and is_same_number(columns[1], percentage)
    )


def name_namespace(allocation: str) -> str:
    """Return the name of a job's namespace: lowercase letters and digits only."""
    return f"a{hashlib.sha256(allocation.encode()).hexdigest()[:16]}"
