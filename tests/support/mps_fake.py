"""A stand-in for `nvidia-cuda-mps-control`: the daemon's answers, and the program that gives them.

The texts of protocol 2 were recorded from version 535.261.03; those of protocol 3 are from NVIDIA's
documentation of it ("MPS v3 Interface"). A real daemon needs a card for its server; this one has
one. Run as a program it is a daemon with `-f`, and a client otherwise.
"""

import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

NO_DAEMON = "Cannot find MPS control daemon process"
HELP = "Copyright (C) 2003 - 2023 NVIDIA Corporation.\nThis program allows multiple CUDA processes"
HELP_V3 = f"{HELP}\nModules: server namespace client device sm-partition feature memacct"


@dataclass
class FakeServer:
    """One server process of a fake daemon."""

    uid: int
    pid: int
    percentage: float = 100.0
    memory: str = ""
    devices: str = ""
    clients: list[int] = field(default_factory=list)


@dataclass
class FakeNamespace:
    """A group of clients, by protocol 3."""

    memory: str = "-"
    percentage: str = "100"


class FakeDaemon:
    """The state of one daemon and its answers.

    Args:
        has_card: without one a server ends as soon as it is started, as the real one does.
    """

    def __init__(self, pipe: str, *, has_card: bool = True) -> None:
        self.pipe = pipe
        self.has_card = has_card
        self.default_percentage = 100.0
        self.default_memory: dict[str, str] = {}
        self.servers: dict[int, FakeServer] = {}
        self.named: dict[str, FakeServer] = {}
        self.namespaces: dict[str, FakeNamespace] = {}
        self.history: list[str] = []

    # Protocol 2.

    def answer_line(self, line: str) -> str:
        """Answer one line of the interactive shell."""
        self.history.append(line)
        verb, *arguments = line.split()
        commands: Mapping[str, Callable[..., str]] = {
            "get_default_active_thread_percentage": lambda: f"{self.default_percentage}",
            "set_default_active_thread_percentage": self._set_default_percentage,
            "get_default_device_pinned_mem_limit": lambda card: self.default_memory.get(card, ""),
            "set_default_device_pinned_mem_limit": self._set_default_memory,
            "get_server_list": lambda: "\n".join(map(str, self.servers)),
            "start_server": self._start_server,
            "get_client_list": self._list_clients,
            "get_active_thread_percentage": self._get_percentage,
            "set_active_thread_percentage": self._set_percentage,
            "set_device_pinned_mem_limit": self._set_memory,
            "ps": lambda: "" if self.servers else "Server not found",
            "quit": lambda *_: "",
        }
        command = commands.get(verb)
        return f'Unknown command "{verb}"' if command is None else command(*arguments)

    def _set_default_percentage(self, text: str) -> str:
        if 0 < float(text) <= 100:  # the real one ignores any other value without a word
            self.default_percentage = float(text)
        return f"{self.default_percentage}"

    def _set_default_memory(self, card: str, limit: str) -> str:
        self.default_memory[card] = limit
        return ""

    def _start_server(self, _option: str, uid: str) -> str:
        if self.has_card and not self.servers:
            pid = 700000 + int(uid) % 10000
            self.servers[pid] = FakeServer(
                int(uid), pid, self.default_percentage, self.default_memory.get("0", "")
            )
        return ""

    def _find(self, pid: str) -> FakeServer | None:
        return self.servers.get(int(pid))

    def _list_clients(self, pid: str) -> str:
        server = self._find(pid)
        return f"Server {pid} not found" if server is None else "\n".join(map(str, server.clients))

    def _get_percentage(self, pid: str) -> str:
        server = self._find(pid)
        return f"Server {pid} not found" if server is None else f"{server.percentage}"

    def _set_percentage(self, pid: str, text: str) -> str:
        server = self._find(pid)
        if server is None:
            return f"Server {pid} not found"
        server.percentage = float(text)
        return f"{server.percentage}"

    def _set_memory(self, pid: str, _card: str, limit: str) -> str:
        server = self._find(pid)
        if server is None:
            return f"Server {pid} not found"
        server.memory = limit
        return ""

    # Protocol 3.

    def answer_words(self, words: Sequence[str]) -> str:
        """Answer one command of the form `module verb`."""
        self.history.append(" ".join(words))
        if words[0] in ("-q", "--quit"):
            return ""
        options = dict(one[2:].partition("=")[::2] for one in words if one.startswith("--"))
        names = [one for one in words[2:] if not one.startswith("--")]
        handler: Callable[..., str] | None = getattr(self, f"_{words[0]}_{words[1]}", None)
        return (
            f"Unknown command {' '.join(words[:2])!r}"
            if handler is None
            else handler(names, options)
        )

    def _server_create(self, names: Sequence[str], options: Mapping[str, str]) -> str:
        self.named[names[0]] = FakeServer(
            int(options["uid"]), 48201, devices=options["allowed-devices"]
        )
        self.namespaces["default"] = FakeNamespace()
        return ""

    def _server_set(self, names: Sequence[str], options: Mapping[str, str]) -> str:
        return self._namespace_set(["default"], options)

    def _server_list(self, names: Sequence[str], options: Mapping[str, str]) -> str:
        rows = []
        for name, server in self.named.items():
            status = "Ready" if self.has_card else "Initializing"
            rows.append(
                f"{name},{server.uid},{server.pid},{status},{self.pipe}/{name},{server.devices},-"
            )
        return "\n".join(rows)

    def _namespace_create(self, names: Sequence[str], options: Mapping[str, str]) -> str:
        self.namespaces[names[0]] = FakeNamespace()
        return ""

    def _namespace_delete(self, names: Sequence[str], options: Mapping[str, str]) -> str:
        return "" if self.namespaces.pop(names[0], None) else f"Namespace {names[0]} not found"

    def _namespace_list(self, names: Sequence[str], options: Mapping[str, str]) -> str:
        server = options["server"]
        rows = []
        for name, one in self.namespaces.items():
            rows.append(
                f"{name},{server},Ready,{one.memory},{one.percentage},0,{self.pipe}/{server}/{name}"
            )
        return "\n".join(rows)

    def _namespace_set(self, names: Sequence[str], options: Mapping[str, str]) -> str:
        one = self.namespaces.get(names[0])
        if one is None:
            return f"Namespace {names[0]} not found"
        one.memory = options.get("pinned-memory-limit", one.memory)
        one.percentage = options.get("active-thread-percentage", one.percentage)
        return ""

    def _namespace_get(self, names: Sequence[str], options: Mapping[str, str]) -> str:
        one = self.namespaces.get(names[0])
        return f"Namespace {names[0]} not found" if one is None else one.percentage

    def _client_list(self, names: Sequence[str], options: Mapping[str, str]) -> str:
        server = self.named.get(options["server"])
        if server is None:
            return f"Server {options['server']} not found"
        return "\n".join(f"{pid},gpupool,0,default,python" for pid in server.clients)


