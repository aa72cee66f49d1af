"""Virtual machines that live through a campaign of kills, each driven by a thread of its own.

A life starts a virtual machine with a disk, resets it, stops it, starts it again on its disk, and
deletes it, over and over. It knows which disk it must have, and how far its guest had come.
"""

from __future__ import annotations

import base64
import os
import random
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpupool.base.errors import (
    GpupoolError,
    NotFound,
    RequestRejection,
    ServiceUnavailable,
    VmUnreachable,
)
from gpupool.cli.work.vm_control import delete_files
from gpupool.cli.work.vm_run import build_start
from gpupool.client.transport import Api
from gpupool.model.vm import MIB, OVERHEAD_BYTES, VM_COMMAND
from gpupool.vm.files import VmFiles
from gpupool.vm.qmp import QmpConnection
from tests.faults.pool import GPUPOOL, FaultPool, environment
from tests.hosts.disk_guest import find_last_number, inspect_disk

ENDED = ("done", "failed", "stopped", "lost")
RAM_BYTES = 64 * MIB
#: Seconds after which a state that does not come is a broken promise. A start takes 1 s on an idle
#: machine, and the start of a server was seen to take 75 s on one that is overloaded.
PATIENCE_SECONDS = 300.0
_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1vNn2dZ4S4n0VhQJmJm8m0mQxk1b2n5l0c5Z0lZ0l0 test"


class BrokenLife(AssertionError):
    """A promise to a virtual machine did not hold."""


@dataclass
class Truth:
    """What was done to the pool, by all threads.

    Attributes:
        killed: Jobs of which a process was killed: their end may be a failure.
        done: How often each thing was done.
    """

    killed: set[str] = field(default_factory=set)
    done: Counter[str] = field(default_factory=Counter)


