"""Unmodified PyTorch on simulated cards, under shares: `python -m bench.torch_on_simulated
[--report FILE]`.

Makes an environment of its own in .tools/torch (PyTorch's CUDA build, 5 GB, fetched once), starts a
pool of simulated cards, runs each step of bench/torch_steps.py as a job, and prints a table. Exits
with 1 when a step was not as it should be. What a simulated card does not do (kernels' results,
cuBLAS, cuDNN, NCCL) is not tried.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from bench.pool import GPUPOOL, CommandFailedError, Pool, command, running_pool

ROOT = Path(__file__).parents[1]
ENVIRONMENT = ROOT / ".tools" / "torch"
STEPS = ROOT / "bench" / "torch_steps.py"
TORCH = "torch==2.15.0"
SIM = "2xL40S"
GIB = 1 << 30
SHARE = ("--gpu", "0.3", "--memory", "8GiB")
RUNTIME = "LD_PRELOAD=libcudart.so.13"
"""PyTorch finds the vendor's runtime by a path of its own (DT_RPATH); by this name ours is there
before it."""


@dataclass(frozen=True)
class Outcome:
    """One row of the table."""

    step: str
    expected: str
    seen: str
    good: bool
    seconds: float


@dataclass(frozen=True)
class Torch:
    """PyTorch as jobs of a pool."""

    pool: Pool
    python: Path

    def words(
        self, claim: tuple[str, ...], *step: str, environ: Mapping[str, str] | None = None
    ) -> list[str]:
        variables = [RUNTIME, *(f"{name}={value}" for name, value in (environ or {}).items())]
        return [
            GPUPOOL,
            "run",
            *claim,
            "--",
            "env",
            *variables,
            str(self.python),
            str(STEPS),
            *step,
        ]

    def run(
        self, claim: tuple[str, ...], *step: str, environ: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """What the step printed. Raises CommandFailedError with its words."""
        printed = command(self.pool.env, self.words(claim, *step, environ=environ)).splitlines()
        found: dict[str, Any] = json.loads(printed[-1])
        return found

    @contextmanager
    def waiting(self, claim: tuple[str, ...], *step: str) -> Iterator[Waiting]:
        """A job of a step that says a line and waits for its standard input."""
        process = subprocess.Popen(
            self.words(claim, *step),
            env=self.pool.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield Waiting(process)
        finally:
            process.kill()
            process.wait()


@dataclass(frozen=True)
class Waiting:
    process: subprocess.Popen[str]

    def said(self) -> dict[str, Any]:
        """The next line it prints. Raises CommandFailedError when there is none."""
        out: IO[str] | None = self.process.stdout
        line = out.readline() if out else ""
        if not line:
            raise CommandFailedError(f"the job ended: {self.process.communicate()[1][-2000:]}")
        found: dict[str, Any] = json.loads(line)
        return found

    def go(self) -> None:
        """A line on its standard input."""
        if self.process.stdin:
            self.process.stdin.write("go\n")
            self.process.stdin.flush()

    def let_go(self) -> dict[str, Any]:
        """It goes on; what it printed at its end."""
        if self.process.stdin:
            self.process.stdin.close()
            self.process.stdin = None  # communicate() would flush it
        return self.said()


Step = Callable[[Torch], tuple[str, str, bool]]
"""Gives what was expected and what was seen, in words, and whether they agree."""


def sees_its_share(torch: Torch) -> tuple[str, str, bool]:
    seen = torch.run(SHARE, "sight")
    good = (
        seen["devices"] == 1
        and seen["total"] == seen["property"] == 8 * GIB
        and 0 < seen["free"] < 8 * GIB
    )
    return (
        "1 card of 8.00 GiB",
        f"{seen['devices']} card of {gib(seen['total'])}, {gib(seen['free'])} free",
        good,
    )


def allocates(torch: Torch) -> tuple[str, str, bool]:
    seen = torch.run(SHARE, "memory")
    return (
        "1.00 GiB taken, and back",
        f"{gib(seen['taken'])}, {gib(seen['back'])}",
        seen["taken"] == seen["back"] == GIB,
    )


def is_refused_at_the_share(torch: Torch) -> tuple[str, str, bool]:
    return refused(torch.run(SHARE, "fill"))


def with_segments_that_expand(torch: Torch) -> tuple[str, str, bool]:
    return refused(
        torch.run(SHARE, "fill", environ={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"})
    )


def with_the_drivers_pools(torch: Torch) -> tuple[str, str, bool]:
    return refused(
        torch.run(SHARE, "fill", environ={"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}),
        pools=True,
    )


def refused(seen: dict[str, Any], pools: bool = False) -> tuple[str, str, bool]:
    """OutOfMemoryError within a gibibyte below the share, and everything given back. The pools'
    text has no figures."""
    told = "8.00 GiB" in seen["message"] or pools
    good = (
        7 * GIB <= seen["bytes"] < 8 * GIB
        and seen["free_after"] >= 7 * GIB
        and bool(seen["message"])
        and told
    )
    return (
        "OutOfMemoryError below 8.00 GiB",
        f"after {gib(seen['bytes'])}: {seen['message'][:150]}",
        good,
    )


def two_tenants_on_one_card(torch: Torch) -> tuple[str, str, bool]:
    """Each fills its own share while the other holds: neither sees the other's bytes."""
    small, large = ("--gpu", "0.3", "--memory", "8GiB"), ("--gpu", "0.6", "--memory", "30GiB")
    with (
        torch.waiting(small, "hold", str(4 * GIB)) as one,
        torch.waiting(large, "hold", str(20 * GIB)) as two,
    ):
        totals = [one.said()["total"], two.said()["total"]]
        more = [one.let_go()["more"], two.let_go()["more"]]
    good = (
        totals == [8 * GIB, 30 * GIB]
        and 3 * GIB <= more[0] < 4 * GIB
        and 9 * GIB <= more[1] < 10 * GIB
    )
    seen = f"{gib(totals[0])} and {gib(totals[1])}; {gib(more[0])} and {gib(more[1])} more"
    return "8.00 GiB with 4 held, 30.00 with 20", seen, good


