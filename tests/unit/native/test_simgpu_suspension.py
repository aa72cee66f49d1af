"""Suspending a process of the simulated driver by its pid, from another process."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen

import pytest

from tests.unit.native.simgpu_cuda import (
    MIB,
    NOT_READY,
    OUT_OF_MEMORY,
    hear,
    make_machine,
    run,
    running,
    tell,
    used,
)

CONTEXT = 120 * MIB
HELD = 512 * MIB
# CUresult and CUprocessState of cuda.h.
ILLEGAL_STATE, INVALID_VALUE, NOT_SUPPORTED, NOT_PERMITTED = 401, 1, 801, 800
RUNNING, LOCKED, CHECKPOINTED = 0, 1, 2

# Says "ready", then answers each line: "read" with the contents, "launch" after the kernel's end.
WORKER = f"""
cu.start()
held = cu.alloc({HELD})
cu.write(held, b"precious" * 512)
spin = cu.function(b"gpupool_spin_ns")
print("ready", flush=True)
for line in sys.stdin:
    word, _, number = line.strip().partition(" ")
    if word == "launch":
        cu.launch(spin, ns=int(number))
        print("launched", flush=True)
        cu("CtxSynchronize")
    if word == "alloc":
        cu.alloc(int(number))
    print(cu.read(held, 4096).decode() if word == "read" else "done", flush=True)
"""
WAIT = "print('ready', flush=True)\nsys.stdin.readline()"
CALLS = """
cu("Init", 0)
def state(pid):
    value = c_int()
    cu("CheckpointProcessGetState", pid, byref(value))
    return value.value
def lock(pid, ms=0):
    return cu.code("CheckpointProcessLock", pid, byref((c_uint64 * 8)(ms)))
def checkpoint(pid):
    return cu.code("CheckpointProcessCheckpoint", pid, None)
def restore(pid):
    return cu.code("CheckpointProcessRestore", pid, None)
def unlock(pid):
    return cu.code("CheckpointProcessUnlock", pid, None)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return make_machine(tmp_path, "1xT4")


@contextmanager
def worker(path: Path, text: str = WORKER) -> Iterator[Popen[str]]:
    with running(path, text) as process:
        assert hear(process) == "ready"
        yield process


def call(path: Path, text: str) -> list[int]:
    """Call the driver from a process of its own; the numbers that the expression gives."""
    return [int(word) for word in run(path, f"{CALLS}\nprint(*({text},))").split()]


