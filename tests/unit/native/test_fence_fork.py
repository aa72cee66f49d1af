"""What a process under the fence leaves and takes with it: at fork, exec, a kill, and when there is
no slot for it."""

from __future__ import annotations

import ctypes
import shutil
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

import gpupool_native
from gpupool.mechanisms import regions
from gpupool.probes import simgpu_layout
from tests.unit.native.fence_house import (
    CONTEXT,
    LIMIT,
    MIB,
    NOT_INITIALIZED,
    NOT_READY,
    OUT_OF_MEMORY,
    ROOM,
    SUCCESS,
    House,
)
from tests.unit.native.front_pool import compiler


def test_a_child_forked_before_the_first_call_has_a_slot_of_its_own(
    house: House, share: Path
) -> None:
    program = house.program(share)
    assert program.call("fork")[0] == SUCCESS
    assert program.start() == SUCCESS
    assert program.allocate(100 * MIB)[0] == SUCCESS
    assert [process.pid for process in house.usage(share).processes] != [program.pid]
    assert program.call("end")[0] == SUCCESS
    assert program.start() == SUCCESS  # the parent
    assert program.allocate(ROOM)[0] == SUCCESS
    assert house.truth() == LIMIT == house.used(share).reserved_bytes


def test_a_child_forked_after_initialising_owns_nothing_of_its_parents(
    house: House, share: Path
) -> None:
    program = house.program(share)
    assert program.start() == SUCCESS
    assert program.allocate(200 * MIB)[0] == SUCCESS
    assert program.call("fork")[0] == SUCCESS
    # As on the real driver the child of an initialised process cannot use it; the fence neither
    # crashes nor charges.
    assert program.allocate(1)[0] == NOT_INITIALIZED
    assert program.call("cuInit", ("u32", 0))[0] == NOT_INITIALIZED
    held = {
        process.pid: process.devices[house.cards[0].uuid].reserved_bytes
        for process in house.usage(share).processes
    }
    assert held.pop(program.pid) == CONTEXT + 200 * MIB
    assert set(held.values()) <= {0}
    assert program.call("end")[0] == SUCCESS
    assert program.allocate(ROOM - 200 * MIB)[0] == SUCCESS  # the parent goes on with what it had
    assert house.truth() == LIMIT == house.used(share).reserved_bytes


def test_an_exec_gives_back_what_the_old_program_held(house: House, share: Path) -> None:
    program = house.program(share)
    assert program.start() == SUCCESS
    assert program.allocate(ROOM)[0] == SUCCESS
    assert program.call("exec")[0] == SUCCESS
    assert program.start() == SUCCESS  # same pid, same start time, another image
    assert program.info() == (ROOM, LIMIT)
    assert len(house.usage(share).processes) == 1
    assert house.truth() == CONTEXT == house.used(share).reserved_bytes


def test_what_a_process_held_before_an_exec_is_found_by_its_neighbour(
    house: House, share: Path
) -> None:
    program, other = house.program(share), house.program(share)
    assert program.start() == other.start() == SUCCESS
    assert program.allocate(ROOM - CONTEXT)[0] == SUCCESS
    assert program.call("exec")[0] == SUCCESS
    assert (
        program.call("cuDriverGetVersion", ("out", 0))[0] == SUCCESS
    )  # it is up again, and takes no slot for that
    assert other.allocate(ROOM - CONTEXT)[0] == SUCCESS


def test_a_program_that_vforks_and_execs_is_as_fenced_as_any(
    house: House, share: Path, tmp_path: Path
) -> None:
    """posix_spawn, as subprocess and shells use it: the child is another program under the same
    stand-in."""
    source, program = tmp_path / "spawn.c", tmp_path / "spawn"
    source.write_text(
        "#include <spawn.h>\n#include <stddef.h>\n#include <stdio.h>\n#include <string.h>\n#include <sys/wait.h>\n"
        "int cuInit(unsigned); int cuDevicePrimaryCtxRetain(void **, int); int cuCtxSetCurrent(void *);\n"
        "int cuMemAlloc_v2(unsigned long *, size_t);\nextern char **environ;\n"
        "int main(int n, char **w) {\n"
        "  void *c; unsigned long p; int status; pid_t child;\n"
        "  cuInit(0); cuDevicePrimaryCtxRetain(&c, 0); cuCtxSetCurrent(c);\n"
        '  printf("%d\\n", cuMemAlloc_v2(&p, 400ul << 20)); fflush(stdout);\n'
        '  char *again[] = {w[0], "child", NULL};\n'
        "  if (n == 1 && (posix_spawn(&child, w[0], NULL, NULL, again, environ) || waitpid(child, &status, 0) < 0))\n"
        "    return 1;\n  return 0; }\n"
    )
    stand_in = share / "stand-in" / "libcuda.so.1"
    command = [
        compiler(),
        str(source),
        str(gpupool_native.simgpu_dir() / "libcuda.so.1"),
        "-o",
        str(program),
    ]
    subprocess.run(command, check=True)
    own = {"LD_LIBRARY_PATH": str(stand_in.parent), "GPUPOOL_SIMGPU": str(house.machine)}
    done = subprocess.run([program], env=own, text=True, capture_output=True, timeout=20)
    assert done.stdout.split() == [str(SUCCESS), str(OUT_OF_MEMORY)], (
        done.stderr
    )  # 2 contexts and 800 MiB: too much