def two_tenants_share_the_cards_time(torch: Torch) -> tuple[str, str, bool]:
    """Both launch without a pause for four seconds; what each got done in the middle of them. By
    the wall clock: the processors are shared too, so the bound is wide; the exact figures are those
    on the virtual clock.
    """
    claims = (("--gpu", "0.3", "--memory", "8GiB"), ("--gpu", "0.6", "--memory", "30GiB"))
    with torch.waiting(claims[0], "work", "4") as one, torch.waiting(claims[1], "work", "4") as two:
        for worker in (one, two):
            worker.said()
        for worker in (one, two):
            worker.go()
        done = [one.said()["kernels"], two.said()["kernels"]]
    ratio = done[1] / max(done[0], 1)
    return "kernels as 1 to 2", f"{done[0]} and {done[1]}: 1 to {ratio:.2f}", 1.6 <= ratio <= 2.4


def copies_are_exact(torch: Torch) -> tuple[str, str, bool]:
    seen = torch.run(SHARE, "copies")
    return (
        "plain, pinned, on the card",
        ", ".join(name for name, same in seen.items() if same),
        all(seen.values()),
    )


def streams_take_time(torch: Torch) -> tuple[str, str, bool]:
    seen = torch.run(SHARE, "streams")
    good = 0 < seen["milliseconds"] < 10_000 and seen["done"]
    return "200 kernels between two events", f"{seen['milliseconds']:.2f} ms", good


def graphs_replay(torch: Torch) -> tuple[str, str, bool]:
    seen = torch.run(SHARE, "graphs")
    good = seen["captured"] == 0 and seen["replayed"]
    return "copies at replay, not at capture", f"101 replays, {seen['seconds'] * 1000:.1f} ms", good


