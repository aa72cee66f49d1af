"""Strangers at the doorbell of a job's share: each is refused, and the job ends as it would
have."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.mechanisms.regions import DOORBELL_FILE, LAYOUT, USAGE_FILE, FenceProcess, read_usage
from tests.e2e.pool_fixture import RealPool

pytestmark = [pytest.mark.adversary, pytest.mark.root]

NOBODY = 65534
HOLD = """
import ctypes, os, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
context, place = ctypes.c_void_p(), ctypes.c_uint64()
assert not cuda.cuInit(0)
assert not cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0)
assert not cuda.cuMemAlloc_v2(ctypes.byref(place), ctypes.c_size_t(1 << 30))
print("holds", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
print("ends well", flush=True)
"""
HELLO = """
import os, socket, struct, sys
os.setgroups([]), os.setgid(int(sys.argv[3])), os.setuid(int(sys.argv[3]))
peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
try:
    peer.connect(sys.argv[1])
    peer.send(struct.pack("<HHIII", 1, int(sys.argv[2]), 0, 0, 0))
    peer.settimeout(5)
    print("answered" if peer.recv(1) else "hung up")
except OSError as error:
    print(type(error).__name__)
"""


@pytest.fixture
def folder(pool: RealPool, request: pytest.FixtureRequest) -> Iterator[Path]:
    """The files of a share whose job holds 1 GiB; afterwards the job must end well, with nothing
    held against it."""
    name = f"victim-{request.node.name.rpartition('_')[2]}"
    go = pool.state_dir.parent / name
    program = [sys.executable, "-c", HOLD, str(go)]
    pool.do("submit", "--name", name, "--gpu", "0.3", "--memory", "2GiB", "--", *program)
    pool.until(
        lambda: pool.job(name)["state"] == "running" and "holds" in pool.do("logs", name),
        "held memory",
    )
    (found,) = (pool.state_dir / "agent/prepared").iterdir()
    yield found
    go.touch()
    assert pool.until_state(name, "done", "failed", "stopped")["state"] == "done"
    assert "ends well" in pool.do("logs", name)
    assert "fence." not in pool.do("events", "--last", "500")


def hello(folder: Path, user: int = 0) -> str:
    """Say HELLO for slot 0; what came of it."""
    command = [sys.executable, "-c", HELLO, str(folder / DOORBELL_FILE), str(LAYOUT), str(user)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/")
    return done.stdout.strip()


def slots(folder: Path) -> tuple[FenceProcess, ...]:
    return read_usage(folder / USAGE_FILE, ()).processes


def test_another_user_does_not_reach_the_doorbell_refused(folder: Path) -> None:
    before = slots(folder)
    assert hello(folder, NOBODY) == "PermissionError"
    assert slots(folder) == before


def test_a_process_of_another_job_has_no_slot_here_stranger(folder: Path) -> None:
    before = slots(folder)
    assert hello(folder) == "hung up"
    assert slots(folder) == before
    assert len(before) == 1


def test_the_names_of_shares_are_not_listed_hidden(folder: Path) -> None:
    for directory in (folder.parent, folder, folder / "usage"):
        assert (
            subprocess.run(["ls", directory], user=NOBODY, capture_output=True, cwd="/").returncode
            != 0
        )
