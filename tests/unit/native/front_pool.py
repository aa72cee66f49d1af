"""For the front door's tests: a pool that plays its answers and keeps what it was asked, and both
programs.

The fake pool speaks HTTP over a real Unix socket and knows nothing of jobs.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
NATIVE = ROOT / "native"
FRONT = NATIVE / "cli"
COMMON = tuple(NATIVE / "common" / name for name in ("text.c", "json.c", "http.c"))
WARNINGS = ("-Wall", "-Wextra", "-Wshadow", "-Wvla", "-Wformat=2", "-Werror")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1")
SECONDS = 20.0
FELL_BACK = 99
STATE_DIR = "pool"


def compiler() -> str:
    found = shutil.which("cc") or shutil.which("gcc")
    assert found, "a C compiler is needed, as it is to install gpupool-native"
    return found


def compile_front(target: Path, *flags: str, sources: Sequence[Path] | None = None) -> None:
    """The front door's sources (or others), with every warning an error."""
    files = [*sorted(FRONT.glob("**/*.c")), *COMMON] if sources is None else sources
    from gpupool import __version__

    subprocess.run(
        [compiler(), "-std=gnu11", "-D_FILE_OFFSET_BITS=64", f'-DGPUPOOL_VERSION="{__version__}"',
         f"-I{NATIVE}", f"-I{FRONT}",
         *WARNINGS, *flags, *map(str, files), "-o", str(target)],
        check=True,
    )  # fmt: skip


def script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def python_command() -> str:
    """The Python command as its console script would be."""
    return f"#!{sys.executable}\nfrom gpupool.cli.main import entry\nentry()\n"


@dataclass
class Asked:
    """One request: its head with the key made equal, and its body."""

    head: str
    body: bytes

    @property
    def line(self) -> str:
        return self.head.split("\r\n", 1)[0].removesuffix(" HTTP/1.1")


Answer = bytes | Callable[[], bytes]
HANG_UP = b""


class FakePool:
    """Listens in a state directory; answers each request with the next of its answers, the last one
    for ever."""

    def __init__(self, state_dir: Path) -> None:
        self.path = state_dir / "gpupool.sock"
        state_dir.mkdir(parents=True, exist_ok=True)
        self.answers: list[Answer] = []
        self.asked: list[Asked] = []
        self.came = threading.Condition()
        self._listener: socket.socket | None = None
        self._connections: set[socket.socket] = set()
        self.listen()

    def listen(self) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        directory = os.open(self.path.parent, os.O_PATH)
        self._listener.bind(f"/proc/self/fd/{directory}/{self.path.name}")
        os.close(directory)
        self._listener.listen(16)
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def go_away(self) -> None:
        """As a pool that is stopped: nobody listens, the socket is gone, and so is every
        connection."""
        assert self._listener is not None
        self.path.unlink()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._listener = None
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        if self._listener is not None:
            self.go_away()

    def play(self, *answers: Answer) -> None:
        self.answers, self.asked = list(answers), []

    def await_asked(self, count: int) -> list[Asked]:
        with self.came:
            assert self.came.wait_for(lambda: len(self.asked) >= count, SECONDS), self.asked
        return self.asked

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        self._connections.add(connection)
        with connection, contextlib.suppress(OSError):
            self._converse(connection)
        self._connections.discard(connection)

    def _converse(self, connection: socket.socket) -> None:
        data = b""
        while True:
            while b"\r\n\r\n" not in data:
                piece = connection.recv(1 << 16)
                if not piece:
                    return
                data += piece
            head, _, data = data.partition(b"\r\n\r\n")
            size = int((re.search(rb"Content-Length: (\d+)", head) or [b"", b"0"])[1])
            while len(data) < size:
                data += connection.recv(1 << 16)
            body, data = data[:size], data[size:]
            if not self._answer(connection, head.decode(), body):
                return

    def _answer(self, connection: socket.socket, head: str, body: bytes) -> bool:
        with self.came:
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            self.asked.append(
                Asked(re.sub(r"(?<=Idempotency-Key: )[0-9a-f]{32}", "KEY", head), body)
            )
            self.came.notify_all()
        data = answer if isinstance(answer, bytes) else answer()
        if data == HANG_UP:
            return False
        connection.sendall(data)
        return b"Connection: close" not in data and not data.startswith(b"garbage")


