"""The fence's memory: nothing over the limit in races, exact ledgers after kills, and how long 256
processes wait."""

import contextlib
import dataclasses
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import gpupool_native
from bench.rows import Row
from gpupool.mechanisms.driver.standin import make_standin
from gpupool.probes.simgpu import SimulatedMachine, create_machine
from gpupool.probes.simulated import parse_sim
from tests.unit.native.fence_house import House, make_house
from tests.unit.native.fence_share import HERE, STEPS, compile_storm, usage_file
from tests.unit.native.front_pool import ROOT, compiler

NAME = "fence-memory"
COMMAND = f"python -m bench {NAME}"
LEDGER_LIMIT = 1_000_003
RACERS, KILLS, KILLED, NEWCOMERS = 16, 1000, 64, 256
MIB = 1 << 20


def run(out: Path) -> list[Row]:
    """Every bench compiles its programs first; the rows with limit 0 count what must not happen."""
    with tempfile.TemporaryDirectory(prefix="gpupool-fence-") as name:
        folder = Path(name)
        storm = compile_storm(folder)
        program = _program(folder / "alloc-storm")
        return [
            *_race(storm, folder / "race"),
            *_kills(storm, folder / "kills"),
            *_slots(storm, folder / "slots"),
            *_programs_race(program, folder / "programs"),
            *_init(program, folder / "init-64", 64),
            *_init(program, folder / "init", NEWCOMERS),
            _pair(program, folder / "pair"),
            *(_sanitized(folder, sanitizer) for sanitizer in ("thread", "address")),
        ]


def _numbers(*command: object) -> list[int]:
    done = subprocess.run(
        [*map(str, command)], text=True, stdout=subprocess.PIPE, timeout=300, check=False
    )
    return [int(word) for word in done.stdout.split()]


def _race(storm: Path, region: Path) -> list[Row]:
    granted, refused, racing, undecided, most, over = _numbers(
        storm, "race", usage_file(region), RACERS, 5000, LEDGER_LIMIT
    )
    note = f"{granted} granted, {refused} refused, {racing} tries again, most held {most} of {LEDGER_LIMIT}"
    return [
        Row(
            f"fence: bytes over the limit, {RACERS} processes racing",
            "B",
            over,
            COMMAND,
            limit=0,
            note=note,
        ),
        Row("fence: reservations refused that nobody had decided", "", undecided, COMMAND, limit=0),
    ]


def _kills(storm: Path, region: Path) -> list[Row]:
    kills, rounds, steps, slowest_us, wrong = _numbers(
        storm, "kill", usage_file(region), KILLED, KILLS, 1_000_000
    )
    note = f"{kills} kills of {KILLED} processes in {rounds} rounds, at {steps} of {STEPS} steps"
    return [
        Row("fence: entries that were wrong after kills", "", wrong, COMMAND, limit=0, note=note),
        Row("fence: steps at which nobody was killed", "", STEPS - steps, COMMAND, limit=0),
        Row(
            "fence: ledger exact after the last kill",
            "s",
            slowest_us / 1e6,
            COMMAND,
            limit=0.1,
            note="slowest round",
        ),
    ]


def _slots(storm: Path, region: Path) -> list[Row]:
    registered, total_us, slowest_us = _numbers(storm, "init", usage_file(region), NEWCOMERS)
    figure = f"fence: {registered} processes take a slot at one moment, summed"
    note = f"there is no lock; slowest {slowest_us} us"
    return [Row(figure, "s", total_us / 1e6, COMMAND, limit=2.0, note=note)]


# Whole programs under the stand-in ------------------------------------------------------------------------


def _program(target: Path, *options: str) -> Path:
    source, driver = HERE / "fence_alloc_storm.c", gpupool_native.simgpu_dir() / "libcuda.so.1"
    command = [
        compiler(),
        "-std=gnu11",
        "-D_GNU_SOURCE",
        "-O1",
        "-g",
        str(source),
        str(driver),
        "-lpthread",
        *options,
    ]
    subprocess.run([*command, "-o", str(target)], check=True)
    return target


@contextlib.contextmanager
def _house(folder: Path) -> Iterator[House]:
    folder.mkdir()
    house = make_house(folder)
    yield house
    house.close()


def _environment(house: House, base: Path | None) -> dict[str, str]:
    libraries = gpupool_native.simgpu_dir() if base is None else base / "stand-in"
    return {
        "LD_LIBRARY_PATH": str(libraries),
        "GPUPOOL_SIMGPU": str(house.machine),
        "TSAN_OPTIONS": "die_after_fork=0",
        "ASAN_OPTIONS": "detect_leaks=0",
    }


def _programs_race(program: Path, folder: Path) -> list[Row]:
    """On a card that has not a byte more than the share: were too much granted once, the driver
    itself would refuse.

    All ways to get memory but pools, which the driver may fill in larger steps than it was asked
    for.
    """
    folder.mkdir()
    limit = 4096 * MIB
    machine = parse_sim("1xT4")[0]
    cards = tuple(dataclasses.replace(card, memory_bytes=limit) for card in machine.devices)
    create_machine(folder / "machine", dataclasses.replace(machine, devices=cards))
    with SimulatedMachine(folder / "machine") as made:
        house = House(folder, tuple(made.cards))
    base = house.share(limit)
    command = [str(program), "5", "1", "0", "64", "4"]
    running = [
        subprocess.Popen(command, env=_environment(house, base), text=True, stdout=subprocess.PIPE)
        for _ in range(RACERS)
    ]
    told = [process.communicate()[0].split() for process in running]
    refused_at_start = sum(not words for words in told)
    seen = sum(int(words[1]) for words in told if words) + refused_at_start
    by_the_fence = house.used(base).refusals
    granted = sum(int(words[0]) for words in told if words)
    return [
        Row(
            f"fence: {RACERS} programs on a card as small as their share, refusals that were the driver's",
            "",
            seen - by_the_fence,
            COMMAND,
            limit=0,
            note=f"{granted} allocations, {by_the_fence} refused by the fence",
        ),
        Row(
            "fence: bytes in the ledger after all have ended",
            "B",
            _left(house, base),
            COMMAND,
            limit=0,
        ),
    ]


