"""Files of a fence damaged while jobs use them, by the tenant or by mischance: found out, and
nobody else is the worse.

The pool only warns, so that the damaged job goes on as far as it can; its neighbour, the arbiter
and the pool must not notice. A usage file that its own tenant cuts short is a bus error in his
processes, at the next touch of what is gone: they have it mapped, and the fence installs no handler
in programs of others. It is his own file.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpupool.mechanisms import regions
from tests.faults.fence_campaign import ENDED, TENANT
from tests.faults.fence_truth import Card, arbiters
from tests.faults.pool import FaultPool, answer_of, until

pytestmark = pytest.mark.root
MIB = 1 << 20
SHARE = 1000 * MIB
NOTICED_SECONDS = 3.0
"""A second is promised; the rest is this machine's, which runs other tests meanwhile."""
WORK_SECONDS = 15.0
"""A neighbour that claims to have work in flight may keep the card for a second, and hosts are
slow."""
LOOK = """
import ctypes, json, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
print(cuda.cuInit(0), flush=True)
"""


class House:
    """A pool with one card, and a neighbour at work on it."""

    def __init__(self, place: Path) -> None:
        self.wrong = place / "wrong"
        self.wrong.mkdir()
        self.forgiven: list[str] = []
        """What was found of the neighbour, for no fault of his."""
        self.pool = FaultPool(place / "state", sim="1xT4", options=("--fence-reaction", "warn"))
        self.pool.up()
        self.card = Card(self.pool)
        self.neighbour = self.tenant("neighbour")
        self.arbiters, self.server = arbiters(self.pool), self.pool.server_pid()

    def close(self) -> None:
        self.card.close()
        self.pool.destroy()

    def tenant(self, name: str) -> str:
        """A job at work on the card."""
        job = self.submit(name, sys.executable, str(TENANT), "1", name, str(self.wrong))
        until(lambda: self.card.gpu_ns(job) > 0, f"work of {name} on the card")
        return job

    def submit(self, name: str, *words: str) -> str:
        launch = {
            "argv": list(words),
            "env": {"PATH": "/usr/bin:/bin", "FAULT_POOL": str(self.pool.paths.root)},
        }
        body = {"name": name, "shape": {"gpu_milli": 200, "memory_bytes": SHARE}, "launch": launch}
        with self.pool.api() as api:
            return str(answer_of(api, "POST", "jobs", body, idempotency_key=name)["first"]["id"])

    def folder(self, job: str) -> Path:
        found = self.card.folder(job)
        assert found is not None
        return found

    def findings(self, job: str) -> list[str]:
        query = "SELECT kind FROM events WHERE subject = ? AND kind LIKE 'fence.%' ORDER BY seq"
        return [row["kind"] for row in self.pool.rows(query, job)]

    def state(self, job: str) -> str:
        return str(self.pool.rows("SELECT state FROM jobs WHERE public_id = ?", job)[0]["state"])

    def stop(self, job: str) -> None:
        if self.state(job) == "running":
            with self.pool.api() as api:
                answer_of(api, "POST", f"jobs/{job}/stop", {"grace_seconds": 0})
        until(
            lambda: self.state(job) not in ("pending", "starting", "running"), f"the end of {job}"
        )

    def assert_others_go_on(self, *, damaged: str) -> None:
        """The neighbour's work, its exact ledger and its clean record; the same arbiter, the same
        server."""
        busy = self.card.gpu_ns(self.neighbour)
        until(lambda: self.card.gpu_ns(self.neighbour) > busy, "the neighbour's work", WORK_SECONDS)
        self.card.await_exact(self.neighbour)
        assert self.findings(self.neighbour) == self.forgiven
        assert [path.name for path in self.wrong.glob(f"{self.neighbour}-*")] == []
        assert (arbiters(self.pool), self.pool.server_pid()) == (self.arbiters, self.server)
        assert [
            path.name for path in self.wrong.iterdir() if not path.name.startswith(damaged)
        ] == []

    def assert_found(self, job: str, kind: str, began: float) -> None:
        until(lambda: kind in self.findings(job), f"{kind} ({self.findings(job)})")
        late = time.monotonic() - began
        assert late < NOTICED_SECONDS, f"noticed after {late:.1f} s"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    place = tmp_path_factory.mktemp("house")
    place.chmod(0o755)
    made = House(place)
    yield made
    made.close()


