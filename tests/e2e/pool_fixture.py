"""A real pool of simulated cards in a directory of its own, driven by the command line as a person
would."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

#: Of one command, and of one wait: a start took more than 60 at a load of 30 on two processors.
SECONDS = 120
GPUPOOL = [sys.executable, "-c", "from gpupool.cli.main import entry; entry()"]


class RealPool:
    """`gpupool` with this pool's state directory; `down --purge` at the end, whatever happened."""

    def __init__(self, state_dir: Path, sim: str = "4xL40S") -> None:
        self.state_dir, self.sim = state_dir, sim
        self.environ = {
            **os.environ,
            "GPUPOOL_STATE_DIR": str(state_dir),
            "HOME": str(state_dir.parent),
        }
        for name in ("GPUPOOL_URL", "GPUPOOL_TOKEN", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
            self.environ.pop(name, None)

    def __enter__(self) -> Self:
        try:
            self.up("--sim", self.sim)
        except BaseException:
            # Whatever ended it: the server may run by now.
            self.run("down", "--purge", "--yes", "--grace", "1s")
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.do("down", "--purge", "--yes", "--grace", "1s")

    def run(self, *words: str, **settings: Any) -> subprocess.CompletedProcess[str]:
        """One command, whatever it answers."""
        settings = {
            "stdin": subprocess.DEVNULL,
            "capture_output": True,
            "timeout": SECONDS,
            "text": True,
            **settings,
        }
        environ = {**self.environ, **settings.pop("environ", {})}
        return subprocess.run([*GPUPOOL, *words], env=environ, check=False, **settings)

    def do(self, *words: str) -> str:
        """One command that must succeed; its stdout."""
        done = self.run(*words)
        assert done.returncode == 0, (
            f"gpupool {' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}"
        )
        return done.stdout

    def start(self, *words: str, **settings: Any) -> subprocess.Popen[bytes]:
        """A command left running."""
        settings = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            **settings,
        }
        return subprocess.Popen([*GPUPOOL, *words], env=self.environ, **settings)

    def up(self, *words: str) -> str:
        return self.do("up", "-d", *words)

    def json(self, *words: str) -> Any:
        return json.loads(self.do(*words, "-o", "json"))

    def job(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.json("show", name)
        return found

    def server_pid(self) -> int:
        """By `doctor`, whatever it finds wrong."""
        return int(json.loads(self.run("doctor", "-o", "json").stdout)["server"]["pid"])

    def until(self, condition: Callable[[], Any], what: str) -> Any:
        """Ask again until it is so; fails with what was waited for."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            found = condition()
            if found:
                return found
            time.sleep(0.05)  # between two looks from outside
        raise AssertionError(f"never became true: {what}")

    def until_state(self, name: str, *states: str) -> dict[str, Any]:
        def there() -> dict[str, Any] | None:
            jobs = [job for job in self.json("ps", "--all") if job["name"] == name]
            return jobs[0] if jobs and jobs[0]["state"] in states else None

        found: dict[str, Any] = self.until(there, f"{name} {states}")
        return found

    def held_milli(self) -> int:
        return sum(card["used_milli"] for card in self.json("gpus"))

    def stop_all(self) -> None:
        """End every job; fails if a card is still held afterwards."""
        self.do("stop", "--all", "--yes", "--grace", "0")
        assert self.held_milli() == 0


class Terminal:
    """Both ends of a terminal; reads with a deadline, so that a silent program fails a test and not
    the run."""

    def __init__(self, rows: int = 24, columns: int = 80) -> None:
        self.main, self.side = pty.openpty()
        fcntl.ioctl(self.side, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.seen = b""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.main)
        os.close(self.side)

    def type(self, keys: bytes) -> None:
        os.write(self.main, keys)

    def until(self, text: bytes) -> None:
        """Read until the text has been shown."""
        deadline = time.monotonic() + SECONDS
        while text not in self.seen:
            assert time.monotonic() < deadline, f"{text!r} was never shown: {self.seen!r}"
            self._read(1.0)

    def until_ended(self, process: subprocess.Popen[bytes]) -> int:
        """Read on until the process has ended; its exit code."""
        deadline = time.monotonic() + SECONDS
        while process.poll() is None:
            assert time.monotonic() < deadline, f"it never ended: {self.seen[-2000:]!r}"
            self._read(0.1)
        while self._read(0.0):
            continue
        return int(process.returncode)

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self.main], [], [], seconds)
        if ready:
            self.seen += os.read(self.main, 65536)
        return bool(ready)
