"""Proxies are found by the process that listens at their socket, and their end is seen at once."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.agent.network.balancing.living_proxies import SETTLE_SECONDS, LivingProxies

#: Listens at a socket as a master does, says so, and ends when its input does.
LISTEN = """
import os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1] + ".new")
server.listen()
os.rename(sys.argv[1] + ".new", sys.argv[1])
print("listening", flush=True)
sys.stdin.read()
"""


def listen(root: Path, key: str) -> subprocess.Popen[bytes]:
    (root / key).mkdir(exist_ok=True)
    words = [sys.executable, "-c", LISTEN, str(root / key / "master.sock")]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"listening\n"
    return process


def kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


@pytest.fixture
def proxies(short_path: Path) -> Iterator[LivingProxies]:
    made = LivingProxies(short_path)
    yield made
    made.close()


def test_one_that_runs_at_the_first_look_counts_and_its_end_is_seen(
    proxies: LivingProxies, short_path: Path
) -> None:
    process = listen(short_path, "h-1")
    assert proxies.look(1.0) == {"h-1": True}
    assert proxies.look(1.1) == {"h-1": True}
    kill(process)
    assert proxies.look(1.2) == {"h-1": False}


def test_one_that_has_ended_has_to_run_for_a_while(
    proxies: LivingProxies, short_path: Path
) -> None:
    kill(listen(short_path, "h-1"))
    assert proxies.look(1.0) == {"h-1": False}
    process = listen(short_path, "h-1")
    assert proxies.look(2.0) == {"h-1": False}
    assert proxies.look(2.0 + SETTLE_SECONDS) == {"h-1": True}
    # One that ends in between begins from the start.
    kill(process)
    process = listen(short_path, "h-1")
    assert proxies.look(4.0) == {"h-1": False}
    assert proxies.look(4.0 + SETTLE_SECONDS) == {"h-1": True}
    kill(process)


def test_one_that_is_deleted_is_forgotten_with_its_handle(
    proxies: LivingProxies, short_path: Path
) -> None:
    process = listen(short_path, "h-1")
    assert proxies.look(1.0) == {"h-1": True}
    assert count_handles(process.pid) == 1
    (short_path / "h-1" / "master.sock").unlink()
    (short_path / "h-1").rmdir()
    assert proxies.look(1.1) == {}
    assert count_handles(process.pid) == 0
    kill(process)


def count_handles(pid: int) -> int:
    """How many descriptors of this process stand for that one: others come and go beside."""
    found = 0
    for info in Path("/proc/self/fdinfo").iterdir():
        with contextlib.suppress(FileNotFoundError):  # that of the directory itself
            found += f"\nPid:\t{pid}\n" in info.read_text()
    return found


def test_a_machine_without_proxies_has_none(short_path: Path) -> None:
    assert LivingProxies(short_path / "none").look(1.0) == {}
