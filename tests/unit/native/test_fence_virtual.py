"""What NVML shows inside of a share: the share's cards, memory and processes, as the card's own
driver would."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.native.fence_house import MIB, SUCCESS, House, Program, make_house

LIMIT = 1024 * MIB
CONTEXT = 120 * MIB
NOT_FOUND, INVALID_ARGUMENT, NO_PERMISSION, INSUFFICIENT_SIZE = 6, 2, 4, 7


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = make_house(tmp_path, "4xL40S")
    yield made
    made.close()


def watcher(house: House, base: Path | None) -> Program:
    """A tool that only looks."""
    program = house.program(base)
    assert program.call("nvmlInit_v2") == [SUCCESS]
    return program


def handle(program: Program, index: int) -> int:
    result, found = program.call("nvmlDeviceGetHandleByIndex_v2", ("u32", index), ("out", 0))
    assert result == SUCCESS
    return int(found)


def uuid(program: Program, device: int) -> str:
    result, text = program.call("nvmlDeviceGetUUID", ("u64", device), ("fill", 96), ("u32", 96))
    assert result == SUCCESS
    return bytes.fromhex(text).split(b"\0")[0].decode()


def memory(program: Program, device: int) -> tuple[int, int, int]:
    """(total, free, used)"""
    result, page = program.call("nvmlDeviceGetMemoryInfo", ("u64", device), ("fill", 24))
    assert result == SUCCESS
    total, free, used = struct.unpack("<QQQ", bytes.fromhex(page))
    return total, free, used


def memory_v2(program: Program, device: int) -> tuple[int, int, int, int]:
    """(total, reserved, free, used)"""
    page = struct.pack("<I4xQQQQ", 40 | 2 << 24, 0, 0, 0, 0)
    result, page_after = program.call(
        "nvmlDeviceGetMemoryInfo_v2", ("u64", device), ("change", page.hex())
    )
    assert result == SUCCESS
    _, total, reserved, free, used = struct.unpack("<I4xQQQQ", bytes.fromhex(page_after))
    return total, reserved, free, used


def processes(program: Program, device: int) -> list[int]:
    """Pids of the newest form, with room for 16."""
    answer = program.call(
        "nvmlDeviceGetComputeRunningProcesses_v3", ("u64", device), ("out", 16), ("fill", 24 * 16)
    )
    assert answer[0] == SUCCESS
    count, page = answer[1] & 0xFFFFFFFF, bytes.fromhex(answer[2])
    return sorted(struct.unpack_from("<I", page, 24 * place)[0] for place in range(count))


def test_memory_is_the_shares_and_what_all_its_processes_use(house: House) -> None:
    share = house.share(LIMIT)
    first, second = house.program(share), house.program(share)
    assert first.start() == second.start() == SUCCESS
    assert first.allocate(100 * MIB)[0] == second.allocate(50 * MIB)[0] == SUCCESS
    used = house.used(share).reserved_bytes
    tool = watcher(house, share)
    device = handle(tool, 0)
    assert memory(tool, device) == (LIMIT, LIMIT - used, used)
    assert memory_v2(tool, device) == (LIMIT, 0, LIMIT - used, used)
    house.resize(share, 64 * MIB)  # less than is in use: full, and not less than empty
    assert memory(tool, device) == (64 * MIB, 0, 64 * MIB)
    outside = watcher(house, None)
    assert memory(outside, handle(outside, 0))[0] == house.cards[0].memory_bytes


def test_only_the_shares_own_processes_are_listed(house: House) -> None:
    share, neighbour = house.share(LIMIT), house.share(LIMIT, name="neighbour")
    own = [house.program(share) for _ in range(2)]
    other = house.program(neighbour)
    assert [program.start() for program in (*own, other)] == [SUCCESS] * 3
    inside, outside = watcher(house, share), watcher(house, None)
    everybody = sorted(program.pid for program in (*own, other))
    assert processes(outside, handle(outside, 0)) == everybody
    assert processes(inside, handle(inside, 0)) == sorted(program.pid for program in own)
    there = watcher(house, neighbour)
    assert processes(there, handle(there, 0)) == [other.pid]


@pytest.mark.parametrize(
    "name", ["nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses_v3"]
)
def test_other_forms_of_the_list_work_too(name: str, house: House) -> None:
    share = house.share(LIMIT)
    program = house.program(share)
    assert program.start() == SUCCESS
    tool = watcher(house, share)
    answer = tool.call(name, ("u64", handle(tool, 0)), ("out", 16), ("fill", 24 * 16))
    assert answer[0] == SUCCESS
    assert answer[1] & 0xFFFFFFFF == (0 if "Graphics" in name else 1)


def test_a_list_that_is_too_small_is_answered_as_the_driver_does(house: House) -> None:
    share = house.share(LIMIT)
    assert house.program(share).start() == SUCCESS
    tool = watcher(house, share)
    answer = tool.call(
        "nvmlDeviceGetComputeRunningProcesses_v3", ("u64", handle(tool, 0)), ("out", 0), ("u64", 0)
    )
    assert answer[0] == INSUFFICIENT_SIZE


def test_cards_outside_of_the_share_are_not_there(house: House) -> None:
    share = house.share(0, LIMIT, 0, LIMIT)
    tool, outside = watcher(house, share), watcher(house, None)
    assert tool.call("nvmlDeviceGetCount_v2", ("out", 0)) == [SUCCESS, 2]
    assert outside.call("nvmlDeviceGetCount_v2", ("out", 0)) == [SUCCESS, 4]
    shown = [handle(tool, place) for place in range(2)]
    assert [uuid(tool, device) for device in shown] == [house.cards[1].uuid, house.cards[3].uuid]
    assert [
        tool.call("nvmlDeviceGetIndex", ("u64", device), ("out", 0))[1] for device in shown
    ] == [0, 1]
    assert tool.call("nvmlDeviceGetHandleByIndex_v2", ("u32", 2), ("out", 0))[0] == INVALID_ARGUMENT
    for card, expected in zip(house.cards, (NOT_FOUND, SUCCESS, NOT_FOUND, SUCCESS), strict=False):
        text = ("bytes", card.uuid.encode().hex() + "00")
        assert tool.call("nvmlDeviceGetHandleByUUID", text, ("out", 0))[0] == expected
        assert outside.call("nvmlDeviceGetHandleByUUID", text, ("out", 0))[0] == SUCCESS


def test_without_a_share_nothing_of_it_is_shown(house: House) -> None:
    share = house.share(LIMIT)
    (share / "share" / "limits").unlink()
    tool = watcher(house, share)
    assert tool.call("nvmlDeviceGetCount_v2", ("out", 0))[0] == NO_PERMISSION
    assert tool.call("nvmlDeviceGetCount_v2", ("out", 0))[0] == NO_PERMISSION
    said = tool.end()
    assert (
        said
        == f"gpupool: the fence shows no card's memory in this process: no limits of a share at {share}\n"
    )
