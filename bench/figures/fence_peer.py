"""Ours beside HAMi-core and beside no fence, on a simulated card: launches, memory, starts, shares
of time.

Every figure has two rows: the peer of one is the bare driver, of the other HAMi-core (`--` where
GPUPOOL_BENCH_HAMI names none). All sides run the same program on the same kind of card in the same
run.
"""

from __future__ import annotations

import contextlib
import itertools
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import gpupool_native
from bench import hami_peer
from bench.hami_peer import PeerMissingError
from bench.rows import Row
from gpupool.probes.simgpu import SimulatedMachine
from gpupool.probes.simgpu_file import SimulatedCard
from tests.support.fenced_card import Arbiter, Card, build_load
from tests.unit.native.fence_house import make_house
from tests.unit.native.fence_share import HERE

NAME = "fence-peer"
COMMAND = f"python -m bench {NAME}"
BARE, OURS, PEER = "no fence", "ours", "HAMi-core"
SIDES = (BARE, OURS, PEER)
Environment = dict[str, str]
MIB = 1 << 20

LAUNCHES, LAUNCH_RUNS = 20_000, 7
SHARES = (10, 30, 50, 70, 90)
SETTLE_SECONDS, WINDOW_SECONDS = 3.0, 4.0
LIMIT_BYTES = 4096 * MIB
RACERS, ROUNDS, PIECE_MIB, OUT_OF_MEMORY = 16, 4, 4, "2"
NEWCOMERS = (64, 256)
START_LIMIT_SECONDS = 40


@dataclass(frozen=True)
class Work:
    """What `fence_load` launches. Blocks grow with a kernel's time, since HAMi-core counts time in
    blocks."""

    name: str
    kernel: str
    sync_every: int
    way: str
    blocks: int

    def words(self, seconds: float) -> list[str]:
        return [self.kernel, str(seconds), "0", str(self.sync_every), self.way, str(self.blocks)]


BLOCKS_PER_US = 80
SMALL = Work("kernels of 50 us", "step_us_50", 100, "kernel", 50 * BLOCKS_PER_US)
GRAPHS = Work("graphs of ten such kernels", "step_us_50", 10, "graph", 50 * BLOCKS_PER_US)
LONG = Work("kernels of 20 ms", "step_ms_20", 2, "kernel", 20_000 * BLOCKS_PER_US)


def run(out: Path) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="gpupool-peer-") as name:
        bench = Bench(Path(name), _peer())
        with contextlib.closing(bench):
            return [
                *_launches(bench),
                *_memory(bench),
                *_shares(bench),
                *_two_tenants(bench),
                *_starts(bench),
            ]


def _peer() -> hami_peer.Peer | None:
    try:
        return hami_peer.find()
    except PeerMissingError as error:
        print(f"no peer: {error}", file=sys.stderr)
        return None


@dataclass
class Bench:
    """The programs, cards and shares of a run."""

    folder: Path
    peer: hami_peer.Peer | None
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.load = build_load(self.folder)
        self.storm = _build(self.folder, HERE / "fence_alloc_storm.c")
        self.fill = _build(self.folder, Path(__file__).parents[1] / "fill_card.c")
        self.arbiter = Arbiter()

    def close(self) -> None:
        self.arbiter.close()

    def sides(self) -> tuple[str, ...]:
        return SIDES if self.peer else SIDES[:2]

    def new(self) -> Path:
        folder = self.folder / str(next(self.numbers))
        folder.mkdir()
        return folder

    def tenant(self, side: str, card: Card, percent: int, sharing: str = "fixed") -> Environment:
        """A share of the card's time for one side; `burst` has no counterpart at HAMi-core."""
        number = next(self.numbers)
        if side == OURS:
            share = card.share(f"tenant{number}", percent * 10, sharing)
            self.arbiter.add(share)
            return share.environment
        if side == PEER:
            assert self.peer
            limit = percent % 100  # its word for the whole card is none
            return card.bare() | self.peer.environment(
                card.directory / f"cache{number}", percent=limit
            )
        return card.bare()

    def memory(self, side: str, bytes_: int) -> tuple[Environment, Path, SimulatedCard]:
        """A new card and a limit of memory on it; the machine's file to read what the card has
        given."""
        folder = self.new()
        house = make_house(folder)
        own = {
            "LD_LIBRARY_PATH": str(gpupool_native.simgpu_dir()),
            "GPUPOOL_SIMGPU": str(house.machine),
        }
        if side == OURS:
            own["LD_LIBRARY_PATH"] = str(house.share(bytes_, slots=1024) / "stand-in")
        elif side == PEER:
            assert self.peer
            own |= self.peer.environment(folder / "cache", memory_bytes=bytes_)
        return own, house.machine, house.cards[0]


