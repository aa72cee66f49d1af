"""Fenced shares over a pool's life: beside whole cards, the pool killed and back, another size, a
user's own pool."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.pool_fixture import GPUPOOL, RealPool

UID = 100_000 + os.getpid()
"""An account of this process alone: a user's pool keeps mount points in a directory that is named
after its account."""
PROGRAM = """
import ctypes, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
number, total, free = ctypes.c_int(), ctypes.c_size_t(), ctypes.c_size_t()
context, place = ctypes.c_void_p(), ctypes.c_uint64()
assert not cuda.cuInit(0)
assert not cuda.cuCtxCreate_v2(ctypes.byref(context), 0, number)
before = None
for _ in range(int(sys.argv[1])):
    assert not cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
    large = cuda.cuMemAlloc_v2(ctypes.byref(place), ctypes.c_size_t(3000 << 20))
    if not large:
        cuda.cuMemFree_v2(place)
    if (said := (total.value >> 20, large)) != before:
        print(*said, flush=True)
    before = said
    time.sleep(0.02)
drivers = {line.split()[-1] for line in open("/proc/self/maps") if "libcuda.so" in line}
print(*("stand-in" if "/lib/" in path else "driver" for path in sorted(drivers)), flush=True)
"""
SIZE = ("--gpu", "0.3", "--memory", "2GiB")


@pytest.fixture
def program(tmp_path: Path) -> list[str]:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return [sys.executable, str(path)]


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[RealPool]:
    with RealPool(tmp_path / "pool", "2xL40S") as made:
        yield made


def test_a_share_has_the_stand_in_and_a_whole_card_the_driver_alone(
    pool: RealPool, program: list[str]
) -> None:
    assert pool.do("run", *SIZE, "--", *program, "1").splitlines() == ["2048 2", "driver stand-in"]
    assert pool.do("run", "--gpu", "1", "--", *program, "1").splitlines() == ["46068 0", "driver"]
    assert pool.do("run", *SIZE, "--no-fence", "--", *program, "1").splitlines() == [
        "46068 0",
        "driver",
    ]


def test_a_job_is_held_and_can_be_resized_after_the_pool_was_killed(
    pool: RealPool, program: list[str]
) -> None:
    pool.do("submit", "--name", "lasting", *SIZE, "--", *program, "100000")
    pool.until_state("lasting", "running")
    pool.until(
        lambda: pool.do("logs", "lasting").split() == ["2048", "2"], "the program's first look"
    )
    arbiter = arbiters(pool)
    os.kill(pool.server_pid(), signal.SIGKILL)
    pool.until(
        lambda: not any(is_there(pid) for pid in arbiter), "the arbiter's end with its agent"
    )
    pool.up()
    assert pool.until_state("lasting", "running")["fence"] in ("soft", "advisory")
    pool.until(lambda: len(arbiters(pool)) == len(arbiter), "a new arbiter")
    pool.do("resize", "lasting", "--memory", "4GiB")
    pool.until(
        lambda: pool.do("logs", "lasting").split()[2:] == ["4096", "0"],
        "more memory in the running program",
    )
    pool.do("resize", "lasting", "--memory", "1GiB")
    pool.until(
        lambda: pool.do("logs", "lasting").split()[4:] == ["1024", "2"],
        "less memory in the running program",
    )
    assert "fence." not in pool.do("events", "--last", "500")
    pool.do("stop", "lasting", "--grace", "0s")
    pool.until(lambda: not arbiters(pool), "no arbiter while nothing is shared")
    assert not list((pool.state_dir / "agent/prepared").iterdir())


def arbiters(pool: RealPool) -> list[int]:
    """The arbiter's processes of this pool: children of its server."""
    try:
        server = pool.server_pid()
    except (KeyError, TypeError, AssertionError):
        return []
    command = ["ps", "-o", "pid=,comm=", "--ppid", str(server)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    rows = (line.split() for line in found.stdout.splitlines())
    return [int(row[0]) for row in rows if row[1] == "gpupool-arbiter"]


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


class OwnPool(RealPool):
    """The same, all of it as an ordinary user, who may read the files of the Python that runs the
    tests."""

    def run(self, *words: str, **settings: Any) -> subprocess.CompletedProcess[str]:
        readable = ("--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search")
        identity = ("--reuid", str(UID), "--regid", str(UID), "--clear-groups")
        command = ["setpriv", *identity, *readable, *GPUPOOL, *words]
        settings = {
            "stdin": subprocess.DEVNULL,
            "capture_output": True,
            "timeout": 60,
            "text": True,
            **settings,
        }
        environ = {**self.environ, **settings.pop("environ", {})}
        return subprocess.run(command, env=environ, cwd="/", check=False, **settings)


def everybodys_python() -> str | None:
    """One that an ordinary user can start."""
    for place in (sys.executable, "/usr/bin/python3"):
        path = Path(place).resolve()
        if path.exists() and all(part.stat().st_mode & 0o001 for part in (path, *path.parents)):
            return str(place)
    return None


@pytest.mark.root
@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None, reason="plays another user, by setpriv"
)
def test_in_a_users_own_pool_the_fence_holds_and_says_that_it_is_advice(
    tmp_path: Path, program: list[str]
) -> None:
    python = everybodys_python()
    if python is None:
        pytest.skip("no Python here that another user could start")
    for part in (tmp_path, *tmp_path.parents):
        if part != Path("/"):
            part.chmod(part.stat().st_mode | 0o111)
    home = tmp_path / "home"
    home.mkdir()
    shutil.chown(home, UID, UID)
    with OwnPool(home / "pool", "1xL40S") as pool:
        said = pool.do("run", "--name", "own", *SIZE, "--", python, program[1], "1")
        assert said.splitlines() == ["2048 2", "driver stand-in"]
        job = pool.job("own")
        assert job["fence"] == "advisory"
        assert "one user" in job["fence_why"]
        (fence,) = [one for one in pool.json("doctor")["checks"] if one["name"] == "fence"]
        assert "advisory" in fence["text"]
        assert "who leaves it: warn" in fence["text"]
        base = Path(f"/tmp/gpupool-{UID}")
        base.chmod(0o777)  # now anybody could have made what is in it, and nothing is mounted there
        said = pool.do("run", "--name", "bare", *SIZE, "--", python, program[1], "1")
        base.chmod(0o755)
        assert said.splitlines() == ["2048 2", "driver stand-in"]
        assert "mounts were refused" in pool.job("bare")["fence_why"]
    for point in (*base.iterdir(), base):
        point.rmdir()
