"""Processor time of `gpupool submit`: the native command beside the Python command.

`python -m bench.clients.front` submits the same job in turn by both, to one pool of simulated
cards, and by the native command with an option that it leaves to Python.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence

from bench.pool import BIN, Pool, running_pool

ROUNDS = 40
#: By what is printed: the program and its words before the command.
WAYS = {
    "native": ("gpupool", "submit"),
    "Python": ("gpupool-cli", "submit"),
    "native, left to Python": ("gpupool", "submit", "--requeue"),
}


def measure_submit(pool: Pool, words: Sequence[str]) -> float:
    """Submit one job; return the milliseconds of processor time of the command."""
    program, *options = words
    child = subprocess.Popen(
        [BIN / program, *options, "--gpu", "0.1", "--", "true"],
        env=pool.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{program} ended with {child.returncode}")
    return (used.ru_utime + used.ru_stime) * 1000


def measure_all(rounds: int) -> None:
    """Measure each way in turn and print the medians."""
    found: dict[str, list[float]] = {name: [] for name in WAYS}
    with running_pool("1x4xL40S") as pool:
        for _ in range(rounds):
            for name, words in WAYS.items():
                found[name].append(measure_submit(pool, words))
    print("| command | ms of processor time per submit |\n|---|---|")
    for name, samples in found.items():
        print(f"| {name} | {statistics.median(samples):.1f} |")


def main(words: Sequence[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="submissions of each way")
    measure_all(parser.parse_args(words).rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
