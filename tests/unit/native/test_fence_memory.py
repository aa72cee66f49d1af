"""One limit over all ways to get a card's memory, held against what the simulated card really
gave."""

from __future__ import annotations

import struct
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpupool_native
from gpupool.mechanisms import regions
from gpupool.mechanisms.driver.standin import make_standin
from tests.unit.native.fence_house import (
    CONTEXT,
    DEVICE_UNAVAILABLE,
    INVALID_VALUE,
    LIMIT,
    MIB,
    OUT_OF_MEMORY,
    ROOM,
    SUCCESS,
    House,
    Program,
    make_house,
)
from tests.unit.native.front_pool import compiler


@pytest.fixture
def program(house: House, share: Path) -> Program:
    made = house.program(share)
    assert made.start() == SUCCESS
    return made


def allocation_properties(device: int = 0, *, shareable: bool = False) -> tuple[str, str]:
    """CUmemAllocationProp of pinned memory."""
    return "bytes", struct.pack("<iiiiQQ", 1, int(shareable), 1, device, 0, 0).hex()


def pool_properties(device: int = 0) -> tuple[str, str]:
    return "bytes", struct.pack("<iiiiQQ56x", 1, 0, 1, device, 0, 0).hex()


def made(answer: list[int]) -> int:
    """The handle; the call must have worked."""
    assert answer[0] == SUCCESS
    return answer[1]


# Each way: bytes that a call of `size` takes, and the call that gives (result, handle); then the
# one that gives back.
Way = tuple[Callable[[Program, int], list[int]], Callable[[Program, int, int], int]]


def create_mapped(program: Program, size: int) -> list[int]:
    result, handle = program.call(
        "cuMemCreate", ("out", 0), ("u64", size), allocation_properties(), ("u64", 0)
    )
    if result:
        return [result, 0]
    address = made(
        program.call(
            "cuMemAddressReserve", ("out", 0), ("u64", size), ("u64", 0), ("u64", 0), ("u64", 0)
        )
    )
    assert program.call(
        "cuMemMap", ("u64", address), ("u64", size), ("u64", 0), ("u64", handle), ("u64", 0)
    ) == [0]
    assert program.call("cuMemRelease", ("u64", handle)) == [0]  # the mapping keeps it
    return [result, address]


def unmap(program: Program, address: int, size: int) -> int:
    return int(program.call("cuMemUnmap", ("u64", address), ("u64", size))[0])


def from_pool(program: Program, size: int) -> list[int]:
    return program.call("cuMemAllocAsync", ("out", 0), ("u64", size), ("u64", 0))


def to_pool(program: Program, pointer: int, _size: int) -> int:
    result = program.call("cuMemFreeAsync", ("u64", pointer), ("u64", 0))[0]
    pool = made(program.call("cuDeviceGetDefaultMemPool", ("out", 0), ("u32", 0)))
    program.call("cuCtxSynchronize")
    return int(result or program.call("cuMemPoolTrimTo", ("u64", pool), ("u64", 0))[0])


def freed(program: Program, pointer: int, _size: int) -> int:
    return program.free(pointer)


def array(program: Program, size: int) -> list[int]:
    return program.call(
        "cuArrayCreate_v2",
        ("out", 0),
        ("bytes", struct.pack("<QQII", 1024, size >> 12, 0x20, 1).hex()),
    )


def array_3d(program: Program, size: int) -> list[int]:
    wanted = struct.pack("<QQQIIII", 1024, 64, size >> 18, 0x03, 1, 0, 0)
    return program.call("cuArray3DCreate_v2", ("out", 0), ("bytes", wanted.hex()))


def array_gone(program: Program, handle: int, _size: int) -> int:
    return int(program.call("cuArrayDestroy", ("u64", handle))[0])