def _build(folder: Path, source: Path) -> Path:
    """A program that is linked with the driver, as most are."""
    driver, program = gpupool_native.simgpu_dir() / "libcuda.so.1", folder / source.stem
    options = ["-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-lpthread"]
    subprocess.run(["cc", str(source), str(driver), *options, "-o", str(program)], check=True)
    return program


def _beside(figure: str, unit: str, found: Mapping[str, float | None], note: str = "") -> list[Row]:
    """Two rows; a side that could not be measured is None."""
    ours = found[OURS]
    if ours is None:
        raise RuntimeError(f"{figure}: ours was not measured")
    return [
        Row(
            f"{figure} | {side}",
            unit,
            ours,
            COMMAND,
            peer=found.get(side),
            peer_command=side,
            note=note,
        )
        for side in (BARE, PEER)
    ]


def _each(bench: Bench, figure: str, measure: Callable[[str], float]) -> dict[str, float | None]:
    """Every side in turn. Where HAMi-core fails, that is said and its figure unknown; elsewhere it
    is an error."""
    found: dict[str, float | None] = {}
    for side in bench.sides():
        try:
            found[side] = measure(side)
        except (RuntimeError, subprocess.SubprocessError) as error:
            if side != PEER:
                raise
            print(f"{figure}: {PEER}: {error}", file=sys.stderr)
            found[side] = None
    return found


# Launches and allocations: nanoseconds of one call --------------------------------------------------------


def _launches(bench: Bench) -> Iterator[Row]:
    """Without and with a limit on time, of which nobody here comes near: one block each, a card of
    its own."""
    for name, percent, sharing in (
        ("no limit on time", 100, "fixed"),
        ("a limit on time that does not bind", 90, "burst"),
    ):
        places = {
            side: bench.tenant(side, Card(bench.new()), percent, sharing) for side in bench.sides()
        }
        samples: dict[str, list[float]] = {side: [] for side in places}
        for _ in range(LAUNCH_RUNS):
            for side, environment in places.items():
                samples[side].append(_median_launch_ns(bench, environment))
        found: dict[str, float | None] = {
            side: statistics.median(each) for side, each in samples.items()
        }
        yield from _beside(f"a launch, {name}: median", "ns", found)
    pair = _each(bench, "allocation", lambda side: _pair_ns(bench, side))
    yield from _beside("cuMemAlloc and cuMemFree of 4 KiB below a limit: median", "ns", pair)


def _median_launch_ns(bench: Bench, environment: Environment) -> float:
    words = ["step_us_1", "0", str(LAUNCHES), "200", "kernel"]
    told = _output([bench.load, *words], environment)
    return float(told.split('"median_ns": ')[1].split(",")[0])


def _pair_ns(bench: Bench, side: str) -> float:
    environment, _, _ = bench.memory(side, LIMIT_BYTES)
    return statistics.median(
        float(_output([bench.storm, "pair", "20000"], environment)) for _ in range(3)
    )


def _output(command: Sequence[str | Path], environment: Environment) -> str:
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}: {done.stderr[-300:]}")
    return done.stdout


# Memory: what a card has given beyond the limit -----------------------------------------------------------


