"""For the fence's tests: a simulated machine, shares on it, and programs under the fence, a call at
a time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import gpupool_native
from gpupool.mechanisms import regions
from gpupool.mechanisms.driver.standin import make_standin
from gpupool.probes.simgpu import SimulatedMachine, create_machine
from gpupool.probes.simgpu_file import SimulatedCard
from gpupool.probes.simulated import parse_sim
from tests.unit.native.fence_share import LIMITS, make_share

SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, NOT_INITIALIZED = 0, 1, 2, 3
DEVICE_UNAVAILABLE, INVALID_CONTEXT, NOT_READY = 46, 201, 802
WORKER = Path(__file__).with_name("fence_worker.py")
MIB = 1 << 20
LIMIT = 1024 * MIB
CONTEXT = 120 * MIB
"""Of the simulated T4."""
ROOM = LIMIT - CONTEXT
LIBRARIES = ("libcuda.so.1", "libnvidia-ml.so.1")


@dataclass
class House:
    """A simulated machine and the shares on it."""

    folder: Path
    cards: tuple[SimulatedCard, ...]
    programs: list[Program] = field(default_factory=list)

    @property
    def machine(self) -> Path:
        return self.folder / "machine"

    def share(
        self,
        *memory_bytes: int,
        name: str = "share",
        slots: int = 64,
        context_bytes: int | None = None,
    ) -> Path:
        """Its base directory: so much of each card (0: not in the share), the stand-ins beside."""
        base = self.folder / name
        devices = tuple(
            regions.DeviceLimit(
                card.uuid,
                memory,
                card.memory_bytes,
                context_bytes=card.context_bytes if context_bytes is None else context_bytes,
            )
            for card, memory in zip(self.cards, memory_bytes, strict=False)
            if memory
        )
        make_share(base, replace(LIMITS, devices=devices, slots=slots))
        for library in LIBRARIES:
            driver = gpupool_native.simgpu_dir() / library
            make_standin(
                gpupool_native.fence_dir() / library, driver, str(base), base / "stand-in" / library
            )
        return base

    def resize(self, base: Path, memory_bytes: int) -> None:
        limits = regions.read_limits(base / regions.LIMITS_FILE)
        devices = [replace(device, memory_bytes=memory_bytes) for device in limits.devices]
        regions.write_limits(base / regions.LIMITS_FILE, regions.build_next_page(limits, devices))

    def program(self, base: Path | None, **environment: str) -> Program:
        """Runs until the test ends. Without `base`: on the bare card."""
        self.programs.append(Program(self.machine, base, environment))
        return self.programs[-1]

    def usage(self, base: Path) -> regions.FenceUsage:
        uuids = [device.uuid for device in regions.read_limits(base / regions.LIMITS_FILE).devices]
        return regions.read_usage(base / regions.USAGE_FILE, uuids)

    def used(self, base: Path, card: int = 0) -> regions.FenceDeviceUsage:
        """What the ledger says of a card, all processes together."""
        return self.usage(base).sum_totals()[self.cards[card].uuid]

    def truth(self, card: int = 0) -> int:
        """Bytes that the card has really given."""
        with SimulatedMachine(self.machine) as machine:
            return sum(use.memory_bytes for use in machine.list_processes(self.cards[card].uuid))

    def close(self) -> None:
        for program in self.programs:
            program.close()


class Program:
    """A process that makes driver calls one at a time; under the share's stand-in, or on the bare
    card."""

    def __init__(self, machine: Path, base: Path | None, environment: Mapping[str, str]) -> None:
        folder = gpupool_native.simgpu_dir() if base is None else base / "stand-in"
        own = {
            "PATH": os.environ["PATH"],
            "LD_LIBRARY_PATH": str(folder),
            "GPUPOOL_SIMGPU": str(machine),
        }
        self.running = subprocess.Popen(
            [sys.executable, str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=own | dict(environment),
        )

    @property
    def pid(self) -> int:
        return self.running.pid

    def close(self) -> None:
        if self.running.poll() is None:
            self.running.kill()
            self.running.communicate()

    def end(self) -> str:
        """Lets it end by itself and gives what it wrote to stderr."""
        return self.running.communicate(timeout=20)[1]

    def call(self, name: str, *arguments: tuple[str, object]) -> list[Any]:
        """[CUresult, outs...]; fails when the program died."""
        assert self.running.stdin is not None
        assert self.running.stdout is not None
        self.running.stdin.write(json.dumps([name, *arguments]) + "\n")
        self.running.stdin.flush()
        answer = self.running.stdout.readline()
        assert answer, f"{name}: the program died: {self.end()}"
        return list(json.loads(answer))

    def start(self, device: int = 0) -> int:
        """cuInit and the primary context; the first thing that failed."""
        failed = int(self.call("cuInit", ("u32", 0))[0])
        if failed:
            return failed
        failed, context = self.call("cuDevicePrimaryCtxRetain", ("out", 0), ("u32", device))
        return int(failed or self.call("cuCtxSetCurrent", ("u64", context))[0])

    def allocate(self, size: int) -> tuple[int, int]:
        result, pointer = self.call("cuMemAlloc_v2", ("out", 0), ("u64", size))
        return result, pointer

    def free(self, pointer: int) -> int:
        return int(self.call("cuMemFree_v2", ("u64", pointer))[0])

    def info(self) -> tuple[int, int]:
        """(free, total)"""
        result, free, total = self.call("cuMemGetInfo_v2", ("out", 0), ("out", 0))
        assert result == SUCCESS
        return free, total


def make_house(folder: Path, preset: str = "2xT4") -> House:
    create_machine(folder / "machine", parse_sim(preset)[0])
    with SimulatedMachine(folder / "machine") as machine:
        return House(folder, tuple(machine.cards))
