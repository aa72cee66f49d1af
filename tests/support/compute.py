"""Compute sharing on virtual time: builds the discrete-event program, runs scenarios, reads off
what the card did.

`tests/unit/native/fence_compute_sim.c` drives limiter.c, arbitrate.c and the simulated card's
engine.c; its head says how a scenario is written. Used by the tests that assert the promised
figures and by the bench that prints them.
"""

from __future__ import annotations

import itertools
import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpupool.mechanisms.arbiter import ShareStatus

REPOSITORY = Path(__file__).parents[2]
NATIVE = REPOSITORY / "native"
SIMULATION = REPOSITORY / "tests/unit/native/fence_compute_sim.c"
PURE = ("limiter", "limiter_predict", "limiter_batch", "timeline", "gpu_clock")
INCLUDES = ("", "include", "fence/src", "arbiter", "simgpu/model")

SMALL = "k20us"
SPREAD = "k5us*20,k20us*20,k100us*5"
GRAPHS = "g3ms"
LONG = "k20ms"
MIXED = "k20us*200,g3ms,k5us*50,k20ms,s"
WORK: Mapping[str, str] = {
    "kernels of 20 us": SMALL,
    "kernels of 5-100 us": SPREAD,
    "graphs of 3 ms": GRAPHS,
}
LONG_WORK: Mapping[str, str] = {"kernels of 20 ms": LONG, "all of these": MIXED}


def pure_sources() -> list[Path]:
    """The shipped files that know no process, CUDA or clock."""
    return [
        *(NATIVE / f"fence/src/limiter/{name}.c" for name in PURE),
        *(NATIVE / f"arbiter/decision/{name}.c" for name in ("arbitrate", "ungranted")),
    ]


def compile_c(
    program: Path,
    sources: Sequence[Path],
    *,
    sanitize: str | None = None,
    extra: Sequence[str | Path] = (),
) -> Path:
    """Compiles `sources` with the shipped headers in reach; warnings are errors."""
    command: list[str | Path] = [
        "cc",
        "-std=gnu11",
        "-O2",
        "-g",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-D_GNU_SOURCE",
    ]
    command += [f"-I{NATIVE / each}" for each in INCLUDES]
    command += [f"-fsanitize={sanitize}", "-fno-sanitize-recover=all"] if sanitize else []
    subprocess.run([*command, "-o", program, *sources, *extra], check=True, timeout=120)
    return program


def simulation_name(sanitize: str | None = None) -> str:
    """The file name of the discrete-event program."""
    return f"fence_compute_sim-{(sanitize or 'plain').replace(',', '-')}"


def build_simulation(directory: Path, sanitize: str | None = None) -> Path:
    """The discrete-event program, in `directory`."""
    engine = sorted((NATIVE / "simgpu/model/engine").glob("*.c"))
    name = simulation_name(sanitize)
    return compile_c(directory / name, [SIMULATION, *pure_sources(), *engine], sanitize=sanitize)


@dataclass(frozen=True)
class Tenant:
    """One allocation of a scenario. Shares are parts of 1."""

    name: str
    share: float = 0.0
    sharing: str = "fixed"
    work: str = SMALL
    options: str = ""

    def line(self) -> str:
        return (
            f"tenant {self.name} milli={round(self.share * 1000)} sharing={self.sharing} "
            f"work={self.work} {self.options}".rstrip()
        )


@dataclass(frozen=True)
class Outcome:
    """What each tenant really had of the card, and what the arbiter said of it; times are
    milliseconds since the beginning.
    """

    sample_ms: int
    used_ns: Mapping[str, Sequence[int]]
    counted_ns: Mapping[str, int]
    longest_wait_ns: Mapping[str, int]
    borrowed_ns: Mapping[str, int]
    denied_ns: Mapping[str, int]
    said: Mapping[str, Sequence[ShareStatus]]
    messages: int
    arbitrations: int
    records: int
    launches: int

    @property
    def end_ms(self) -> int:
        return (min(len(used) for used in self.used_ns.values()) - 1) * self.sample_ms

    def share(self, name: str, begin_ms: int = 0, end_ms: int | None = None) -> float:
        """Part of the card in [begin_ms, end_ms)."""
        end_ms = self.end_ms if end_ms is None else end_ms
        used = self.used_ns[name]
        return (used[end_ms // self.sample_ms] - used[begin_ms // self.sample_ms]) / (
            (end_ms - begin_ms) * 1e6
        )

    def shares(
        self, name: str, window_ms: int, begin_ms: int = 0, end_ms: int | None = None
    ) -> list[float]:
        """Of every window of that length, a sample apart."""
        last = (self.end_ms if end_ms is None else end_ms) - window_ms
        return [
            self.share(name, at, at + window_ms) for at in range(begin_ms, last + 1, self.sample_ms)
        ]

    def worst_error(
        self, name: str, wanted: float, window_ms: int, begin_ms: int = 0, end_ms: int | None = None
    ) -> float:
        """Largest distance from `wanted` over all windows, in points (hundredths of the card)."""
        return 100 * max(
            abs(share - wanted) for share in self.shares(name, window_ms, begin_ms, end_ms)
        )

    def first_use_ms(self, name: str, since_ms: int, share: float) -> int:
        """How long after `since_ms` it has had `share` of a sample for the first time."""
        for at in itertools.count(since_ms, self.sample_ms):
            if self.share(name, at, at + self.sample_ms) >= share:
                return at + self.sample_ms - since_ms
        raise AssertionError("unreachable")


def simulate(
    program: Path,
    tenants: Iterable[Tenant],
    seconds: float,
    orders: Iterable[str] = (),
    setup: str = "",
) -> Outcome:
    """Runs one scenario; `orders` are lines `at MS ...`."""
    lines = [setup, *(tenant.line() for tenant in tenants), *orders, f"run {seconds * 1000}"]
    text = "".join(f"{line}\n" for line in lines if line)
    done = subprocess.run(
        [program], input=text, capture_output=True, text=True, timeout=240, check=False
    )
    if done.returncode != 0:
        raise AssertionError(f"exit {done.returncode}\n{text}\n{done.stderr}")
    said = json.loads(done.stdout)
    return Outcome(
        sample_ms=said["sample_ms"],
        used_ns={name: each["used_ns"] for name, each in said["tenants"].items()},
        counted_ns={name: each["counted_ns"] for name, each in said["tenants"].items()},
        longest_wait_ns={name: each["longest_wait_ns"] for name, each in said["tenants"].items()},
        borrowed_ns={name: each["borrowed_ns"] for name, each in said["tenants"].items()},
        denied_ns={name: each["denied_ns"] for name, each in said["tenants"].items()},
        said={
            name: [ShareStatus(name, 0, *one) for one in each["said"]]
            for name, each in said["tenants"].items()
        },
        **{name: said[name] for name in ("messages", "arbitrations", "records", "launches")},
    )


def jain(values: Sequence[float]) -> float:
    """Jain's index of fairness: 1 when all are equal, 1/n when one has all (Jain, Chiu, Hawe
    1984)."""
    return sum(values) ** 2 / (len(values) * sum(value * value for value in values))
