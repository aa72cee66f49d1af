"""A pool beside the bench: its own state directory, simulated cards, gone at the end with all it
had."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BIN = Path(sys.executable).parent
GPUPOOL = str(BIN / "gpupool")
COMMAND_SECONDS = 900


class CommandFailedError(Exception):
    """A gpupool command of a bench did not end as it should; the message has its own words."""


@dataclass(frozen=True)
class Pool:
    """A running pool. `env` is what a client needs to find it, `pid` its server."""

    env: dict[str, str]
    pid: int

    def gpupool(self, *arguments: str) -> str:
        """What an ordinary command prints."""
        return gpupool(self.env, *arguments)

    def json(self, *arguments: str) -> Any:
        return json.loads(self.gpupool(*arguments, "-o", "json"))


@contextmanager
def running_pool(sim: str) -> Iterator[Pool]:
    """`gpupool up -d --sim SIM`, then `down --purge --yes`."""
    with tempfile.TemporaryDirectory(prefix="gpupool-bench-") as directory:
        env = {name: value for name, value in os.environ.items() if not name.startswith("GPUPOOL_")}
        env |= {"GPUPOOL_STATE_DIR": str(Path(directory) / "state")}
        try:
            # Inside the block: a bench that is ended meanwhile may have started the server.
            gpupool(env, "up", "-d", "--sim", sim)
            yield Pool(env, int(json.loads(gpupool(env, "doctor", "-o", "json"))["server"]["pid"]))
        finally:
            gpupool(env, "down", "--purge", "--yes")


def gpupool(env: dict[str, str], *arguments: str) -> str:
    return command(env, (GPUPOOL, *arguments))


def command(env: dict[str, str], words: Sequence[str]) -> str:
    done = subprocess.run(
        words,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
    )
    if done.returncode != 0:
        raise CommandFailedError(f"{' '.join(words)} exited {done.returncode}: {done.stderr}")
    return done.stdout
