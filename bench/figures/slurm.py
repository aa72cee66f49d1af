"""Attached runs, single submissions and arrays beside Slurm's srun, sbatch and arrays, on one
machine in one run.

Both stand beside each other all the time and take turns (ours, Slurm, ours, Slurm, …), so that what
drifts on the machine drifts for both. Each has eight cards; a share is a tenth of one, for which
Slurm's word is a shard.
"""

import contextlib
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench import slurm_peer
from bench.pool import CommandFailedError, Pool, running_pool
from bench.rows import Row, median_row
from bench.slurm_peer import POLL_SECONDS, PeerMissingError, Slurm, Tuning, slurm_cluster
from gpupool.client import Pool as Client

NAME = "slurm"
SIM = "8xH200"
SHARE = ("--gpu", "0.1", "--memory", "1GiB")
QUEUE_LIMIT_SECONDS = 900.0
TWICE, FASTER = 2.0, 1.0


@dataclass(frozen=True)
class Sizes:
    """How much is measured. Submissions come in batches, after each of which the queue is left to
    empty."""

    runs: int = 30
    batches: int = 10
    batch: int = 10
    array: int = 1000
    rounds: int = 2


def run(out: Path) -> list[Row]:
    with running_pool(SIM) as pool, Client(pool.env["GPUPOOL_STATE_DIR"]) as client:
        return measure(Ours(pool, client), Sizes())


@dataclass(frozen=True)
class Ours:
    """Our part of every comparison."""

    pool: Pool
    client: Client

    def run(self) -> None:
        self.pool.gpupool("run", *SHARE, "--", "true")

    def submit(self) -> None:
        self.pool.gpupool("submit", *SHARE, "--", "true")

    def array(self, jobs: int) -> float:
        """Seconds from submitting an array until all its jobs have ended; fails if any did not end
        well."""
        began = time.perf_counter()
        name = self.pool.gpupool("submit", "--array", str(jobs), *SHARE, "--", "true").strip()
        self.drain()
        seconds = time.perf_counter() - began
        states = Counter(job.state for job in self.client.jobs(name=name, all=True))
        if states != Counter({"done": jobs}):
            raise CommandFailedError(f"of {jobs} jobs of the array {dict(states)}")
        return seconds

    def drain(self) -> None:
        """Wait until nothing lives, asking as often as Slurm's queue is asked."""
        await_empty(
            lambda: bool(
                self.client.api.request("GET", "jobs", query={"live": True, "limit": 1})["items"]
            )
        )


def await_empty(is_any_left: Callable[[], bool]) -> None:
    deadline = time.monotonic() + QUEUE_LIMIT_SECONDS
    while is_any_left():
        if time.monotonic() > deadline:
            raise CommandFailedError(f"jobs still live after {QUEUE_LIMIT_SECONDS:g} s")
        time.sleep(POLL_SECONDS)


def measure(ours: Ours, sizes: Sizes) -> list[Row]:
    ours.run()  # the first of a pool reads what the others find in memory
    rows: list[Row] = []
    with peer(Tuning.FAST) as slurm:
        rows += [run_row(ours, slurm, sizes), submit_row(ours, slurm, sizes)]
        rows += array_rows(ours, slurm, sizes, ("shard:1", "gpu:1"))
    with peer(Tuning.DEFAULT) as slurm:
        rows += (
            array_rows(ours, slurm, Sizes(array=sizes.array, rounds=1), ("shard:1",))
            if slurm
            else []
        )
    return rows


@contextlib.contextmanager
def peer(tuning: Tuning) -> Iterator[Slurm | None]:
    """A cluster, or None and the reason on stderr where there can be none."""
    with contextlib.ExitStack() as stack:
        try:
            slurm_peer.ensure_installed()
        except PeerMissingError as missing:
            print(f"no Slurm to compare with: {missing}", file=sys.stderr)
            yield None
            return
        workdir = stack.enter_context(tempfile.TemporaryDirectory(prefix="slurm-peer-"))
        yield stack.enter_context(slurm_cluster(Path(workdir), tuning=tuning))


def run_row(ours: Ours, slurm: Slurm | None, sizes: Sizes) -> Row:
    theirs = None if slurm is None else partial(slurm.srun, "--gres=gpu:1", "true")
    mine, peers = taking_turns(
        sizes.runs, timed(ours.run), None if theirs is None else timed(theirs)
    )
    return median_row(
        "run, attached, 0.1 of a card",
        f"gpupool run {' '.join(SHARE)} -- true",
        mine,
        peer_samples=peers,
        peer_command="srun --gres=gpu:1 true",
        limit_ratio=TWICE,
    )


def submit_row(ours: Ours, slurm: Slurm | None, sizes: Sizes) -> Row:
    """A sample is one batch; the figure is that of all of them together."""

    def empty() -> None:
        ours.drain()
        if slurm is not None:
            await_empty(lambda: slurm.unended() > 0)

    theirs = None if slurm is None else partial(slurm.sbatch, "--wrap=true")
    batches = (
        timed(ours.submit, sizes.batch),
        None if theirs is None else timed(theirs, sizes.batch),
    )
    mine, peers = taking_turns(sizes.batches, *batches, between=empty)
    return Row(
        f"{sizes.batches * sizes.batch} single submits",
        "s",
        sum(mine),
        f"gpupool submit {' '.join(SHARE)} -- true",
        sum(peers) if peers else None,
        "sbatch --wrap=true",
        limit_ratio=TWICE,
        samples=mine,
        peer_samples=peers,
        note=f"samples are batches of {sizes.batch}; the queue empties between them, outside the time",
    )


def array_rows(ours: Ours, slurm: Slurm | None, sizes: Sizes, kinds: tuple[str, ...]) -> list[Row]:
    """Ours beside an array of each kind. The kind that is our share's nearest relative is the one
    to beat."""
    rows = []
    for kind in kinds:
        theirs = None if slurm is None else partial(_array_seconds, slurm, sizes.array, kind)
        mine, peers = taking_turns(sizes.rounds, partial(ours.array, sizes.array), theirs)
        tuned = "" if slurm is None else f", {kind}, Slurm {slurm.tuning.name.lower()}"
        rows.append(
            median_row(
                f"array of {sizes.array} until all ended{tuned}",
                f"gpupool submit --array {sizes.array} {' '.join(SHARE)} -- true",
                mine,
                peer_samples=peers,
                peer_command=f"sbatch --array=1-{sizes.array} --gres={kind} --wrap=true",
                limit_ratio=FASTER,
            )
        )
        if slurm is None:
            break
    return rows


def _array_seconds(slurm: Slurm, jobs: int, kind: str) -> float:
    return slurm_peer.time_array(slurm, jobs, kind).total_seconds


def timed(action: Callable[[], object], times: int = 1) -> Callable[[], float]:
    def seconds() -> float:
        began = time.perf_counter()
        for _ in range(times):
            action()
        return time.perf_counter() - began

    return seconds


def taking_turns(
    rounds: int,
    ours: Callable[[], float],
    theirs: Callable[[], float] | None,
    between: Callable[[], None] = lambda: None,
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Seconds of each: ours, theirs, theirs, ours, ours, …, so that neither always comes after the
    other."""
    mine, peers = list[float](), list[float]()
    for number in range(rounds):
        turns = [(mine, ours)] if theirs is None else [(mine, ours), (peers, theirs)]
        for samples, action in turns if number % 2 == 0 else reversed(turns):
            samples.append(action())
            between()
    return tuple(mine), tuple(peers)
