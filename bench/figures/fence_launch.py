"""What the fence adds to a launch: instructions (valgrind) and nanoseconds, without a limit and with one."""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path

from bench.rows import Row
from tests.support.fenced_card import Arbiter, Card, Share, build_load, finish, running

NAME = "fence-launch"
KERNEL = "step_us_1"
LAUNCHES = 20_000
COUNTED = (2_000, 10_000)
RUNS = 9
COUNTS = 3
LIMIT_FREE_NS, LIMIT_SHARED_NS = 300, 1000


def run(out: Path) -> list[Row]:
    """The simulated driver, whose own launch is the peer. The medians are of single launches of a tight loop."""
    command = "python -m bench fence-launch"
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        load, card, arbiter = build_load(directory), Card(directory), Arbiter()
        free, shared = card.share("free", 1000), card.share("shared", 900, "burst")
        arbiter.add(shared)
        rows = []
        alone = [_median_ns(load, card, None) for _ in range(RUNS)]
        for name, share, limit in (
            ("without a limit", free, LIMIT_FREE_NS),
            ("with a limit", shared, LIMIT_SHARED_NS),
        ):
            with_fence = [_median_ns(load, card, share) for _ in range(RUNS)]
            added = max(0.0, statistics.median(with_fence) - statistics.median(alone))
            note = f"{statistics.median(with_fence):.0f} ns a launch, {statistics.median(alone):.0f} ns without a fence"
            samples = tuple(each - statistics.median(alone) for each in with_fence)
            figure = f"launch path, {name}: added, median"
            rows.append(Row(figure, "ns", added, command, limit=limit, samples=samples, note=note))
        if shutil.which("valgrind"):
            bare = instructions(load, card, None)
            for name, share in (("without a limit", free), ("with a limit", shared)):
                figure = f"launch path, {name}: added instructions of the launching thread"
                counts = tuple(instructions(load, card, share) - bare for _ in range(COUNTS))
                note = f"{bare:.0f} without"
                rows.append(Row(figure, "", statistics.median(counts), command, samples=counts, note=note))
        arbiter.close()
    return rows


def _median_ns(load: Path, card: Card, share: Share | None) -> float:
    with running(load, share, card, KERNEL, 0, LAUNCHES, 200, "kernel") as process:
        return float(finish(process)["median_ns"])


def instructions(load: Path, card: Card, share: Share | None, *, fair: bool = True) -> float:
    """Of the launching thread for one more launch: the slope between two counts, so that starting cancels out.

    Valgrind runs one thread at a time, in turns if `fair`; if not, the process's other threads hardly run.
    """
    few, many = (_counted(load, card, share, count, fair) for count in COUNTED)
    return (many - few) / (COUNTED[1] - COUNTED[0])


def _counted(load: Path, card: Card, share: Share | None, launches: int, fair: bool) -> int:
    """`--separate-threads` writes a file for each thread; the first is the program's own."""
    environment = share.environment if share else card.bare()
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", "--separate-threads=yes", f"--fair-sched={'yes' if fair else 'no'}"]
        command += [f"--callgrind-out-file={folder}/out"]
        command += [str(load), KERNEL, "0", str(launches), "100", "kernel"]
        subprocess.run(command, env=environment, capture_output=True, check=True, timeout=120)
        text = (Path(folder) / "out-01").read_text()
    found = re.search(r"^(?:summary|totals): (\d+)", text, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"callgrind wrote no total: {os.linesep.join(text.splitlines()[:5])}")
    return int(found[1])