def _memory(bench: Bench) -> Iterator[Row]:
    """Every process takes what it gets and holds it, so the card's own count is exact; the worst of
    some rounds.

    The card has four times the limit. A limit that is kept leaves nothing over it, the contexts
    included: that is what a smaller card would do. The second row counts only what the programs
    asked for.
    """
    for name, ways in (
        ("cuMemAlloc alone", 1),
        ("also managed and cuMemCreate", 3),
        ("also arrays", 4),
    ):
        figure = f"memory, {RACERS} processes racing, {name}"
        asked: dict[str, float | None] = {}

        def measure(side: str, ways: int = ways, asked: dict[str, float | None] = asked) -> float:
            rounds = [_held(bench, side, ways) for _ in range(ROUNDS)]
            asked[side] = max(0.0, *(programs for _, programs in rounds))
            return max(0.0, *(whole for whole, _ in rounds))

        over = _each(bench, figure, measure)
        yield from _beside(f"{figure}: over the limit", "MiB", over)
        yield from _beside(f"{figure}: over it without contexts", "MiB", asked)


def _held(bench: Bench, side: str, ways: int) -> tuple[float, float]:
    """MiB beyond the limit when all hold what they got: on the card, and what the programs had
    asked for."""
    environment, machine, card = bench.memory(side, LIMIT_BYTES)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with _started(
        [str(bench.fill), str(PIECE_MIB), str(ways)], RACERS, environment, pipes
    ) as running:
        began = [_line(process) for process in running]
        for process in running:
            print(file=process.stdin, flush=True)
        told = [_line(process) for process in running]
        with SimulatedMachine(machine) as exact:
            whole = sum(use.memory_bytes for use in exact.list_processes(card.uuid))
    if any(line != ["0"] for line in began) or any(line[1:] != [OUT_OF_MEMORY] for line in told):
        raise RuntimeError(f"a program that fills the card said {began} and {told}")
    return (whole - LIMIT_BYTES) / MIB, (sum(int(line[0]) for line in told) - LIMIT_BYTES) / MIB


