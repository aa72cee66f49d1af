"""Real processes on a simulated card, each below a share of its own, with a real gpupool-arbiter
between them.

No pool and no agent: the files of a share are made as the mechanism makes them, the stand-in is
filled for the simulated driver and found by LD_LIBRARY_PATH. For tests and benches of the fence's
compute side on the wall clock.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gpupool_native
from gpupool.mechanisms import regions
from gpupool.mechanisms.driver.standin import make_standin
from gpupool.probes.simgpu import SimulatedMachine, create_machine
from gpupool.probes.simulated import parse_sim
from tests.support.compute import REPOSITORY

LOAD = REPOSITORY / "tests/unit/native/fence_load.c"
QUICK_DRIVER = REPOSITORY / "tests/unit/native/fence_quick_driver.c"
DRIVER = "libcuda.so.1"


def build_load(directory: Path, source: Path = LOAD) -> Path:
    """The program that launches: see its head."""
    program = directory / source.stem
    options = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["cc", *options, "-o", program, source, "-ldl", "-lpthread"], check=True)
    return program


def build_quick_driver(directory: Path) -> Path:
    """A driver whose launches cost nothing: see its head. It names the simulated one by a path, the
    soname it links."""
    driver = directory / "quick" / DRIVER
    named, empty = driver.with_name("named.so"), driver.with_name("empty.c")
    driver.parent.mkdir()
    empty.touch()
    make = ["cc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    simulated = gpupool_native.simgpu_dir() / DRIVER
    subprocess.run([*make, empty, "-o", named, f"-Wl,-soname,{simulated}"], check=True)
    linked = ["-Wl,--no-as-needed", str(named), f"-Wl,-soname,{DRIVER}"]
    subprocess.run([*make, QUICK_DRIVER, "-o", driver, *linked], check=True)
    return driver


@dataclass(frozen=True)
class Share:
    """One allocation's directory on the card."""

    name: str
    base: Path
    environment: dict[str, str]
    limits: regions.ShareLimits

    def resize(self, gpu_milli: int) -> None:
        """As the agent does: the page is replaced in place. The arbiter sees it with its next
        decision."""
        device = replace(self.limits.devices[0], gpu_milli=gpu_milli)
        found = regions.read_limits(self.base / regions.LIMITS_FILE)
        limits = replace(self.limits, devices=(device,), generation=found.generation + 2)
        regions.write_limits(self.base / regions.LIMITS_FILE, limits)

    def usage(self) -> Any:
        return regions.read_usage(self.base / regions.USAGE_FILE, (self.limits.devices[0].uuid,))


class Arbiter:
    """A running gpupool-arbiter."""

    def __init__(self, program: Path | None = None) -> None:
        command = [program or gpupool_native.arbiter_path()]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            errors="replace",
        )
        self.events: list[list[str]] = []
        assert self.line()[0] == "ready"

    def line(self) -> list[str]:
        assert self.process.stdout
        text = self.process.stdout.readline()
        if not text:
            raise EOFError(f"the arbiter ended with {self.process.wait(10)}")
        return text.rstrip("\n").split("\t")

    def ask(self, *fields: object) -> list[list[str]]:
        """Every line up to the answer; events are kept."""
        assert self.process.stdin
        self.process.stdin.write("\t".join(map(str, fields)) + "\n")
        self.process.stdin.flush()
        lines = []
        while True:
            line = self.line()
            if line[0] == "event":
                self.events.append(line)
                continue
            lines.append(line)
            if line[0] in ("ok", "error"):
                return lines

    def await_event(self, *fields: str) -> list[str]:
        """The next event that begins with these fields."""
        while True:
            for event in self.events:
                if event[1 : 1 + len(fields)] == list(fields):
                    self.events.remove(event)
                    return event
            line = self.line()
            if line[0] == "event":
                self.events.append(line)

    def add(self, share: Share) -> None:
        answer = self.ask("add", share.name, share.base / "share", share.base / "usage")
        assert answer[-1] == ["ok", "add", share.name], answer

    def close(self) -> int:
        assert self.process.stdin
        self.process.stdin.close()
        return self.process.wait(10)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)


class Card:
    """One simulated card and the shares on it."""

    def __init__(self, directory: Path, model: str = "T4", driver: Path | None = None) -> None:
        self.directory = directory
        self.machine = directory / "machine"
        create_machine(self.machine, parse_sim(f"1x{model}")[0])
        with SimulatedMachine(self.machine) as machine:
            self.card = machine.cards[0]
        self.driver = driver or gpupool_native.simgpu_dir() / DRIVER

    def bare(self) -> dict[str, str]:
        """The environment of a program without a fence."""
        return {
            "PATH": os.environ["PATH"],
            "LD_LIBRARY_PATH": str(self.driver.parent),
            "GPUPOOL_SIMGPU": str(self.machine),
        }

    def share(self, name: str, gpu_milli: int, sharing: str = "fixed", **more: Any) -> Share:
        base = self.directory / name
        for folder in ("share", "usage"):
            (base / folder).mkdir(parents=True)
        device = regions.DeviceLimit(
            self.card.uuid,
            4 << 30,
            self.card.memory_bytes,
            0,
            gpu_milli=gpu_milli,
            sharing=sharing,
            **more,
        )
        limits = regions.ShareLimits(name, "job", "tenant", "soft", (device,), 2)
        regions.write_limits(base / regions.LIMITS_FILE, limits)
        regions.make_file(base / regions.GRANTS_FILE, regions.empty_grants())
        regions.make_file(
            base / regions.USAGE_FILE, regions.empty_usage(), size=regions.USAGE_FILE_BYTES
        )
        make_standin(
            gpupool_native.fence_dir() / DRIVER, self.driver, str(base), base / "lib" / DRIVER
        )
        return Share(name, base, self.bare() | {"LD_LIBRARY_PATH": str(base / "lib")}, limits)


@contextlib.contextmanager
def running(
    program: Path, share: Share | None, card: Card, *arguments: object
) -> Iterator[subprocess.Popen[str]]:
    """`fence_load` below a share, or bare; killed at the end if it still runs."""
    environment = share.environment if share else card.bare()
    process = subprocess.Popen(
        [program, *map(str, arguments)],
        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def finish(process: subprocess.Popen[str], seconds: float = 60) -> Any:
    """What it printed; AssertionError when it failed."""
    out, errors = process.communicate(timeout=seconds)
    assert process.returncode == 0, f"exit {process.returncode}: {errors}"
    return json.loads(out.splitlines()[-1])


def run_together(
    program: Path, card: Card, shares: Sequence[Share], *arguments: object, seconds: float = 60
) -> list[Any]:
    """The same load below each of the shares at once."""
    with contextlib.ExitStack() as stack:
        processes = [
            stack.enter_context(running(program, share, card, *arguments)) for share in shares
        ]
        return [finish(process, seconds) for process in processes]
