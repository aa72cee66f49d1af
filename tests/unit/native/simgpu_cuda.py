"""The simulated driver for test programs: CUDA's driver API by ctypes, and programs run on a
machine of their own.

A program is Python text that is run in a process of its own, with this module's names: what it
asserts is the test.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import byref, c_char_p, c_float, c_size_t, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from gpupool.model.device import DeviceUsage
from gpupool.probes.simgpu import SimulatedMachine, create_machine
from gpupool.probes.simulated import parse_sim
from gpupool_native import simgpu_dir

ROOT = Path(__file__).parents[3]
LIBRARY = simgpu_dir() / "libcuda.so.1"
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
MS = 1_000_000
OUT_OF_MEMORY, NOT_READY, ILLEGAL_ADDRESS = 2, 600, 700
PTX = b"""
.version 8.0
.target sm_80
.address_size 64
// .entry in_a_comment() {}
.visible .global .align 4 .f32 table[16];
.visible .entry gpupool_spin_ns(.param .u64 ns)
{ .reg .b64 %rd<2>; ret; }
.visible .entry gpupool_fault() { ret; }
.visible .entry step_us_250() { ret; }
.visible .entry add(.param .u64 a, .param .u32 n, .param .align 8 .b8 box[24]) { ret; }
"""


class CudaError(Exception):
    """A call that did not answer CUDA_SUCCESS."""

    def __init__(self, name: str, code: int) -> None:
        super().__init__(f"{name}: {code}")
        self.code = code


class Cuda:
    """The driver in this process: `cu.code("MemFree_v2", p)` answers the result, `cu("MemFree_v2",
    p)` raises if it is not 0. Whole numbers go as 64 bits, which fits every integer parameter of
    this ABI.
    """

    def __init__(self, path: Path | str = LIBRARY) -> None:
        self.library = ctypes.CDLL(str(path))

    def code(self, name: str, *arguments: Any) -> int:
        passed = [c_uint64(a & (1 << 64) - 1) if isinstance(a, int) else a for a in arguments]
        answer: int = getattr(self.library, "cu" + name)(*passed)
        return answer

    def __call__(self, name: str, *arguments: Any) -> None:
        code = self.code(name, *arguments)
        if code:
            raise CudaError(name, code)

    def get(self, kind: Any, name: str, *arguments: Any) -> Any:
        """The value that a call gives through its first parameter."""
        value = kind()
        self(name, byref(value), *arguments)
        return value.value

    def start(self, device: int = 0) -> int:
        """cuInit and the device's primary context, made current; the context."""
        self("Init", 0)
        context: int = self.get(c_void_p, "DevicePrimaryCtxRetain", device)
        self("CtxSetCurrent", context)
        return context

    def memory(self) -> tuple[int, int]:
        free, total = c_size_t(), c_size_t()
        self("MemGetInfo_v2", byref(free), byref(total))
        return free.value, total.value

    def alloc(self, size: int) -> int:
        pointer: int = self.get(c_uint64, "MemAlloc_v2", size)
        return pointer

    def read(self, pointer: int, size: int) -> bytes:
        out = ctypes.create_string_buffer(size)
        self("MemcpyDtoH_v2", out, pointer, size)
        return out.raw

    def write(self, pointer: int, data: bytes) -> None:
        self("MemcpyHtoD_v2", pointer, c_char_p(data), len(data))

    def stream(self, flags: int = 1) -> int:
        stream: int = self.get(c_void_p, "StreamCreate", flags)
        return stream

    def event(self, flags: int = 0) -> int:
        event: int = self.get(c_void_p, "EventCreate", flags)
        return event

    def function(self, name: bytes, image: bytes = PTX) -> int:
        function: int = self.get(
            c_void_p, "ModuleGetFunction", self.get(c_void_p, "ModuleLoadData", image), name
        )
        return function

    def launch(
        self, function: int, stream: int = 0, grid: int = 1, block: int = 1, ns: int | None = None
    ) -> None:
        argument = c_uint64(ns or 0)
        places = (c_void_p * 1)(ctypes.addressof(argument))
        self(
            "LaunchKernel",
            function,
            grid,
            1,
            1,
            block,
            1,
            1,
            0,
            stream,
            None if ns is None else places,
            None,
        )

    def elapsed_ms(self, start: int, end: int) -> float:
        milliseconds: float = self.get(c_float, "EventElapsedTime", start, end)
        return milliseconds


PRELUDE = """
import ctypes, os, sys, threading, time
from ctypes import *
from tests.unit.native.simgpu_cuda import *
cu = Cuda()
"""


def make_machine(folder: Path, spec: str = "2xT4") -> Path:
    """A machine with simulated cards, in a folder of its own."""
    path = folder / "machine"
    create_machine(path, parse_sim(spec)[0])
    return path


def environment(machine: Path, **more: str) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("CUDA_", "GPUPOOL_SIMGPU"))
    }
    return (
        kept
        | {"GPUPOOL_SIMGPU": str(machine), "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
        | more
    )


def program(text: str) -> list[str]:
    return [sys.executable, "-c", PRELUDE + textwrap.dedent(text)]


def run(machine: Path, text: str, **more: str) -> str:
    """Run a program to its end; what it printed. Fails the test with what it said if it did not end
    well."""
    done = subprocess.run(
        program(text),
        env=environment(machine, **more),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    return done.stdout


@contextmanager
def running(machine: Path, text: str, **more: str) -> Iterator[subprocess.Popen[str]]:
    """A program that is told to go on by lines and says lines; killed at the end if it is still
    there."""
    process = subprocess.Popen(
        program(text),
        env=environment(machine, **more),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=20)


def hear(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


def tell(process: subprocess.Popen[str], line: str = "") -> None:
    assert process.stdin
    print(line, file=process.stdin, flush=True)


def used(machine: Path, card: int = 0) -> int:
    """Bytes that processes use on a card, as the machine says."""
    with SimulatedMachine(machine) as view:
        usage: DeviceUsage = view.read_usage(view.cards[card].uuid)
        return (
            sum(p.memory_bytes for p in view.list_processes(view.cards[card].uuid)) if usage else 0
        )