def http(body: Any, status: int = 201, kind: str = "application/json", extra: str = "") -> bytes:
    """An answer with a length."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = (
        f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n{extra}\r\n"
    )
    return head.encode() + data


def chunked(body: Any) -> bytes:
    """The same in three chunks, after a 100."""
    data = json.dumps(body).encode()
    cuts = (data[:7], data[7:8], data[8:])
    text = (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\ncontent-type: application/json\r\n"
    )
    text += b"Transfer-Encoding: chunked\r\n\r\n"
    text += b"".join(b"%x;x=1\r\n%s\r\n" % (len(cut), cut) for cut in cuts)
    return text + b"0\r\nX-After: 1\r\n\r\n"


def problem(
    code: str, status: int = 409, detail: str = "it cannot be", hint: str = "", **numbers: Any
) -> bytes:
    body = {
        "type": "x",
        "title": "T",
        "status": status,
        "detail": detail,
        "code": code,
        "hint": hint,
        "numbers": {"a": [1], **numbers},
    }
    return http(body, status, "application/problem+json")


def job(**changes: Any) -> dict[str, Any]:
    """JobOut as the server sends it."""
    known: dict[str, Any] = {
        "id": "j-4k9x2m7q8w", "name": "true-7q8w", "state": "pending", "reason": "", "tenant": "default",
        "project": "main", "user": "root", "gpu_milli": 100, "memory_bytes": 1 << 30, "count": 1, "model": None,
        "sharing": "fixed", "share": "0.10 GPU (10 % compute) + 1024 MiB", "priority": 0, "max_seconds": None,
        "node": None, "device": None, "seats": [], "why": "", "fence": "none", "simulated": None, "attached": True,
        "attach_socket": None, "command": ["true", "é\n\"\\\x7f€😀"], "array": None, "array_index": None,
        "generation": 3, "submitted_ns": 1_700_000_000_000_000_000, "placed_ns": None, "started_ns": None,
        "ended_ns": None,
        "exit_code": None, "signal": None, "cpu_milliseconds": None, "max_rss_bytes": None,
    }  # fmt: skip
    assert set(changes) <= set(known)
    return known | changes


def ended(state: str = "done", exit_code: int | None = 0, **changes: Any) -> dict[str, Any]:
    times = {"started_ns": 10**18, "ended_ns": 10**18 + 3_725_500_000_000}
    return job(state=state, exit_code=exit_code, **(times | changes))


def first(found: Mapping[str, Any], array: str | None = None, count: int = 1) -> dict[str, Any]:
    return {"first": found, "array": array, "count": count}


@dataclass
class Outcome:
    """What a person and a pool saw of one command line."""

    code: int
    out: bytes
    err: bytes
    asked: list[Asked] = field(default_factory=list)


@dataclass
class Programs:
    """The command, by the front door alone and by Python alone, in the same place with the same
    surroundings."""

    front: Path
    python: Path
    home: Path
    pool: FakePool
    _started: queue.SimpleQueue[int] = field(default_factory=queue.SimpleQueue)

    @property
    def environment(self) -> dict[str, str]:
        # A C locale would have Python's start-up change its own environment.
        return {"PATH": "/usr/bin:/bin", "HOME": str(self.home), "LC_ALL": "C.UTF-8", "GPUPOOL_STATE_DIR": STATE_DIR,
                "ODD": "é\t\"\\\x7f😀\x01"}  # fmt: skip

    def start(
        self, program: Path, words: str | Sequence[str], **settings: Any
    ) -> subprocess.Popen[bytes]:
        argv = [str(program), *(shlex.split(words) if isinstance(words, str) else words)]
        known: dict[str, Any] = {
            "cwd": self.home,
            "env": self.environment,
            "stdin": subprocess.DEVNULL,
        }
        known |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(argv, **(known | settings))
        self._started.put(process.pid)
        return process

    def send(self, number: signal.Signals) -> None:
        """To the first that was started and had none: it may ask the pool before we know its
        number."""
        os.kill(self._started.get(timeout=SECONDS), number)

    def run(
        self, program: Path, words: str | Sequence[str], *answers: Answer, **settings: Any
    ) -> Outcome:
        self.pool.play(*answers)
        process = self.start(program, words, **settings)
        out, err = process.communicate(timeout=3 * SECONDS)
        return Outcome(process.returncode, out, err, self.pool.asked)

    def both(self, words: str | Sequence[str], *answers: Answer, **settings: Any) -> Outcome:
        """The outcome, which is the same for both programs."""
        truth = self.run(self.python, words, *answers, **settings)
        found = self.run(self.front, words, *answers, **settings)
        assert found == truth
        return found