def written(name: str, at: int, content: bytes) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        with open(folder / name, "r+b", buffering=0) as file:
            os.pwrite(file.fileno(), content, at)

    return damage


def cut(name: str, size: int) -> Callable[[Path], None]:
    return lambda folder: os.truncate(folder / name, size)


def removed(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


CLAIMS = ctypes.sizeof(regions.CUsageHead) + regions.CSlot.device.offset
"""Where the first process' figures begin: a file that is whole and says anything. Whatever is
claimed is bounded."""
USAGE, LIMITS, GRANTS = regions.USAGE_FILE, regions.LIMITS_FILE, regions.GRANTS_FILE


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "damage", "kind"),
    [
        ("usage-cut", cut(USAGE, 0), "fence.region"),
        ("usage-half", cut(USAGE, 8192), "fence.region"),
        ("usage-garbage", written(USAGE, 0, os.urandom(regions.USAGE_BYTES)), "fence.region"),
        ("usage-layout", written(USAGE, 8, b"\7"), "fence.region"),
        ("usage-claims", written(USAGE, CLAIMS, os.urandom(1 << 12)), ""),
        ("limits-layout", written(LIMITS, 8, b"\7"), "fence.limits"),
        ("limits-garbage", written(LIMITS, 0, os.urandom(4096)), "fence.limits"),
        ("limits-removed", removed(LIMITS), "fence.limits"),
        ("grants-removed", removed(GRANTS), "fence.grants"),
        ("grants-garbage", written(GRANTS, 0, os.urandom(64)), "fence.grants"),
    ],
)
def test_a_damaged_file_is_found_and_costs_nobody_but_its_job(
    house: House, name: str, damage: Callable[[Path], None], kind: str
) -> None:
    job = house.tenant(name)
    began = time.monotonic()
    damage(house.folder(job))
    if kind:
        house.assert_found(job, kind, began)
    house.assert_others_go_on(damaged=job)
    held = sum(one.memory_bytes for one in house.card.processes(job))
    assert held <= SHARE
    house.stop(job)
    until(lambda: not house.card.processes(job), "a card without the job's processes")
    house.assert_others_go_on(damaged=job)
    for path in house.wrong.iterdir():
        path.unlink()


@pytest.mark.parametrize("name", [USAGE, LIMITS, GRANTS])
def test_a_program_that_begins_with_a_damaged_file_is_refused_the_card_and_not_crashed(
    house: House, name: str
) -> None:
    go = house.wrong.parent / f"go-{Path(name).name}"
    script = f"until test -e {go}; do sleep 0.05; done; exec {sys.executable} -c '{LOOK}'"
    job = house.submit(f"late-{Path(name).name}", "sh", "-c", script)
    until(lambda: house.state(job) == "running", "the job's start")
    written(name, 0, os.urandom(4096))(house.folder(job))
    go.touch()
    until(lambda: house.state(job) != "running", "the job's end")
    assert house.state(job) == "done"
    said = house.pool.cli("logs", job)
    assert "802" in said.stdout.split(), said
    house.assert_others_go_on(damaged=job)


def test_a_damaged_machine_file_ends_nobody_and_is_over_when_it_is_over(house: House) -> None:
    """That nobody can be watched is told of every job on its cards; who has the file mapped works
    on, who begins is refused.
    """
    path = house.pool.paths.agent / "simgpu/sim-0/machine"
    whole = path.read_bytes()[:16]
    job = house.tenant("watched")
    began = time.monotonic()
    with open(path, "r+b", buffering=0) as file:
        os.pwrite(file.fileno(), b"nonsense", 0)
        house.assert_found(job, "fence.unseen", began)
        house.assert_found(house.neighbour, "fence.unseen", began)
        unlucky = house.submit("unlucky", sys.executable, "-c", LOOK)
        until(lambda: house.state(unlucky) in ENDED, "the end of a job that cannot have its card")
        assert (arbiters(house.pool), house.pool.server_pid()) == (house.arbiters, house.server)
        assert house.state(job) == house.state(house.neighbour) == "running"
        os.pwrite(file.fileno(), whole, 0)
    house.forgiven = ["fence.unseen"]
    house.assert_others_go_on(damaged=unlucky)
    began = time.monotonic()
    cut(USAGE, 0)(house.folder(job))
    house.assert_found(job, "fence.region", began)
    house.stop(job)
