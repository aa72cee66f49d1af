"""A real pool of simulated cards in a directory of its own, driven by the command line as a person would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SECONDS = 60
GPUPOOL = [sys.executable, "-c", "from gpupool.cli.main import entry; entry()"]


class RealPool:
    """`gpupool` with this pool's state directory; `down --purge` at the end, whatever happened."""

    def __init__(self, state_dir: Path, sim: str = "4xL40S") -> None:
        self.state_dir, self.sim = state_dir, sim
        self.environ = {**os.environ, "GPUPOOL_STATE_DIR": str(state_dir), "HOME": str(state_dir.parent)}
        for name in ("GPUPOOL_URL", "GPUPOOL_TOKEN", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
            self.environ.pop(name, None)

    def __enter__(self) -> RealPool:
        self.up("--sim", self.sim)
        return self

    def __exit__(self, *_: object) -> None:
        self.do("down", "--purge", "--yes", "--grace", "1s")

    def run(self, *words: str, **settings: Any) -> subprocess.CompletedProcess[str]:
        """One command, whatever it answers."""
        settings = {"stdin": subprocess.DEVNULL, "capture_output": True, "timeout": SECONDS, "text": True, **settings}
        environ = {**self.environ, **settings.pop("environ", {})}
        return subprocess.run([*GPUPOOL, *words], env=environ, check=False, **settings)

    def do(self, *words: str) -> str:
        """One command that must succeed; its stdout."""
        done = self.run(*words)
        assert done.returncode == 0, f"gpupool {' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def start(self, *words: str, **settings: Any) -> subprocess.Popen[bytes]:
        """A command left running."""
        settings = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **settings}
        return subprocess.Popen([*GPUPOOL, *words], env=self.environ, **settings)

    def up(self, *words: str) -> str:
        return self.do("up", "-d", *words)

    def json(self, *words: str) -> Any:
        return json.loads(self.do(*words, "-o", "json"))

    def job(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.json("show", name)
        return found

    def server_pid(self) -> int:
        return int(self.json("doctor")["server"]["pid"])

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
