"""What the fence adds to a launch: instructions (valgrind) and nanoseconds, without a limit and
with one."""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Set
from pathlib import Path

import gpupool_native
from bench.rows import Row
from tests.support.fenced_card import (
    DRIVER,
    Arbiter,
    Card,
    Share,
    build_load,
    build_quick_driver,
    finish,
    running,
)

NAME = "fence-launch"
COMMAND = "python -m bench fence-launch"
LAUNCHES = 20_000
COUNTED = (2_000, 10_000)
RUNS = 9
COUNTS = 3
TIGHT_NS, WAITED_NS = 60, 120
SHARES = (("without a limit", 1000, "fixed"), ("with a limit", 900, "burst"))

#: What runs, its kernel, after how many launches it waits, and what may be added to a launch.
LOOPS = (
    ("tight loop of 1 us kernels", "step_us_1", 200, TIGHT_NS),
    ("tight loop of 20 us kernels", "step_us_20", 200, TIGHT_NS),
    ("20 us kernels, each waited for", "step_us_20", 1, WAITED_NS),
)


def run(out: Path) -> list[Row]:
    """Nanoseconds beside the simulated driver, and the instructions of the fence alone, on a driver
    that does nothing.

    The medians are of single launches, with and without a fence in turns, since the machine may
    change meanwhile.
    """
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        load, arbiter = build_load(directory), Arbiter()
        simulated = _Bench(load, Card(directory), arbiter)
        rows = [row for loop in LOOPS for row in simulated.loop(*loop)]
        (directory / "own").mkdir()
        own = _Bench(load, Card(directory / "own", driver=build_quick_driver(directory)), arbiter)
        if shutil.which("valgrind"):
            rows += own.instructions()
        arbiter.close()
    return rows


class _Bench:
    """One card with a share of each kind."""

    def __init__(self, load: Path, card: Card, arbiter: Arbiter) -> None:
        self.load, self.card = load, card
        self.shares: dict[str, Share | None] = {"": None}
        for number, (name, gpu_milli, sharing) in enumerate(SHARES):
            share = card.share(f"{card.directory.name}-{number}", gpu_milli, sharing)
            self.shares[name] = share
            if gpu_milli < 1000:
                arbiter.add(share)

    def loop(self, figure: str, kernel: str, sync_every: int, limit_ns: int) -> list[Row]:
        """What a launch takes more than without a fence, a row for each share."""
        took: dict[str, list[float]] = {name: [] for name in self.shares}
        for _ in range(RUNS):
            for name, share in self.shares.items():
                took[name].append(self._median_ns(share, kernel, sync_every))
        bare = statistics.median(took.pop(""))
        rows = []
        for name, times in took.items():
            median = statistics.median(times)
            note = f"{median:.0f} ns a launch, {bare:.0f} ns without a fence"
            samples = tuple(each - bare for each in times)
            text = f"launch, {figure}, {name}: added, median"
            rows.append(
                Row(
                    text,
                    "ns",
                    max(0.0, median - bare),
                    COMMAND,
                    limit=limit_ns,
                    samples=samples,
                    note=note,
                )
            )
        return rows

    def _median_ns(self, share: Share | None, kernel: str, sync_every: int) -> float:
        launches = LAUNCHES if sync_every > 1 else LAUNCHES // 4
        with running(
            self.load, share, self.card, kernel, 0, launches, sync_every, "kernel"
        ) as process:
            return float(finish(process)["median_ns"])

    def instructions(self) -> list[Row]:
        """The fence's own, counted by valgrind."""
        bare = instructions(self.load, self.card, None)
        rows = []
        for name, share in self.shares.items():
            if share is None:
                continue
            figure = f"launch, own part, {name}: added instructions of the launching thread"
            counts = tuple(instructions(self.load, self.card, share) - bare for _ in range(COUNTS))
            rows.append(
                Row(
                    figure,
                    "",
                    statistics.median(counts),
                    COMMAND,
                    samples=counts,
                    note=f"{bare:.0f} without",
                )
            )
        return rows


def instructions(load: Path, card: Card, share: Share | None, *, fair: bool = True) -> float:
    """Count the launching thread's instructions for one more launch, less those of the driver.

    The result is the slope between two counts, so that starting cancels out. What the thread does
    inside the driver is left out: on a loaded machine valgrind makes each launch so slow that the
    fence closes a batch, by the clock, every few launches, and the simulated driver's events then
    cost more than the fence itself.

    Args:
        load: the program that launches.
        card: the card with its driver.
        share: the share whose fence is counted; None for the program without a fence.
        fair: whether valgrind, which runs one thread at a time, gives them turns; if not, the
            other threads of the process hardly run.
    """
    few, many = (_count(load, card, share, launches, fair) for launches in COUNTED)
    return (many - few) / (COUNTED[1] - COUNTED[0])


def _count(load: Path, card: Card, share: Share | None, launches: int, fair: bool) -> int:
    """`--separate-threads` writes a file for each thread; the first is the program's own."""
    environment = share.environment if share else card.bare()
    drivers = {str(path.resolve()) for path in (card.driver, gpupool_native.simgpu_dir() / DRIVER)}
    with tempfile.TemporaryDirectory() as folder:
        command = [
            "valgrind",
            "--tool=callgrind",
            "--separate-threads=yes",
            f"--fair-sched={'yes' if fair else 'no'}",
        ]
        command += [f"--callgrind-out-file={folder}/out"]
        command += [str(load), "step_us_1", "0", str(launches), "100", "kernel"]
        subprocess.run(command, env=environment, capture_output=True, check=True, timeout=120)
        return count_outside((Path(folder) / "out-01").read_text(), drivers)


def count_outside(profile: str, libraries: Set[str]) -> int:
    """Count the instructions of a callgrind profile that ran neither in these libraries nor below
    a call into them.

    The profile lists, after `ob=` (the library), the cost of each line, and after `cob=` (the
    library called) and `calls=` the cost of a call with all that ran below it. A name is written
    out once and abbreviated to its number afterwards.

    Args:
        profile: what callgrind wrote for one thread.
        libraries: paths as the profile writes them.

    Raises:
        RuntimeError: the profile has no total.
    """
    names: dict[str, str] = {}
    caller = callee = ""
    is_call = False
    total = None
    inside = 0
    for line in profile.splitlines():
        key, _, value = line.partition("=")
        if key in ("ob", "cob"):
            number, _, name = value.partition(" ")
            name = names.setdefault(number, name)
            caller, callee = (name, name) if key == "ob" else (caller, name)
        elif key == "calls":
            is_call = True
        elif line[:1] in tuple("0123456789+-*"):
            if is_call:
                inside += int(line.split()[1]) if _is_entry(caller, callee, libraries) else 0
                callee = caller  # holds until the next call names its own
            is_call = False
        elif match := re.match(r"(?:summary|totals): (\d+)", line):
            total = int(match[1])
    if total is None:
        start = os.linesep.join(profile.splitlines()[:5])
        raise RuntimeError(f"callgrind wrote no total: {start}")
    return total - inside


def _is_entry(caller: str, callee: str, libraries: Set[str]) -> bool:
    return callee in libraries and caller not in libraries