def _line(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout
    return process.stdout.readline().split()


@contextlib.contextmanager
def _started(
    words: Sequence[str], many: int, environment: Environment, pipes: Mapping[str, int]
) -> Iterator[list[subprocess.Popen[str]]]:
    """So many of a program; whatever still runs is killed at the end, or after
    START_LIMIT_SECONDS."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL} | dict(pipes)
    running: list[subprocess.Popen[str]] = [
        subprocess.Popen(words, env=environment, text=True, **quiet)  # type: ignore[call-overload]
        for _ in range(many)
    ]
    timer = threading.Timer(START_LIMIT_SECONDS, _kill, [running])
    timer.start()
    try:
        yield running
    finally:
        timer.cancel()
        _kill(running)
        for process in running:
            process.communicate()


def _kill(running: Sequence[subprocess.Popen[str]]) -> None:
    for process in running:
        if process.poll() is None:
            process.kill()


# Many programs that start at one moment -------------------------------------------------------------------


def _starts(bench: Bench) -> Iterator[Row]:
    for many in NEWCOMERS:
        slowest: dict[str, float | None] = {}

        def measure(
            side: str, many: int = many, slowest: dict[str, float | None] = slowest
        ) -> float:
            took = _init_seconds(bench, side, many)
            slowest[side] = max(took)
            return sum(took)

        found = _each(bench, f"{many} starts", measure)
        yield from _beside(f"{many} programs call cuInit at one moment, summed", "s", found)
        yield from _beside(f"{many} programs call cuInit at one moment, slowest", "s", slowest)


def _init_seconds(bench: Bench, side: str, many: int) -> list[float]:
    environment, _, _ = bench.memory(side, LIMIT_BYTES)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with _started([str(bench.storm), "init"], many, environment, pipes) as running:
        for process in running:
            print(file=process.stdin, flush=True)
        answers = [_line(process) for process in running]
    failed = [answer for answer in answers if not answer or answer[0] != "0"]
    if failed:
        raise RuntimeError(
            f"{len(failed)} of {many} did not initialise within {START_LIMIT_SECONDS} s: {failed[0]}"
        )
    return [int(answer[1]) / 1e9 for answer in answers]


# Shares of a card's time, by the card's own count ---------------------------------------------------------


def _shares(bench: Bench) -> Iterator[Row]:
    """One tenant with the card to itself and a fixed share. Ours and HAMi-core at once, each on a
    card of its own."""
    for work in (SMALL, GRAPHS, LONG):
        bare = _had(bench, [(Card(bench.new()), BARE, [100])], work)[0][0]
        errors: dict[str, list[float]] = {
            BARE: [abs(bare - percent) for percent in SHARES],
            OURS: [],
            PEER: [],
        }
        got = []
        for percent in SHARES:
            sides = bench.sides()[1:]
            had = _had(bench, [(Card(bench.new()), side, [percent]) for side in sides], work)
            for side, (part,) in zip(sides, had, strict=True):
                errors[side].append(abs(part - percent))
                got.append(f"{side} {percent}: {part:.1f}")
        note = f"percent had of percent asked: {', '.join(got)}; {BARE}: {bare:.1f}"
        print(f"{work.name}: {note}", file=sys.stderr)
        worst: dict[str, float | None] = {side: max(each) for side, each in errors.items() if each}
        mean: dict[str, float | None] = {
            side: statistics.mean(each) for side, each in errors.items() if each
        }
        yield from _beside(
            f"shares of 10-90 %, {work.name}: worst error over 4 s", "points", worst, note
        )
        yield from _beside(
            f"shares of 10-90 %, {work.name}: mean error over 4 s", "points", mean, note
        )


def _two_tenants(bench: Bench) -> Iterator[Row]:
    """25 and 75 % of one card, both wanting all of it."""
    for work in (SMALL, LONG):
        off: dict[str, float | None] = {}
        idle: dict[str, float | None] = {}
        told = []
        for side in bench.sides():
            small, large = _had(bench, [(Card(bench.new()), side, [25, 75])], work)[0]
            off[side] = 100 * abs(large / small / 3 - 1) if small else None
            idle[side] = max(0.0, 100 - small - large)
            told.append(f"{side}: {small:.1f} and {large:.1f}")
        note = "percent had: " + ", ".join(told)
        print(f"two tenants, {work.name}: {note}", file=sys.stderr)
        yield from _beside(f"two tenants 1:3, {work.name}: ratio off by", "%", off, note)
        yield from _beside(f"two tenants 1:3, {work.name}: card time nobody had", "%", idle, note)


def _had(
    bench: Bench, cards: Sequence[tuple[Card, str, Sequence[int]]], work: Work
) -> list[list[float]]:
    """For each card and each tenant on it: percent of the window in which the card ran its work,
    after settling."""
    words = [str(bench.load), *work.words(SETTLE_SECONDS + WINDOW_SECONDS + 1)]
    with contextlib.ExitStack() as stack:
        tenants = [
            [
                stack.enter_context(_started(words, 1, bench.tenant(side, card, percent), {}))[0]
                for percent in asked
            ]
            for card, side, asked in cards
        ]
        time.sleep(SETTLE_SECONDS)
        began, before = time.monotonic(), [_gpu_ns(card) for card, _, _ in cards]
        time.sleep(WINDOW_SECONDS)
        seconds, after = time.monotonic() - began, [_gpu_ns(card) for card, _, _ in cards]
        return [
            [
                (now.get(process.pid, 0) - then.get(process.pid, 0)) / seconds / 1e7
                for process in processes
            ]
            for processes, then, now in zip(tenants, before, after, strict=True)
        ]


def _gpu_ns(card: Card) -> dict[int, int]:
    with SimulatedMachine(card.machine) as machine:
        return {use.pid: use.gpu_ns for use in machine.list_processes(card.card.uuid)}
