"""For the fence's tests: the vendor's runtimes, started before a stand-in, and every look-up they
make."""

from __future__ import annotations

import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.unit.native.fence_build import HERE, StandIn, compile_library, locate
from tests.unit.native.front_pool import compiler

RUNTIMES = [  # and how many look-ups each was counted to make
    ("nvidia-cuda-runtime-cu12", "libcudart.so.12", 419),
    ("nvidia-cuda-runtime-cu12", "libcudart_static.a", 419),
    ("nvidia-cuda-runtime", "libcudart.so.13", 481),
    ("nvidia-cuda-runtime", "libcudart_static.a", 481),
]


@dataclass(frozen=True)
class LookUp:
    """What was asked ("base version flags"), whose function came, and which the driver itself would
    have given."""

    asked: str
    file: str
    symbol: str
    driver_file: str
    driver_symbol: str


@dataclass(frozen=True)
class Seen:
    """Every look-up of a start, in order, and what the runtime's first call returned."""

    lookups: Sequence[LookUp]
    result: int


def start_runtime(
    folder: Path,
    package: str,
    library: str,
    stand_in: StandIn,
    more: Mapping[str, str] | None = None,
) -> Seen:
    """Starts a program that makes the vendor's runtime initialise itself; `more` goes into its
    environment."""
    log = folder / "lookups"
    spy = compile_library(folder / "spy.so", [HERE / "fence_runtime_spy.c"], "-ldl")
    environment = {"LD_PRELOAD": str(spy), "SPY_LOG": str(log), "SPY_DRIVER": str(stand_in.driver)}
    environment["SPY_RUNTIME"] = "/libcudart.so" if ".so" in library else "/user"
    done = subprocess.run(
        runtime_user(folder, package, library),
        env=stand_in.environment | environment | (more or {}),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return Seen(
        [LookUp(*line.split("\t")) for line in log.read_text().splitlines()], int(done.stdout)
    )


def runtime_user(folder: Path, package: str, library: str) -> list[Path]:
    """A command that initialises the vendor's runtime: one that is loaded by path, or one that is
    inside."""
    path = locate.directory(package, "cuda_runtime_api.h").parent / "lib" / library
    user = folder / "user"
    command = [compiler(), str(HERE / "runtime_user.c"), "-o", str(user)]
    if path.suffix == ".a":
        others = sorted(map(str, path.parent.glob("libculibos.a")))  # of 12.x
        command += ["-DSTATIC_RUNTIME", str(path), *others, "-lpthread", "-lrt"]
    subprocess.run([*command, "-ldl"], check=True)
    return [user, path]


def wrong_answers(
    lookups: Sequence[LookUp], handled: Collection[str], stand_in: StandIn
) -> list[LookUp]:
    """Those that gave the driver's function where ours was due, or another than the driver's where
    it was not."""
    return [
        each
        for each in lookups
        if (stand_in.owner(each.file), each.symbol) != due(each, handled, stand_in)
    ]


def due(each: LookUp, handled: Collection[str], stand_in: StandIn) -> tuple[str, str]:
    owner = "stand-in" if each.driver_symbol in handled else stand_in.owner(each.driver_file)
    return owner, each.driver_symbol
