"""What a share is charged while handles, streams and contexts end before the memory and the work
behind them."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.support.supervised import until
from tests.unit.native.fence_house import CONTEXT, MIB, SUCCESS, House, Program

KERNEL_MS = 60
"""Far more than an unknown launch is charged until it was measured."""
KERNEL = f"step_ms_{KERNEL_MS}"
PTX = f".version 8.0\n.target sm_70\n.address_size 64\n.visible .entry {KERNEL}()\n{{\nret;\n}}\n\0"
ON_CARD = struct.pack("<iiiiQQ", 1, 0, 1, 0, 0, 0)
"""CUmemAllocationProp of pinned memory of device 0."""


@pytest.fixture
def program(house: House, share: Path) -> Program:
    made = house.program(share)
    assert made.start() == SUCCESS
    return made


def make(program: Program, name: str, *arguments: tuple[str, object]) -> int:
    """The handle that the call gives; it must work."""
    result, handle = program.call(name, ("out", 0), *arguments)
    assert result == SUCCESS
    return int(handle)


def map_memory(program: Program, size: int) -> int:
    """An address at which memory is mapped that has no handle any more."""
    handle = make(program, "cuMemCreate", ("u64", size), ("bytes", ON_CARD.hex()), ("u64", 0))
    at = make(program, "cuMemAddressReserve", *[("u64", n) for n in (size, 0, 0, 0)])
    assert program.call("cuMemMap", *[("u64", n) for n in (at, size, 0, handle, 0)]) == [SUCCESS]
    assert program.call("cuMemRelease", ("u64", handle)) == [SUCCESS]
    return at


@pytest.mark.parametrize("offset", [0, 4096, 64 * MIB - 1])
def test_a_handle_retained_by_any_mapped_address_keeps_its_memory_charged(
    house: House, share: Path, program: Program, offset: int
) -> None:
    size = 64 * MIB
    address = map_memory(program, size)
    retained = make(program, "cuMemRetainAllocationHandle", ("u64", address + offset))
    assert program.call("cuMemUnmap", ("u64", address), ("u64", size)) == [SUCCESS]
    assert house.used(share).reserved_bytes == CONTEXT + size == house.truth()
    assert program.call("cuMemRelease", ("u64", retained)) == [SUCCESS]
    assert house.used(share).reserved_bytes == CONTEXT == house.truth()


def launch(program: Program) -> None:
    module = make(program, "cuModuleLoadData", ("bytes", PTX.encode().hex()))
    name = f"{KERNEL}\0".encode().hex()
    function = make(program, "cuModuleGetFunction", ("u64", module), ("bytes", name))
    shape = [("u32", 1)] * 6
    nothing = [("u64", 0)] * 3
    launched = program.call("cuLaunchKernel", ("u64", function), *shape, ("u32", 0), *nothing)
    assert launched == [SUCCESS]


def measure_gpu_ms(house: House, share: Path) -> float:
    """GPU time of all that was launched and is over, once it is settled."""
    until(lambda: not house.used(share).inflight_ns, "the settlement")
    return house.used(share).gpu_ns / 1e6


def test_work_is_measured_across_a_release_that_is_not_the_last(
    house: House, share: Path, program: Program
) -> None:
    make(program, "cuDevicePrimaryCtxRetain", ("u32", 0))
    launch(program)
    assert program.call("cuDevicePrimaryCtxRelease_v2", ("u32", 0)) == [SUCCESS]
    assert program.call("cuCtxSynchronize") == [SUCCESS]
    assert measure_gpu_ms(house, share) == pytest.approx(KERNEL_MS, rel=0.1)


@pytest.mark.parametrize("end", ["cuCtxDestroy_v2", "cuDevicePrimaryCtxReset_v2"])
def test_work_that_a_context_is_destroyed_with_is_charged_until_its_end(
    house: House, share: Path, program: Program, end: str
) -> None:
    named: tuple[str, object] = ("u32", 0)
    if end == "cuCtxDestroy_v2":
        named = ("u64", make(program, "cuCtxCreate_v2", ("u32", 0), ("u32", 0)))
    launch(program)
    assert program.call(end, named) == [SUCCESS]
    assert measure_gpu_ms(house, share) >= KERNEL_MS * 0.9


def test_the_last_release_ends_the_charge_of_the_context(
    house: House, share: Path, program: Program
) -> None:
    make(program, "cuDevicePrimaryCtxRetain", ("u32", 0))
    for held in (CONTEXT, 0):
        assert program.call("cuDevicePrimaryCtxRelease_v2", ("u32", 0)) == [SUCCESS]
        assert house.used(share).reserved_bytes == held == house.truth()