WAYS: dict[str, Way] = {
    "cuMemAlloc_v2": (lambda p, size: list(p.allocate(size)), freed),
    "cuMemAllocManaged": (
        lambda p, n: p.call("cuMemAllocManaged", ("out", 0), ("u64", n), ("u32", 1)),
        freed,
    ),
    "cuMemAllocPitch_v2": (
        lambda p, n: p.call(
            "cuMemAllocPitch_v2",
            ("out", 0),
            ("out", 0),
            ("u64", 4096),
            ("u64", n >> 12),
            ("u32", 4),
        ),
        freed,
    ),
    "cuMemCreate": (create_mapped, unmap),
    "cuMemAllocAsync": (from_pool, to_pool),
    "cuArrayCreate_v2": (array, array_gone),
    "cuArray3DCreate_v2": (array_3d, array_gone),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_every_way_to_get_memory_is_charged_refused_at_the_limit_and_given_back(
    way: Way, house: House, share: Path, program: Program
) -> None:
    allocate, give_back = way
    size = 512 * MIB
    result, handle = allocate(program, size)[:2]
    assert result == SUCCESS
    assert house.used(share).reserved_bytes == CONTEXT + size == house.truth()
    assert allocate(program, size)[0] == OUT_OF_MEMORY
    assert house.used(share).refusals == 1
    assert house.used(share).reserved_bytes == CONTEXT + size == house.truth()
    assert give_back(program, handle, size) == SUCCESS
    assert house.used(share).reserved_bytes == CONTEXT == house.truth()
    assert allocate(program, size)[0] == SUCCESS


ODD_ARRAYS = [  # width, height, depth, format, channels, flags, levels
    (1000, 513, 0, 0x01, 1, 0, 0),
    (1000, 513, 0, 0x02, 2, 0, 0),
    (77, 5, 33, 0x10, 4, 0, 0),
    (1 << 15, 0, 0, 0x20, 1, 0, 0),
    (1000, 300, 0, 0x20, 4, 0, 5),
    (64, 64, 64, 0x20, 4, 0, 7),
    (256, 256, 6, 0x20, 4, 4, 9),
    (256, 256, 12, 0x20, 4, 1, 9),
]


@pytest.mark.parametrize("shape", ODD_ARRAYS)
def test_arrays_of_any_shape_are_charged_for_what_the_card_gives(
    shape: tuple[int, ...], house: House, share: Path, program: Program
) -> None:
    *extents, levels = shape
    wanted = ("bytes", struct.pack("<QQQIII4x", *extents).hex())
    if levels:
        array = made(program.call("cuMipmappedArrayCreate", ("out", 0), wanted, ("u32", levels)))
    else:
        array = made(program.call("cuArray3DCreate_v2", ("out", 0), wanted))
    assert house.used(share).reserved_bytes == house.truth() > CONTEXT
    destroy = "cuMipmappedArrayDestroy" if levels else "cuArrayDestroy"
    assert program.call(destroy, ("u64", array)) == [SUCCESS]
    assert house.used(share).reserved_bytes == house.truth() == CONTEXT


def test_the_forms_of_cuda_2_and_the_per_thread_twins_are_charged_too(
    house: House, share: Path, program: Program
) -> None:
    old = made(program.call("cuMemAlloc", ("out", 0), ("u32", 3 * MIB)))
    assert house.used(share).reserved_bytes == house.truth() == CONTEXT + 4 * MIB
    assert program.call("cuMemFree", ("u32", old)) == [SUCCESS]
    twin = made(program.call("cuMemAllocAsync_ptsz", ("out", 0), ("u64", 6 * MIB), ("u64", 0)))
    assert house.used(share).reserved_bytes == house.truth() == CONTEXT + 6 * MIB
    assert program.call("cuMemFreeAsync_ptsz", ("u64", twin), ("u64", 0)) == [SUCCESS]
    assert program.call("cuStreamSynchronize_ptsz", ("u64", 0)) == [SUCCESS]
    assert house.used(share).reserved_bytes == house.truth() == CONTEXT


def test_the_last_byte_of_the_share_can_be_had_and_not_one_more(
    house: House, share: Path, program: Program
) -> None:
    assert program.allocate(ROOM)[0] == SUCCESS
    assert program.info() == (0, LIMIT)
    assert program.allocate(1)[0] == OUT_OF_MEMORY
    assert house.truth() == LIMIT == house.used(share).reserved_bytes


def test_the_share_is_what_the_card_seems_to_be(
    house: House, share: Path, program: Program
) -> None:
    assert program.call("cuDeviceTotalMem_v2", ("out", 0), ("u32", 0)) == [SUCCESS, LIMIT]
    assert program.call("cuDeviceTotalMem", ("out", 0), ("u32", 0)) == [SUCCESS, LIMIT]
    assert program.info() == (ROOM, LIMIT)
    bare = house.program(None)
    assert bare.start() == SUCCESS
    free, total = bare.info()
    assert total > LIMIT
    assert free > ROOM


def test_two_processes_have_one_limit_together(house: House, share: Path, program: Program) -> None:
    other = house.program(share)
    assert program.allocate(ROOM - CONTEXT - 100 * MIB)[0] == SUCCESS
    assert other.start() == SUCCESS
    assert other.info() == (100 * MIB, LIMIT)
    assert other.allocate(101 * MIB)[0] == OUT_OF_MEMORY
    assert other.allocate(100 * MIB)[0] == SUCCESS
    assert program.allocate(1)[0] == OUT_OF_MEMORY
    assert house.truth() == LIMIT


def test_a_context_needs_its_room_too(house: House) -> None:
    tight = house.program(house.share(CONTEXT - 1))
    assert tight.call("cuInit", ("u32", 0)) == [SUCCESS]
    assert tight.call("cuDevicePrimaryCtxRetain", ("out", 0), ("u32", 0))[0] == OUT_OF_MEMORY
    assert tight.call("cuCtxCreate_v2", ("out", 0), ("u32", 0), ("u32", 0))[0] == OUT_OF_MEMORY
    assert house.truth() == 0


def test_what_is_in_a_context_ends_with_it(house: House, share: Path, program: Program) -> None:
    assert program.allocate(100 * MIB)[0] == SUCCESS
    context = made(program.call("cuCtxCreate_v2", ("out", 0), ("u32", 0), ("u32", 0)))
    assert program.allocate(200 * MIB)[0] == SUCCESS
    assert house.used(share).contexts == 2
    assert program.call("cuCtxDestroy_v2", ("u64", context)) == [SUCCESS]
    assert house.used(share).contexts == 1
    assert house.used(share).reserved_bytes == CONTEXT + 100 * MIB
    assert program.call("cuDevicePrimaryCtxReset_v2", ("u32", 0)) == [SUCCESS]
    assert house.used(share).reserved_bytes <= CONTEXT
    assert house.truth() == house.used(share).reserved_bytes


def test_physical_memory_lives_until_its_last_handle_and_mapping(
    house: House, share: Path, program: Program
) -> None:
    size = 64 * MIB
    handle = made(
        program.call("cuMemCreate", ("out", 0), ("u64", size), allocation_properties(), ("u64", 0))
    )
    range_ = made(
        program.call(
            "cuMemAddressReserve", ("out", 0), ("u64", 2 * size), ("u64", 0), ("u64", 0), ("u64", 0)
        )
    )
    for address in (range_, range_ + size):
        mapped = program.call(
            "cuMemMap", ("u64", address), ("u64", size), ("u64", 0), ("u64", handle), ("u64", 0)
        )
        assert mapped == [SUCCESS]
    again = made(program.call("cuMemRetainAllocationHandle", ("out", 0), ("u64", range_ + size)))
    assert program.call("cuMemRelease", ("u64", handle)) == [SUCCESS]
    assert program.call("cuMemUnmap", ("u64", range_), ("u64", size)) == [SUCCESS]
    assert program.call("cuMemUnmap", ("u64", range_ + size), ("u64", size)) == [SUCCESS]
    assert house.used(share).reserved_bytes == CONTEXT + size == house.truth()
    assert program.call("cuMemRelease", ("u64", again)) == [SUCCESS]
    assert house.used(share).reserved_bytes == CONTEXT == house.truth()


def test_two_mappings_end_to_end_are_unmapped_at_once(
    house: House, share: Path, program: Program
) -> None:
    size = 4 * MIB
    range_ = made(
        program.call(
            "cuMemAddressReserve", ("out", 0), ("u64", 2 * size), ("u64", 0), ("u64", 0), ("u64", 0)
        )
    )
    for address in (range_, range_ + size):
        handle = made(
            program.call(
                "cuMemCreate", ("out", 0), ("u64", size), allocation_properties(), ("u64", 0)
            )
        )
        program.call(
            "cuMemMap", ("u64", address), ("u64", size), ("u64", 0), ("u64", handle), ("u64", 0)
        )
        program.call("cuMemRelease", ("u64", handle))
    assert house.used(share).reserved_bytes == CONTEXT + 2 * size
    assert program.call("cuMemUnmap", ("u64", range_), ("u64", 2 * size)) == [SUCCESS]
    assert house.used(share).reserved_bytes == CONTEXT == house.truth()


def test_memory_of_the_host_costs_the_share_nothing(
    house: House, share: Path, program: Program
) -> None:
    assert program.call("cuMemHostAlloc", ("out", 0), ("u64", 8 * MIB), ("u32", 0))[0] == SUCCESS
    assert program.call("cuMemAllocHost_v2", ("out", 0), ("u64", 8 * MIB))[0] == SUCCESS
    assert house.used(share).reserved_bytes == CONTEXT == house.truth()


def test_a_pool_is_charged_for_what_it_keeps_and_gives_it_up_when_others_need_it(
    house: House, share: Path, program: Program
) -> None:
    pool = made(program.call("cuMemPoolCreate", ("out", 0), pool_properties()))
    for_ever = ("bytes", struct.pack("<Q", (1 << 64) - 1).hex())
    assert program.call("cuMemPoolSetAttribute", ("u64", pool), ("u32", 4), for_ever) == [SUCCESS]
    pointer = made(
        program.call(
            "cuMemAllocFromPoolAsync", ("out", 0), ("u64", 600 * MIB), ("u64", pool), ("u64", 0)
        )
    )
    assert house.used(share).reserved_bytes == house.truth()
    assert program.call("cuMemFreeAsync", ("u64", pointer), ("u64", 0)) == [SUCCESS]
    assert program.call("cuCtxSynchronize") == [SUCCESS]
    assert house.used(share).reserved_bytes == house.truth() >= CONTEXT + 600 * MIB  # kept
    assert program.allocate(ROOM)[0] == SUCCESS  # the pool's memory made room
    assert house.used(share).reserved_bytes == house.truth() == LIMIT


@pytest.mark.parametrize("wait", ["context", "stream", "event"])
def test_a_pool_is_charged_no_longer_for_what_it_gives_up_at_a_wait(
    wait: str, house: House, share: Path, program: Program
) -> None:
    stream = made(program.call("cuStreamCreate", ("out", 0), ("u32", 1)))
    event = made(program.call("cuEventCreate", ("out", 0), ("u32", 0)))
    pointer = made(program.call("cuMemAllocAsync", ("out", 0), ("u64", 64 * MIB), ("u64", stream)))
    assert program.call("cuMemFreeAsync", ("u64", pointer), ("u64", stream)) == [SUCCESS]
    assert program.call("cuEventRecord", ("u64", event), ("u64", stream)) == [SUCCESS]
    waits: dict[str, list[Any]] = {
        "context": ["cuCtxSynchronize"],
        "stream": ["cuStreamSynchronize", ("u64", stream)],
        "event": ["cuEventSynchronize", ("u64", event)],
    }
    assert program.call(*waits[wait]) == [SUCCESS]
    assert house.used(share).reserved_bytes == CONTEXT == house.truth()


def test_a_destroyed_pool_lives_on_in_its_last_allocation(
    house: House, share: Path, program: Program
) -> None:
    pool = made(program.call("cuMemPoolCreate", ("out", 0), pool_properties()))
    pointer = made(
        program.call(
            "cuMemAllocFromPoolAsync", ("out", 0), ("u64", 64 * MIB), ("u64", pool), ("u64", 0)
        )
    )
    assert program.call("cuMemPoolDestroy", ("u64", pool)) == [SUCCESS]
    assert house.used(share).reserved_bytes == house.truth() == CONTEXT + 64 * MIB
    assert program.free(pointer) == SUCCESS
    program.call("cuCtxSynchronize")
    assert house.used(share).reserved_bytes == house.truth() == CONTEXT


def graph_with_memory(program: Program, size: int) -> tuple[int, int]:
    """(stream, graph) of an allocation and its free, captured."""
    stream = made(program.call("cuStreamCreate", ("out", 0), ("u32", 1)))
    assert program.call("cuStreamBeginCapture_v2", ("u64", stream), ("u32", 0)) == [SUCCESS]
    pointer = made(program.call("cuMemAllocAsync", ("out", 0), ("u64", size), ("u64", stream)))
    assert program.call("cuMemFreeAsync", ("u64", pointer), ("u64", stream)) == [SUCCESS]
    return stream, made(program.call("cuStreamEndCapture", ("u64", stream), ("out", 0)))


def test_a_graphs_memory_nodes_are_charged_with_the_executable_graph(
    house: House, share: Path, program: Program
) -> None:
    stream, graph = graph_with_memory(program, 300 * MIB)
    assert house.used(share).reserved_bytes == CONTEXT
    executable = made(
        program.call("cuGraphInstantiateWithFlags", ("out", 0), ("u64", graph), ("u64", 0))
    )
    assert program.call("cuGraphLaunch", ("u64", executable), ("u64", stream)) == [SUCCESS]
    assert program.call("cuStreamSynchronize", ("u64", stream)) == [SUCCESS]
    assert house.used(share).reserved_bytes == CONTEXT + 300 * MIB >= house.truth()
    assert program.allocate(ROOM - 299 * MIB)[0] == OUT_OF_MEMORY
    assert program.call("cuGraphExecDestroy", ("u64", executable)) == [SUCCESS]
    assert program.call("cuDeviceGraphMemTrim", ("u32", 0)) == [SUCCESS]
    assert house.used(share).reserved_bytes == CONTEXT == house.truth()


def test_a_graph_that_needs_more_than_the_share_cannot_be_instantiated(
    house: House, share: Path, program: Program
) -> None:
    _, graph = graph_with_memory(program, LIMIT)
    assert (
        program.call("cuGraphInstantiateWithFlags", ("out", 0), ("u64", graph), ("u64", 0))[0]
        == OUT_OF_MEMORY
    )
    assert house.used(share).reserved_bytes == CONTEXT == house.truth()


def test_memory_opened_from_another_process_is_charged_to_its_exporter(
    house: House, share: Path
) -> None:
    exporter, importer = house.program(share), house.program(share)
    assert exporter.start() == importer.start() == SUCCESS
    pointer = made(list(exporter.allocate(100 * MIB)))
    result, handle = exporter.call("cuIpcGetMemHandle", ("fill", 64), ("u64", pointer))
    assert result == SUCCESS
    before = house.used(share).reserved_bytes
    opened = made(importer.call("cuIpcOpenMemHandle_v2", ("out", 0), ("value", handle), ("u32", 1)))
    assert house.used(share).reserved_bytes == before == 2 * CONTEXT + 100 * MIB == house.truth()
    assert house.used(share).imported_bytes == 100 * MIB
    assert importer.call("cuIpcCloseMemHandle", ("u64", opened)) == [SUCCESS]
    assert house.used(share).imported_bytes == 0
    assert house.used(share).reserved_bytes == before == house.truth()


def test_memory_whose_exporter_has_ended_counts_until_it_is_closed(
    house: House, share: Path
) -> None:
    exporter, importer = house.program(share), house.program(share)
    assert exporter.start() == importer.start() == SUCCESS
    pointer = made(list(exporter.allocate(600 * MIB)))
    _, handle = exporter.call("cuIpcGetMemHandle", ("fill", 64), ("u64", pointer))
    opened = made(importer.call("cuIpcOpenMemHandle_v2", ("out", 0), ("value", handle), ("u32", 1)))
    exporter.close()
    assert importer.allocate(ROOM - 500 * MIB)[0] == OUT_OF_MEMORY
    made(list(importer.allocate(ROOM - 600 * MIB)))
    assert importer.call("cuIpcCloseMemHandle", ("u64", opened)) == [SUCCESS]
    made(list(importer.allocate(500 * MIB)))


def reentrant_driver(folder: Path) -> Path:
    """A driver whose managed allocation calls its own cuMemAlloc_v2 by name, and is otherwise the
    simulated one."""
    real, driver = gpupool_native.simgpu_dir() / "libcuda.so.1", folder / "driver" / "libcuda.so.1"
    driver.parent.mkdir()
    source, stub, empty = folder / "reentrant.c", folder / "stub.so", folder / "empty.c"
    source.write_text(
        "#include <stddef.h>\nint cuMemAlloc_v2(unsigned long long *, size_t);\n"
        "int cuMemAllocManaged(unsigned long long *p, size_t n, unsigned f) { return f ? cuMemAlloc_v2(p, n) : 1; }\n"
    )
    empty.write_text("")
    shared = [compiler(), "-shared", "-fPIC"]
    subprocess.run([*shared, str(empty), f"-Wl,-soname,{real}", "-o", str(stub)], check=True)
    needs = ["-Wl,--no-as-needed", str(stub), "-Wl,-soname,libcuda.so.1"]
    subprocess.run([*shared, str(source), *needs, "-o", str(driver)], check=True)
    return driver


def test_a_driver_that_calls_itself_by_name_is_charged_once(house: House, share: Path) -> None:
    stand_in = share / "stand-in" / "libcuda.so.1"
    make_standin(
        gpupool_native.fence_dir() / "libcuda.so.1",
        reentrant_driver(house.folder),
        str(share),
        stand_in,
    )
    program = house.program(share)
    assert program.start() == SUCCESS
    pointer = made(program.call("cuMemAllocManaged", ("out", 0), ("u64", 100 * MIB), ("u32", 1)))
    assert house.used(share).reserved_bytes == CONTEXT + 100 * MIB == house.truth()
    assert program.allocate(2 * MIB)[0] == SUCCESS
    assert program.free(pointer) == SUCCESS
    assert house.used(share).reserved_bytes == CONTEXT + 2 * MIB == house.truth()


def test_a_limit_that_changes_holds_at_once_both_ways(
    house: House, share: Path, program: Program
) -> None:
    result, pointer = program.allocate(600 * MIB)
    assert result == SUCCESS
    house.resize(share, 512 * MIB)
    assert program.info() == (0, 512 * MIB)  # nothing is taken away, nothing more is given
    assert program.allocate(1)[0] == OUT_OF_MEMORY
    house.resize(share, 2048 * MIB)
    assert program.info() == (2048 * MIB - CONTEXT - 600 * MIB, 2048 * MIB)
    assert program.allocate(1024 * MIB)[0] == SUCCESS
    assert program.free(pointer) == SUCCESS


def test_what_only_the_card_knows_of_is_in_the_share_too(
    house: House, share: Path, program: Program
) -> None:
    regions.write_overhead(share / regions.LIMITS_FILE, 0, 100 * MIB)
    assert program.info() == (ROOM - 100 * MIB, LIMIT)
    assert program.allocate(ROOM - 98 * MIB)[0] == OUT_OF_MEMORY
    assert program.allocate(ROOM - 100 * MIB)[0] == SUCCESS
    regions.write_overhead(share / regions.LIMITS_FILE, 0, 0)
    assert program.allocate(100 * MIB)[0] == SUCCESS


def test_a_card_outside_of_the_share_gives_no_context_and_keeps_its_place(house: House) -> None:
    program = house.program(house.share(0, LIMIT))
    assert program.call("cuInit", ("u32", 0)) == [SUCCESS]
    assert program.call("cuDevicePrimaryCtxRetain", ("out", 0), ("u32", 0))[0] == DEVICE_UNAVAILABLE
    assert (
        program.call("cuCtxCreate_v2", ("out", 0), ("u32", 0), ("u32", 0))[0] == DEVICE_UNAVAILABLE
    )
    assert program.start(device=1) == SUCCESS
    assert program.info() == (ROOM, LIMIT)
    properties = allocation_properties(0)
    assert (
        program.call("cuMemCreate", ("out", 0), ("u64", 2 * MIB), properties, ("u64", 0))[0]
        == DEVICE_UNAVAILABLE
    )


def test_each_card_has_a_limit_of_its_own_whatever_order_the_program_sees_them_in(
    house: House,
) -> None:
    share = house.share(LIMIT, LIMIT // 2)
    program = house.program(share, CUDA_VISIBLE_DEVICES="1,0")
    assert program.start(device=0) == SUCCESS
    assert program.info()[1] == LIMIT // 2
    assert program.allocate(LIMIT // 2)[0] == OUT_OF_MEMORY
    assert program.start(device=1) == SUCCESS
    assert program.allocate(ROOM)[0] == SUCCESS
    assert house.truth(0) == LIMIT
    assert house.truth(1) == CONTEXT


def test_a_free_of_what_is_nobodys_is_the_drivers_to_refuse(
    house: House, share: Path, program: Program
) -> None:
    result, pointer = program.allocate(10 * MIB)
    assert result == SUCCESS
    assert program.free(0x1234000) == INVALID_VALUE
    assert program.free(pointer) == SUCCESS
    assert program.free(pointer) == INVALID_VALUE
    assert house.used(share).reserved_bytes == CONTEXT == house.truth()


def test_sizes_nobody_can_have_are_refused_and_leave_nothing(
    house: House, share: Path, program: Program
) -> None:
    for size in (LIMIT + 1, 1 << 40, 1 << 63, (1 << 64) - 1):
        assert program.allocate(size)[0] == OUT_OF_MEMORY
    assert program.allocate(0)[0] == INVALID_VALUE
    huge = [("out", 0), ("out", 0), ("u64", 1 << 40), ("u64", 1 << 40), ("u32", 4)]
    assert program.call("cuMemAllocPitch_v2", *huge)[0] == OUT_OF_MEMORY
    assert house.used(share).reserved_bytes == CONTEXT == house.truth()


def test_what_a_killed_process_held_is_free_for_the_next_that_asks(
    house: House, share: Path
) -> None:
    first, second = house.program(share), house.program(share)
    assert first.start() == SUCCESS
    assert first.allocate(ROOM - CONTEXT)[0] == SUCCESS
    assert second.start() == SUCCESS
    assert second.allocate(100 * MIB)[0] == OUT_OF_MEMORY
    first.running.kill()
    first.running.wait()
    assert second.allocate(100 * MIB)[0] == SUCCESS
    assert house.used(share).reserved_bytes == CONTEXT + 100 * MIB == house.truth()


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(sorted(WAYS)), st.integers(1, 300), st.integers(0, 2), st.booleans()
        ),
        max_size=25,
    )
)
@settings(max_examples=12, deadline=None)
def test_any_sequence_of_calls_keeps_the_ledger_at_what_the_card_gave(
    steps: list[tuple[str, int, int, bool]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        house = make_house(Path(folder))
        try:
            keeps_to_the_truth(house, house.share(LIMIT), steps)
        finally:
            house.close()


def keeps_to_the_truth(house: House, share: Path, steps: list[tuple[str, int, int, bool]]) -> None:
    programs = [house.program(share) for _ in range(3)]
    assert [program.start() for program in programs] == [SUCCESS] * 3
    held: list[tuple[Program, str, int, int]] = []
    for name, size, who, gives_back in steps:
        if gives_back and held:
            program, old, handle, bytes_ = held.pop(size % len(held))
            assert WAYS[old][1](program, handle, bytes_) == SUCCESS
        else:
            bytes_ = size * 2 * MIB
            fits = house.used(share).reserved_bytes + bytes_ <= LIMIT
            result, handle = WAYS[name][0](programs[who], bytes_)[:2]
            assert result == (SUCCESS if fits else OUT_OF_MEMORY)
            if fits:
                held.append((programs[who], name, handle, bytes_))
        assert house.used(share).reserved_bytes == house.truth() <= LIMIT
        assert house.used(share).reserved_bytes == 3 * CONTEXT + sum(each[3] for each in held)