class VmLife(threading.Thread):
    """One virtual machine after another, until `finish` is called."""

    def __init__(self, number: int, pool: FaultPool, image: Path, truth: Truth, seed: int) -> None:
        super().__init__(name=f"life-{number}", daemon=True)
        self.failure: Exception | None = None
        #: Inode of the disk that must exist; None while there is none, or it may be gone.
        self.inode: int | None = None
        #: A deletion by a command, which may be killed.
        self.client: subprocess.Popen[bytes] | None = None
        self._pool = pool
        self._image = image
        self._truth = truth
        self._chance = random.Random(seed + number)
        self._is_over = threading.Event()
        self._jobs: list[str] = []
        self._printed = 0

    def run(self) -> None:
        try:
            with self._pool.api() as api:
                while not self._is_over.is_set():
                    self._live(api)
        except Exception as error:  # noqa: BLE001  the campaign raises it; a thread only prints it
            self.failure = error

    def finish(self) -> None:
        """End the life after its present virtual machine has ended; `join` waits for it."""
        self._is_over.set()

    def _live(self, api: Api) -> None:
        """Take one virtual machine from its start to the removal of its disk."""
        self._jobs = []
        self._printed = 0
        self._submit(api, self._build_first())
        self._run_to_end(api)
        for _ in range(self._chance.randrange(4)):
            if self._is_over.is_set() or not self._start_again(api):
                break
            self._run_to_end(api)
        self._delete()

    def _build_first(self) -> dict[str, Any]:
        vm: dict[str, Any] = {"cpus": 1, "ram_bytes": RAM_BYTES, "image": str(self._image)}
        if self._chance.random() < 0.5:
            vm["ssh_keys"] = [_KEY]
        shape = {
            "gpu_milli": 1000,
            "cpu_milli": 100,
            "host_bytes": RAM_BYTES + OVERHEAD_BYTES,
        }
        launch = {"argv": [VM_COMMAND, str(self._image)], "vm": vm}
        return {"shape": shape, "launch": launch, "name": f"{self.name}-{os.urandom(3).hex()}"}

    def _submit(self, api: Api, body: dict[str, Any]) -> None:
        answer = ask_pool(api, "POST", "jobs", body, idempotency_key=os.urandom(16).hex())
        self._jobs.append(answer["first"]["id"])
        self._truth.done["started" if len(self._jobs) == 1 else "started again"] += 1

    def _run_to_end(self, api: Api) -> None:
        """Let the newest job run for a while, reset it perhaps, and stop it."""
        job = self._jobs[-1]
        if self._chance.random() < 0.85:
            found = self._await(api, job, lambda one: one["state"] in ("running", *ENDED))
            if found["state"] == "running":
                self._note_disk(job)
                self._work(api, job)
        grace = self._chance.choice((0, 0, 1))
        try:
            ask_pool(api, "POST", f"jobs/{job}/stop", {"grace_seconds": grace})
        except (RequestRejection, NotFound):
            self._truth.done["ended before they were stopped"] += 1
        ended = self._await(api, job, lambda one: one["state"] in ENDED)
        self._check_end(ended)
        self._check_disk(job)

    def _work(self, api: Api, job: str) -> None:
        until = time.monotonic() + self._chance.uniform(0.2, 3)
        while time.monotonic() < until and not self._is_over.is_set():
            time.sleep(0.2)  # the guest works; nothing is awaited by it
            if self._chance.random() < 0.1:
                self._reset(job)
        try:
            answer = ask_pool(api, "GET", f"jobs/{job}/logs", query={"offset": -4096})
        except NotFound:
            return
        self._printed = max(self._printed, find_last_number(base64.b64decode(answer["data"])))

    def _reset(self, job: str) -> None:
        try:
            with QmpConnection(self._find_files(job).control) as connection:
                connection.execute("system_reset")
        except VmUnreachable:
            return  # it was killed a moment ago
        self._truth.done["reset"] += 1

    def _start_again(self, api: Api) -> bool:
        """Start a new job on the disk; False where the virtual machine never had one."""
        owner = self._find_owner()
        if owner is None:
            return False
        files = self._find_files(owner)
        record = files.read_record()
        if record is None:
            return False
        job = ask_pool(api, "GET", f"jobs/{owner}")
        self._submit(api, build_start(job, record, wait=True))
        return True

    def _find_owner(self) -> str | None:
        """The job that has the disk; None where there is none."""
        owners = [job for job in self._jobs if self._find_files(job).has_disk()]
        if len(owners) > 1:
            raise BrokenLife(f"{owners} have a disk each of one virtual machine")
        if not owners and self.inode is not None:
            raise BrokenLife(
                f"the disk of {self._jobs} is lost: its guest had come to {self._printed}"
            )
        return owners[0] if owners else None

    def _note_disk(self, job: str) -> None:
        try:
            self.inode = self._find_files(job).disk.stat().st_ino
        except FileNotFoundError:
            raise BrokenLife(f"{job} runs without a disk") from None

    def _check_end(self, job: dict[str, Any]) -> None:
        self._truth.done[f"ended: {job['state']}"] += 1
        if job["state"] in ("failed", "lost") and job["id"] not in self._truth.killed:
            raise BrokenLife(f"{job['id']} is {job['state']} and was not killed: {job['reason']}")

    def _check_disk(self, job: str) -> None:
        owner = self._find_owner()
        if owner is None:
            return
        state = inspect_disk(self._find_files(owner).disk, self._printed)
        if state.problems:
            raise BrokenLife(f"after {job}: " + "; ".join(state.problems))
        self._printed = state.counter
        self._truth.done["disks checked"] += 1
        self._truth.done["disks with clusters to spare"] += state.has_leaks
        self._truth.done["writes found"] = max(self._truth.done["writes found"], state.counter)

    def _delete(self) -> None:
        """Remove the disk, by a command that may be killed or as the command does it."""
        self.inode = None
        if self._find_owner() is None:
            return
        if self._chance.random() < 0.3:
            words = [GPUPOOL, "vm", "delete", self._jobs[-1], "--yes"]
            self.client = subprocess.Popen(
                words,
                env=environment(GPUPOOL_STATE_DIR=str(self._pool.paths.root)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            self.client.wait(PATIENCE_SECONDS)
            self.client = None
        for job in self._jobs:
            delete_files(self._find_files(job))
        self._truth.done["deleted"] += 1

    def _find_files(self, job: str) -> VmFiles:
        return VmFiles(self._pool.paths.vms, job)

    def _await(
        self, api: Api, job: str, is_reached: Callable[[dict[str, Any]], bool]
    ) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            found: dict[str, Any] = ask_pool(api, "GET", f"jobs/{job}")
            if is_reached(found):
                return found
            if time.monotonic() > deadline:
                raise BrokenLife(f"{job} is {found['state']} for {PATIENCE_SECONDS:g} s")
            time.sleep(0.1)  # between two looks


def ask_pool(api: Api, method: str, path: str, body: Any = None, **options: Any) -> Any:
    """The pool's answer, asked for again while the pool is away. Only for what may be repeated."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return api.request(method, path, body, **options)
        except ServiceUnavailable:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)  # between two questions


def describe_failure(life: VmLife) -> str:
    """Describe why a life ended early; empty where it did not."""
    error = life.failure
    if error is None:
        return ""
    text = error.message if isinstance(error, GpupoolError) else str(error)
    return f"{life.name}: {type(error).__name__}: {text}"