@pytest.mark.parametrize("moment", ["idle", "holding"])
def test_slots_of_the_killed_are_taken_by_those_who_come(moment: str, house: House) -> None:
    share = house.share(LIMIT, slots=2)
    for _ in range(5):
        program = house.program(share)
        assert program.start() == SUCCESS
        if moment == "holding":
            assert program.allocate(ROOM)[0] in (SUCCESS, OUT_OF_MEMORY)
        program.running.kill()
        program.running.wait()
    last = house.program(share)
    assert last.start() == SUCCESS
    assert last.allocate(ROOM)[0] == SUCCESS


def test_one_process_more_than_the_share_admits_is_refused_and_told_why(house: House) -> None:
    share = house.share(LIMIT, slots=2)
    inside = [house.program(share) for _ in range(2)]
    assert [program.start() for program in inside] == [SUCCESS] * 2
    outside = house.program(share)
    assert outside.start() == NOT_READY
    assert outside.start() == NOT_READY
    assert outside.end() == (
        "gpupool: the fence refuses CUDA in this process: all 2 processes that the share admits are there\n"
    )
    inside[0].running.kill()
    inside[0].running.wait()
    assert house.program(share).start() == SUCCESS


def test_a_slot_that_somebody_cleared_is_taken_again_with_what_is_held(
    house: House, share: Path
) -> None:
    program = house.program(share)
    assert program.start() == SUCCESS
    assert program.allocate(300 * MIB)[0] == SUCCESS
    with open(share / regions.USAGE_FILE, "r+b") as region:
        head = ctypes.sizeof(regions.CUsageHead)
        region.seek(head)
        region.write(bytes(ctypes.sizeof(regions.CSlot)))
    assert house.used(share).reserved_bytes == 0
    assert program.allocate(ROOM)[0] == OUT_OF_MEMORY
    assert house.used(share).reserved_bytes == CONTEXT + 300 * MIB == house.truth()


def test_a_region_full_of_nonsense_refuses_and_crashes_nobody(house: House, share: Path) -> None:
    program = house.program(share)
    assert program.start() == SUCCESS
    region = share / regions.USAGE_FILE
    head = region.read_bytes()[: regions.CUsageHead.high_water.offset]
    with open(region, "r+b") as file:
        file.write(head + b"\xff" * (regions.USAGE_BYTES - len(head)))
    assert program.allocate(MIB)[0] == OUT_OF_MEMORY
    assert program.info() == (0, LIMIT)


def test_the_arbiter_is_told_of_a_process_and_its_absence_is_no_error(
    house: House, share: Path
) -> None:
    without = house.program(share)
    assert without.start() == SUCCESS
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as bell:
        bell.bind(str(share / regions.DOORBELL_FILE))
        bell.listen()
        bell.settimeout(10)
        program = house.program(share)
        assert program.start() == SUCCESS
        connection, _ = bell.accept()
        with connection:
            connection.settimeout(10)
            kind, layout, slot, device, _ = struct.unpack("<HHIII", connection.recv(100))
            peer = struct.unpack(
                "<iII", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            )
    assert (kind, layout, slot, device) == (1, 1, 1, 0)
    assert peer[0] == program.pid
    assert program.allocate(MIB)[0] == SUCCESS  # and when it has gone, nothing changes


# What is refused at cuInit -------------------------------------------------------------------------------


def test_without_limits_cuda_is_refused_and_stderr_says_why_once(house: House, share: Path) -> None:
    (share / regions.LIMITS_FILE).unlink()
    program = house.program(share)
    assert [program.call("cuInit", ("u32", 0))[0] for _ in range(3)] == [NOT_READY] * 3
    assert program.allocate(1)[0] == NOT_READY
    said = program.end()
    assert (
        said
        == f"gpupool: the fence refuses CUDA in this process: no limits of a share at {share}\n"
    )


def test_a_driver_older_than_the_table_is_refused(house: House, share: Path) -> None:
    with open(house.machine, "r+b") as machine:
        machine.seek(simgpu_layout.SimHeader.cuda_version.offset)
        machine.write(struct.pack("<I", 11080))
    program = house.program(share)
    assert [program.call("cuInit", ("u32", 0))[0] for _ in range(2)] == [NOT_READY] * 2
    expected = "gpupool: the fence refuses CUDA in this process: the driver is for CUDA 11.8, older than 12.0\n"
    assert program.end() == expected


@pytest.mark.parametrize("first", ["foreign", "fence"])
def test_another_driver_that_was_mapped_first_is_told_in_the_slot(
    first: str, house: House, share: Path
) -> None:
    """A second copy under the driver's own name, opened by its path before anybody called the
    fence."""
    other = house.folder / "copy" / "libcuda.so.1"
    other.parent.mkdir()
    stand_in = share / "stand-in" / "libcuda.so.1"
    shutil.copy(gpupool_native.simgpu_dir() / "libcuda.so.1", other)
    code = f"import ctypes\nctypes.CDLL({str(other)!r})\nfence = ctypes.CDLL({str(stand_in)!r})\n"
    if first == "fence":
        code = f"import ctypes\nfence = ctypes.CDLL({str(stand_in)!r})\n"
    code += "print(fence.cuInit(0), flush=True)\ninput()\n"
    own = {"GPUPOOL_SIMGPU": str(house.machine)}
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env=own,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "0\n"
        (process,) = house.usage(share).processes
        assert process.foreign_driver == (first == "foreign")
        program.send_signal(signal.SIGKILL)