def serve(pipe: Path, protocol: int) -> None:
    """Answer clients on the pipe directory's socket until one asks to quit."""
    daemon = FakeDaemon(str(pipe))
    control = pipe / "control"
    control.unlink(missing_ok=True)  # one that was killed leaves it
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(control))
    listener.listen(64)
    (pipe / "control_privileged").touch()  # by which a test knows that it listens
    while True:
        connection, _ = listener.accept()
        with connection, connection.makefile("rw") as stream:
            line = stream.readline().rstrip("\n")
            words = line.split("\t")
            stream.write(daemon.answer_words(words) if protocol == 3 else daemon.answer_line(line))
            stream.flush()
            if words[0].split()[0] in ("quit", "-q"):
                break
    listener.close()
    control.unlink()


def main(arguments: Sequence[str], protocol: int) -> int:
    """Be the daemon, or a client of one."""
    if arguments[:1] == ["-h"]:
        print(HELP_V3 if protocol == 3 else HELP)
        return 0
    pipe = Path(os.environ["CUDA_MPS_PIPE_DIRECTORY"])
    if arguments[:1] == ["-f"]:
        serve(pipe, protocol)
        return 0
    line = "\t".join(arguments) if arguments else sys.stdin.readline()
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(str(pipe / "control"))
        except OSError:
            print(NO_DAEMON)
            return 1
        connection.sendall(f"{line.rstrip()}\n".encode())
        with connection.makefile() as stream:
            print(stream.read())
    return 0


def write_program(folder: Path, protocol: int) -> Path:
    """Write the program under the real one's name, by which its processes are found."""
    path = folder / "nvidia-cuda-mps-control"
    path.write_text(
        f"#!{sys.executable} -IS\n"
        f"import sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        f"from mps_fake import main\nsys.exit(main(sys.argv[1:], {protocol}))\n"
    )
    path.chmod(0o755)
    return path