def _left(house: House, base: Path) -> int:
    """After somebody looked, since the last to end was cleared by nobody yet."""
    looker = house.program(base)
    looker.start()
    own = house.cards[0].context_bytes
    free, total = looker.info()
    left = total - free - own
    house.close()
    return left


def _init(program: Path, folder: Path, programs: int) -> list[Row]:
    """Seconds that pass depend on whatever else runs on the machine; processor time says what the
    fence adds."""
    with _house(folder) as house:
        base = house.share(1 << 30, slots=1024)
        _init_times(program, _environment(house, base), programs)  # the page cache is warm for both
        found = [
            _init_times(program, _environment(house, where), programs) for where in (base, None)
        ]
    (fenced, fenced_cpu), (bare, bare_cpu) = (tuple(zip(*times, strict=True)) for times in found)
    note = f"sum of {programs} cuInit at one moment on {os.cpu_count()} cores; slowest {max(fenced) / 1e6:.1f} ms"
    figure = f"fence: {programs} programs initialise at one moment, summed"
    own = f"fence: processor time of one cuInit of {programs} at one moment, median"
    return [
        Row(
            *(own, "us", statistics.median(fenced_cpu) / 1e3, COMMAND),
            peer=statistics.median(bare_cpu) / 1e3,
            peer_command="the same without a fence",
        ),
        Row(
            *(figure, "s", sum(fenced) / 1e9, COMMAND),
            peer=sum(bare) / 1e9,
            peer_command="the same without a fence",
            note=note,
            samples=tuple(ns / 1e9 for ns in sorted(fenced)),
        ),
    ]


def _init_times(
    program: Path, environment: Mapping[str, str], programs: int
) -> list[tuple[int, int]]:
    """Of each program the time that cuInit took and its processor time, ns."""
    running = [
        subprocess.Popen(
            [str(program), "init"],
            env=environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in range(programs)
    ]
    for process in running:
        print(file=process.stdin, flush=True)
    answers = [process.stdout.readline().split() for process in running if process.stdout]
    for process in running:
        process.communicate("\n")
    failed = [answer for answer in answers if answer[0] != "0"]
    if failed:
        raise RuntimeError(f"{len(failed)} of {programs} could not initialise: {failed[0]}")
    return [(int(answer[1]), int(answer[2])) for answer in answers]


def _pair(program: Path, folder: Path) -> Row:
    with _house(folder) as house:
        base = house.share(1 << 30)
        medians = [
            int(
                subprocess.run(
                    [str(program), "pair", "20000"],
                    env=_environment(house, where),
                    text=True,
                    stdout=subprocess.PIPE,
                    check=True,
                ).stdout
            )
            for where in (base, None)
        ]
    fenced, bare = (nanoseconds / 1e9 for nanoseconds in medians)
    figure = "fence: cuMemAlloc and cuMemFree of 4 KiB, simulated driver, median"
    return Row(figure, "s", fenced, COMMAND, peer=bare, peer_command="the same without a fence")


# The sanitizers on the whole stand-in ---------------------------------------------------------------------


def _sanitized(folder: Path, sanitizer: str) -> Row:
    """Threads, forks and spawned programs for some seconds; a report or a wrong answer is one fault
    at least."""
    template = _sanitized_template(folder / sanitizer, sanitizer)
    program = _program(folder / f"storm-{sanitizer}", f"-fsanitize={sanitizer}")
    with _house(folder / f"house-{sanitizer}") as house:
        base = house.share(1 << 30)
        driver = gpupool_native.simgpu_dir() / "libcuda.so.1"
        make_standin(template, driver, str(base), base / "stand-in" / "libcuda.so.1")
        done = subprocess.run(
            [str(program), "5", "6", "20"],
            env=_environment(house, base),
            text=True,
            capture_output=True,
            timeout=120,
            check=False,
        )
    reports = done.stderr.count("SUMMARY:") + (done.returncode != 0)
    if reports:
        print(done.stderr[:4000], file=sys.stderr)
    figure = f"fence: faults under -fsanitize={sanitizer}, 6 threads, 20 children"
    return Row(
        figure, "", reports, COMMAND, limit=0, note=done.stdout.strip().replace("\n", "; ")[-60:]
    )


def _sanitized_template(build: Path, sanitizer: str) -> Path:
    configure = [
        "cmake",
        "-S",
        str(ROOT / "native"),
        "-B",
        str(build),
        f"-DCMAKE_C_FLAGS=-fsanitize={sanitizer} -g",
    ]
    for command in (
        [*configure, f"-DGPUPOOL_HEADERS_PYTHON={sys.executable}"],
        ["cmake", "--build", str(build), "-j2", "--target", "fence_cuda"],
    ):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return build / "fence" / "lib" / "libcuda.so.1"
