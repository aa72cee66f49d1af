"""Count the modules that a job passes between `gpupool submit` and the start of its process.

A pool of simulated cards runs with a profile function in each of its Python processes, which notes
when a function of a module was called. One job is submitted; the modules called between the command
and the job's first instruction are counted. What the pool does in the background counts too; the
last line says how many of the modules also ran in the second before the command.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
#: Seconds that the pool rests between its start and the job, so that its start is not counted.
REST_SECONDS = 2.0
#: The last second of that rest, in units of 10 ms.
PAUSE_TICKS = 100
#: Seconds after which a command or a job has failed.
DEADLINE_SECONDS = 60.0

#: Installed as `sitecustomize` in each process of the pool; times are in units of 10 ms.
PROFILER = """
import atexit, json, os, sys, threading, time

source = os.environ["MEASURED_SOURCE"]
moments = {}

def note(frame, event, argument):
    if event == "call":
        path = frame.f_code.co_filename
        if path.startswith(source) and frame.f_code.co_name != "<module>":
            moments.setdefault(path, set()).add(int(time.time() * 100))

def write():
    sys.setprofile(None)
    found = {path: sorted(times) for path, times in list(moments.items())}
    with open(f"{os.environ['MEASURED_OUT']}/{os.getpid()}.json", "w") as out:
        json.dump(found, out)

atexit.register(write)
threading.setprofile(note)
sys.setprofile(note)
"""


@dataclass(frozen=True)
class ProfiledPool:
    """What a pool with profile functions is run with."""

    folder: Path
    source: Path

    @property
    def environment(self) -> dict[str, str]:
        """The environment of its commands."""
        kept = {name: text for name, text in os.environ.items() if not name.startswith("GPUPOOL_")}
        return kept | {
            "GPUPOOL_STATE_DIR": str(self.folder / "state"),
            "MEASURED_OUT": str(self.folder / "profiles"),
            "MEASURED_SOURCE": str(self.source),
            "PYTHONPATH": f"{self.folder}:{self.source}",
        }

    def run_command(self, *words: str) -> None:
        """Run a gpupool command; raises where it fails."""
        subprocess.run(
            [BIN / "gpupool-cli", *words],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            timeout=DEADLINE_SECONDS,
            check=True,
        )

    def read_profiles(self) -> Iterator[tuple[str, list[int]]]:
        """Yield each module that a process called and when, in units of 10 ms."""
        for path in (self.folder / "profiles").glob("*.json"):
            for module, moments in json.loads(path.read_text()).items():
                yield str(Path(module).relative_to(self.source / "gpupool")), moments


def wait_for_text(path: Path) -> str:
    """Wait until a file holds a whole line; return it."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        if path.exists() and path.read_text().endswith("\n"):
            return path.read_text().strip()
        time.sleep(0.01)
    raise TimeoutError(f"no job wrote {path} within {DEADLINE_SECONDS:.0f} s")


def find_called_modules(source: Path) -> tuple[set[str], set[str]]:
    """Run a pool and one job.

    Returns:
        The modules called from the command to the job's start, and those of them that ran in the
        pause before the command too.
    """
    with tempfile.TemporaryDirectory(prefix="gpupool-measure-") as name:
        folder = Path(name)
        (folder / "profiles").mkdir()
        (folder / "sitecustomize.py").write_text(PROFILER)
        pool = ProfiledPool(folder, source)
        pool.run_command("up", "-d", "--sim", "1x1xA100-80G")
        started = folder / "started"
        try:
            time.sleep(REST_SECONDS)
            begin = int(time.time() * 100)
            pool.run_command("submit", "--gpu", "0.5", "--", "sh", "-c", f"date +%s%2N >{started}")
            end = int(wait_for_text(started))
        finally:
            pool.run_command("down", "--purge", "--yes")
        called = set()
        background = set()
        for module, moments in pool.read_profiles():
            if any(begin <= moment <= end for moment in moments):
                called.add(module)
            if any(begin - PAUSE_TICKS <= moment < begin for moment in moments):
                background.add(module)
        return called, called & background


def main(words: Sequence[str]) -> int:
    """Print the number of modules, by package, and with `--list` their names."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("source", nargs="?", type=Path, default=ROOT / "src", help="with gpupool")
    parser.add_argument("--list", action="store_true", help="print the names too")
    options = parser.parse_args(words)
    modules, background = find_called_modules(options.source.resolve())
    packages = Counter(module.partition("/")[0] for module in modules)
    for package, count in sorted(packages.items()):
        print(f"{package:<20}{count:>4}")
    print(f"{'modules':<20}{len(modules):>4}  (limit 80; 128 at commit 48bd9b7)")
    print(f"{'ran before too':<20}{len(background):>4}")
    if options.list:
        print(*sorted(modules), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
