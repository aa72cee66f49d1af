"""A fault is said by `doctor` and by `/healthz` within 10 s, with what to do; when it is gone, both
are content again.

The faults that need more are beside those who inject them: full disks and lack of descriptors
(`test_threads`), hung threads and flushes (`test_silence`), PostgreSQL and the leader
(`test_failover`).
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpupool.base.client_settings import client_settings
from gpupool.client.transport import Api
from tests.adversary.test_threads import SAID_SECONDS, page
from tests.e2e.pool_fixture import RealPool
from tests.e2e.test_cli_tls import certificate
from tests.histories.campaign import _Clock as Clock
from tests.support.claims import claim_port

pytestmark = [pytest.mark.adversary, pytest.mark.root]

DAY_NS = 86_400 * 10**9
MIB = 1 << 20
#: A client's start, beside the 10 s of the promise.
START_SECONDS = 3.0


@dataclass
class Place:
    """A pool and what faults need of it."""

    pool: RealPool
    clock: Clock

    def doctor(self, name: str) -> dict[str, Any]:
        """What the command says of that check."""
        done = self.pool.run("doctor", "-o", "json")
        checks = json.loads(done.stdout)["checks"]
        assert bool(done.returncode) is any(one["state"] == "fail" for one in checks)
        found: dict[str, Any] = next(
            (one for one in checks if one["name"] == name), {"state": "not there"}
        )
        return found

    def health(self) -> dict[str, Any]:
        with Api(client_settings(state_dir=str(self.pool.state_dir))) as api:
            found: dict[str, Any] = json.loads(page(api, "/healthz").partition("\r\n\r\n")[2])
            return found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """One pool for all; its clock can be stepped, its certificate holds for a day, its jobs may
    write 4 MiB."""
    folder = tmp_path_factory.mktemp("said")
    clock = Clock(folder)
    pool = RealPool(folder / "pool", sim="1xL40S")
    pool.environ |= {
        **clock.environment,
        "GPUPOOL_MAX_LOG_PER_POOL": "4MiB",
        "GPUPOOL_MAX_LOG_PER_USER": "4MiB",
    }
    cert, key = certificate(folder)
    pool.up(
        "--sim",
        pool.sim,
        "--listen",
        f"127.0.0.1:{claim_port()}",
        "--tls-cert",
        str(cert),
        "--tls-key",
        str(key),
    )
    try:
        yield Place(pool, clock)
    finally:
        pool.do("down", "--purge", "--yes", "--grace", "1s")


@contextmanager
def stepped(place: Place, by_ns: int) -> Iterator[None]:
    place.clock.step(by_ns)
    try:
        yield
    finally:
        place.clock.step(-by_ns)


@contextmanager
def full_logs(place: Place) -> Iterator[None]:
    """Output of nearly the whole quota; it is dropped once another job writes."""
    write(place, "floods", 4 * MIB - 4096)
    try:
        yield
    finally:
        write(place, "follows", MIB)


def write(place: Place, name: str, size: int) -> None:
    place.pool.do(
        "submit", "--gpu", "0.1", "--name", name, "--", "head", "-c", str(size), "/dev/zero"
    )
    place.pool.until_state(name, "done")


@contextmanager
def without_descriptors(place: Place) -> Iterator[None]:
    pid = place.pool.server_pid()
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (len(os.listdir(f"/proc/{pid}/fd")), before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


@dataclass(frozen=True)
class Fault:
    """How it is injected, and which check says what of it."""

    name: str
    inject: Callable[[Place], Any]
    check: str
    state: str
    text: str
    following: str
    poke: bool = False
    """Agents look at logs when they have work, else at each heartbeat."""


FAULTS = (
    Fault(
        "clock set back",
        lambda p: stepped(p, -3600 * 10**9),
        "clock",
        "warn",
        "set back",
        "set the clock right",
    ),
    Fault(
        "clock set forward",
        lambda p: stepped(p, 3600 * 10**9),
        "clock",
        "warn",
        "set forward",
        "gpupool restart",
    ),
    Fault(
        "certificate expired",
        lambda p: stepped(p, 2 * DAY_NS),
        "certificate",
        "fail",
        "expired at",
        "renew ",
    ),
    Fault("no descriptors", without_descriptors, "open files", "fail", " of ", "raise the limit"),
    Fault(
        "log quota reached",
        full_logs,
        "logs",
        "warn",
        "dropped",
        "raise GPUPOOL_MAX_LOG",
        poke=True,
    ),
)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda one: one.name)
def test_a_fault_is_said_with_what_to_do_and_no_longer_than_it_lasts(
    place: Place, fault: Fault
) -> None:
    usual = place.doctor(fault.check)["state"]
    assert usual in ("ok", "warn")
    assert usual != fault.state
    listed = "failing" if fault.state == "fail" else "warning"
    with fault.inject(place):
        within(
            lambda: poked(place, fault) and fault.check in place.health()[listed],
            f"/healthz on {fault.name}",
        )
        said = place.doctor(fault.check)
    assert said["state"] == fault.state, said
    assert fault.text in said["text"], said
    assert fault.following in said["next"], said
    place.pool.until(
        lambda: poked(place, fault) and place.doctor(fault.check)["state"] == usual, "content again"
    )
    assert fault.check not in place.health()[listed]


def poked(place: Place, fault: Fault) -> bool:
    if fault.poke:
        place.pool.do("run", "--gpu", "0.1", "--", "true")
    return True


def within(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SAID_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not said within {SAID_SECONDS:g} s: {what}"
        time.sleep(0.05)  # between two looks from outside


def test_a_stopped_server_is_said_within_ten_seconds_with_the_signal_that_wakes_it(
    place: Place,
) -> None:
    pid = place.pool.server_pid()
    os.kill(pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        said = place.doctor("pool")
        took = time.monotonic() - began
    finally:
        os.kill(pid, signal.SIGCONT)
    assert (said["state"], said["next"]) == ("fail", f"kill -CONT {pid}"), said
    assert "stopped by a signal" in said["text"]
    assert took < SAID_SECONDS + START_SECONDS
    place.pool.until(lambda: place.doctor("pool")["state"] == "ok", "content again")
    assert place.health()["well"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_lost_database_is_said_and_what_is_said_brings_the_pool_back(
    tmp_path: Path, how: str
) -> None:
    pool = RealPool(tmp_path / "pool", "1xT4")
    place = Place(pool, Clock(tmp_path))
    database = pool.state_dir / "gpupool.db"
    with pool:
        pool.do("submit", "--gpu", "0.3", "--name", "goes-on", "--", "sleep", "600")
        pool.until_state("goes-on", "running")
        if how == "removed":
            database.unlink()
        else:
            sqlite3.connect(tmp_path / "other.db").executescript("CREATE TABLE strange (x);")
            (tmp_path / "other.db").replace(database)
        said = pool.until(
            lambda: (one := place.doctor("pool"))["state"] == "fail" and one, "doctor"
        )
        pool.until(lambda: "GP-5023" in (pool.state_dir / "server.log").read_text(), "the log")
        pool.until(
            lambda: "saved as gpupool.db.rescued" in place.doctor("pool")["text"], "what was saved"
        )
        said = place.doctor("pool")
        assert "gpupool.db.rescued" in said["next"], said
        steps = said["next"].removesuffix("gpupool up -d")
        assert steps != said["next"]
        subprocess.run(["sh", "-c", steps], check=True)
        pool.up()
        assert pool.until_state("goes-on", "running")["exit_code"] is None
        assert place.doctor("pool")["state"] == "ok"
        assert place.health()["well"]


@pytest.fixture
def failing_disk(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """An ext4 of its own, and the file that makes it find an error in itself: it is read-only from
    then on."""
    point, image = tmp_path / "disk", tmp_path / "image"
    point.mkdir()
    image.touch()
    os.truncate(image, 300 * MIB)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(image)], check=True)
    options = "loop,errors=remount-ro"
    done = subprocess.run(
        ["mount", "-o", options, str(image), str(point)],
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        pytest.skip(f"this root may not mount: {done.stderr}")
    try:
        trigger = Path("/sys/fs/ext4") / Path(device_of(point)).name / "trigger_fs_error"
        if not trigger.exists():
            pytest.skip("this kernel does not let an ext4 fail")
        yield point, trigger
    finally:
        subprocess.run(["umount", "--lazy", str(point)], check=True)


def device_of(point: Path) -> str:
    command = ["findmnt", "-n", "-o", "SOURCE", str(point)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_a_disk_that_has_become_read_only_is_said(
    failing_disk: tuple[Path, Path], tmp_path: Path
) -> None:
    point, trigger = failing_disk
    pool = RealPool(point / "pool", "1xT4")
    place = Place(pool, Clock(tmp_path))
    pool.up("--sim", "1xT4")
    pid = pool.server_pid()
    try:
        trigger.write_text("1")
        within(lambda: "space" in place.health()["failing"], "/healthz")
        for name in ("space", "state"):
            said = place.doctor(name)
            assert said["state"] == "fail", said
            assert "cannot be written: Read-only file system" in said["text"], said
            assert "mount it writable" in said["next"], said
    finally:
        os.kill(pid, signal.SIGKILL)
        pool.until(lambda: not Path(f"/proc/{pid}").exists(), "its end")
    subprocess.run(["umount", "--lazy", str(point)], check=True)
    # A mount namespace of another program may hold the first, so that its device would be read-only
    # again.
    subprocess.run(
        ["cp", "--sparse=always", str(tmp_path / "image"), str(tmp_path / "again")], check=True
    )
    subprocess.run(["mount", "-o", "loop", str(tmp_path / "again"), str(point)], check=True)
    pool.up()
    assert place.doctor("space")["state"] in ("ok", "warn")
    assert place.health()["well"]
    pool.do("down", "--purge", "--yes", "--grace", "1s")