def await_sleep(pid: int) -> None:
    """Wait until no thread of a process runs."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        stats = [stat.read_text() for stat in Path(f"/proc/{pid}/task").glob("*/stat")]
        if all(stat.rpartition(")")[2].split()[0] == "S" for stat in stats):
            return
        time.sleep(0.001)
    raise AssertionError("it still runs")


def test_a_suspended_process_has_no_memory_on_the_card_and_gets_it_back(path: Path) -> None:
    with worker(path) as process:
        pid = process.pid
        assert used(path) == CONTEXT + HELD
        assert call(path, f"lock({pid}), state({pid}), checkpoint({pid}), state({pid})") == [
            0,
            LOCKED,
            0,
            CHECKPOINTED,
        ]
        assert used(path) == 0
        assert call(path, f"restore({pid}), state({pid}), unlock({pid}), state({pid})") == [
            0,
            LOCKED,
            0,
            RUNNING,
        ]
        assert used(path) == CONTEXT + HELD
        tell(process, "read")
        assert hear(process) == "precious" * 512


def test_calls_of_a_suspended_process_wait_until_it_is_resumed(path: Path) -> None:
    with worker(path) as process:
        pid = process.pid
        assert call(path, f"lock({pid}), checkpoint({pid})") == [0, 0]
        tell(process, f"alloc {MIB}")
        await_sleep(pid)
        assert used(path) == 0
        assert call(path, f"restore({pid})") == [0]
        await_sleep(pid)
        assert used(path) == CONTEXT + HELD
        assert call(path, f"unlock({pid})") == [0]
        assert hear(process) == "done"
        assert used(path) == CONTEXT + HELD + 2 * MIB


def test_a_lock_waits_for_submitted_work_or_gives_up_in_time(path: Path) -> None:
    with worker(path) as process:
        pid = process.pid
        calls = f"lock({pid}, 20), state({pid}), lock({pid}), checkpoint({pid})"
        # It has started before the work begins, which a start may outlast on a busy machine.
        with worker(path, f"{CALLS}\n{WAIT}\nprint(*({calls}))") as caller:
            tell(process, f"launch {600_000_000}")
            assert hear(process) == "launched"
            tell(caller)
            assert hear(caller).split() == [str(NOT_READY), str(RUNNING), "0", "0"]


def test_moves_out_of_order_are_refused_and_change_nothing(path: Path) -> None:
    with worker(path) as process:
        pid = process.pid
        assert (
            call(path, f"checkpoint({pid}), restore({pid}), unlock({pid})") == [ILLEGAL_STATE] * 3
        )
        assert call(path, f"lock({pid}), lock({pid}), restore({pid}), state({pid})") == [
            0,
            ILLEGAL_STATE,
            ILLEGAL_STATE,
            LOCKED,
        ]
        assert call(path, f"checkpoint({pid}), unlock({pid}), state({pid})") == [
            0,
            ILLEGAL_STATE,
            CHECKPOINTED,
        ]
        assert call(path, f"lock({os.getpid()})") == [INVALID_VALUE]


def test_a_restore_without_room_leaves_the_process_suspended(path: Path) -> None:
    with worker(path) as process:
        pid = process.pid
        assert call(path, f"lock({pid}), checkpoint({pid})") == [0, 0]
        other = f"cu.start()\ncu.alloc(cu.memory()[0] - 256 * MIB)\n{WAIT}"
        with worker(path, other):
            taken = used(path)
            assert call(path, f"restore({pid}), state({pid})") == [OUT_OF_MEMORY, CHECKPOINTED]
            assert used(path) == taken
        assert call(path, f"restore({pid}), unlock({pid})") == [0, 0]
        tell(process, "read")
        assert hear(process) == "precious" * 512


@pytest.mark.parametrize(
    "sharing",
    [
        'cu.get(c_uint64, "MemAllocManaged", MIB, 1)',
        'cu("IpcGetMemHandle", create_string_buffer(64), cu.alloc(2 * MIB))',
    ],
    ids=["managed", "exported"],
)
def test_managed_and_shared_memory_is_refused_and_the_process_runs_on(
    path: Path, sharing: str
) -> None:
    text = f"cu.start()\n{sharing}\n{WAIT}\ncu.alloc(MIB)\nprint('went on', flush=True)"
    with worker(path, text) as process:
        before, pid = used(path), process.pid
        assert call(path, f"lock({pid}), checkpoint({pid}), unlock({pid})") == [0, NOT_SUPPORTED, 0]
        assert used(path) == before
        tell(process)
        assert hear(process) == "went on"


def test_a_suspended_process_that_is_killed_leaves_nothing(path: Path) -> None:
    with worker(path) as process:
        pid = process.pid
        assert call(path, f"lock({pid}), checkpoint({pid})") == [0, 0]
        os.kill(pid, signal.SIGKILL)
        process.wait()
        assert call(path, f"restore({pid})") == [INVALID_VALUE]
        assert used(path) == 0


def test_another_users_process_is_not_the_callers_to_lock(path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("needs root, to be another user")
    path.chmod(0o666)
    path.parent.chmod(0o755)
    with worker(path) as process:
        text = f"{CALLS}\nos.setuid(65534)\nprint(lock({process.pid}), state({process.pid}))"
        assert run(path, text).split() == [str(NOT_PERMITTED), str(RUNNING)]


def test_threads_that_call_all_the_time_are_suspended_between_two_calls(path: Path) -> None:
    text = """
context = cu.start()
spin = cu.function(b"gpupool_spin_ns")
def work(number):
    cu("CtxSetCurrent", context)
    stream = cu.stream()
    while True:
        block = cu.alloc(2 * MIB)
        cu.write(block, bytes([number]) * 4096)
        cu.launch(spin, stream, ns=20_000)
        cu("StreamSynchronize", stream)
        assert cu.read(block, 4096) == bytes([number]) * 4096
        cu("MemFree_v2", block)
        rounds[number] += 1
rounds = [0] * 4
threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(4)]
for thread in threads:
    thread.start()
print("ready", flush=True)
for line in sys.stdin:
    before = list(rounds)
    while any(a == b for a, b in zip(before, rounds)):
        assert all(thread.is_alive() for thread in threads)
        time.sleep(0.001)
    print("all went on", flush=True)
"""
    cycle = """
for _ in range(8):
    codes = lock(PID), checkpoint(PID)
    machine = SimulatedMachine(os.environ["GPUPOOL_SIMGPU"])
    used = sum(p.memory_bytes for p in machine.list_processes(machine.cards[0].uuid))
    machine.close()
    print(*codes, used, restore(PID), unlock(PID))
"""
    with worker(path, text) as process:
        for _ in range(2):
            answers = run(path, CALLS + cycle.replace("PID", str(process.pid)))
            assert answers.split() == ["0"] * 40
            tell(process)
            assert hear(process) == "all went on"