def trains(torch: Torch) -> tuple[str, str, bool]:
    seen = torch.run(SHARE, "training")
    return (
        "20 steps of autograd and SGD",
        f"gradient of {seen['gradient']}",
        seen["gradient"] == [100_000],
    )


def a_whole_card(torch: Torch) -> tuple[str, str, bool]:
    seen = torch.run(("--gpu", "1"), "sight")
    return "the card itself, no fence", f"{gib(seen['total'])}", seen["total"] > 40 * GIB


TABLE: tuple[Step, ...] = (
    sees_its_share, allocates, is_refused_at_the_share, with_segments_that_expand, with_the_drivers_pools,
    two_tenants_on_one_card, two_tenants_share_the_cards_time, copies_are_exact, streams_take_time, graphs_replay,
    trains, a_whole_card,
)  # fmt: skip


def gib(number: int) -> str:
    return f"{number / GIB:.2f} GiB"


def make_environment() -> Path:
    """Python with PyTorch in it. Fetches 5 GB the first time."""
    python = ENVIRONMENT / "bin" / "python"
    probe = [
        str(python),
        "-c",
        "import importlib.metadata as m; print('torch==' + m.version('torch').partition('+')[0])",
    ]
    if (
        python.exists()
        and subprocess.run(probe, capture_output=True, text=True).stdout.strip() == TORCH
    ):
        return python
    uv = subprocess.run(
        [sys.executable, "-I", "-S", ROOT / "tools/get_uv.py"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    print(f"{TORCH} into {ENVIRONMENT.relative_to(ROOT)}: 5 GB", file=sys.stderr)
    subprocess.run(
        [uv, "venv", "--quiet", "--clear", "--python", sys.executable, ENVIRONMENT], check=True
    )
    subprocess.run(
        [uv, "pip", "install", "--quiet", "--python", python, TORCH, "numpy"], check=True
    )
    return python


def attempt(step: Step, torch: Torch) -> Outcome:
    begin = time.monotonic()
    try:
        expected, seen, good = step(torch)
    except (CommandFailedError, ValueError, KeyError, IndexError) as error:
        expected, seen, good = "", " ".join(str(error).split())[-300:], False
    return Outcome(step.__name__.replace("_", " "), expected, seen, good, time.monotonic() - begin)


def page(outcomes: list[Outcome]) -> str:
    """The record: where, what, and each step."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True
    ).stdout
    today = datetime.datetime.now(datetime.UTC).date()
    lines = [
        f"# PyTorch on simulated cards, {today}",
        "",
        f"`make bench-torch` at {commit.strip()}: {TORCH} from PyPI (CUDA build, unmodified), simulated {SIM},",
        f"shares of `{' '.join(SHARE)}` unless said otherwise.",
        f"{os.cpu_count()} CPUs, Linux {platform.release()}, Python {platform.python_version()}.",
        "",
        "| step | expected | seen | s | |",
        "|---|---|---|---|---|",
    ]
    for o in outcomes:
        verdict = "holds" if o.good else "**failed**"
        lines.append(
            f"| {o.step} | {o.expected} | {o.seen.replace('|', '/')} | {o.seconds:.1f} | {verdict} |"
        )
    return "\n".join([*lines, ""])


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.torch_on_simulated", description=__doc__)
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the table there as well")
    parser.add_argument(
        "--only", metavar="WORD", default="", help="steps whose name has this in it"
    )
    asked = parser.parse_args(arguments)
    python = make_environment()
    outcomes = []
    with running_pool(SIM) as pool:
        for step in TABLE:
            if asked.only in step.__name__:
                outcomes.append(attempt(step, Torch(pool, python)))
                print(
                    f"{'ok  ' if outcomes[-1].good else 'FAIL'} {outcomes[-1].step}: {outcomes[-1].seen}",
                    file=sys.stderr,
                )
    print(page(outcomes))
    if asked.report:
        asked.report.write_text(page(outcomes), encoding="utf-8")
    return 0 if outcomes and all(outcome.good for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
