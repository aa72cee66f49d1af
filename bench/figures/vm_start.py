"""From the command to the guest's first output: a VM of the pool beside the same QEMU started bare."""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.pool import Pool, running_pool
from bench.rows import Row
from gpupool.model.vm import MIB, VmSpec
from gpupool.vm.accelerator import choose_accelerator
from gpupool.vm.argv import QEMU, VmHardware, build_command
from gpupool.vm.disk import Account, find_program, make_overlay
from tests.hosts.guest import UP, make_boot_disk

NAME = "vm-start"
SIM = "1xH200"
ROUNDS = 10
SECONDS = 60.0
#: Seconds between two looks at a log: a tenth of what is measured.
LOOK_SECONDS = 0.01
#: Seconds that the pool may add: a claim is placed, an overlay made, the job's records flushed.
LIMIT_SECONDS = 0.3
RAM_BYTES = 64 * MIB
COMMAND = "gpupool vm run --image tiny.raw --ram 64MiB --cpus 1, until the guest prints"
SIGN = UP.encode()


def run(out: Path) -> list[Row]:
    ours: list[float] = []
    bare: list[float] = []
    with TemporaryDirectory() as folder, running_pool(SIM) as pool:
        image = Path(folder, "tiny.raw")
        image.write_bytes(make_boot_disk())
        start_ours = _make_start(pool, image)
        start_bare = _make_bare(Path(folder), image)
        # Both once before: the answer about /dev/kvm, and files that are read the first time.
        start_ours()
        start_bare()
        for _ in range(ROUNDS):
            ours.append(start_ours())
            bare.append(start_bare())
    added = statistics.median(ours) - statistics.median(bare)
    (out / "vm-start.txt").write_text(f"ours {ours}\nbare {bare}\n")
    return [
        Row(
            "VM: seconds until the guest's first output",
            "s",
            statistics.median(ours),
            COMMAND,
            peer=statistics.median(bare),
            peer_command=f"{QEMU} with the same arguments, after qemu-img create",
            samples=tuple(ours),
            peer_samples=tuple(bare),
        ),
        Row("VM: seconds that the pool adds", "s", added, COMMAND, limit=LIMIT_SECONDS),
    ]


def _make_start(pool: Pool, image: Path) -> Callable[[], float]:
    """A start by the pool; its end is not measured."""
    jobs = Path(pool.env["GPUPOOL_STATE_DIR"], "agent", "jobs")
    options = ("--image", str(image), "--ram", "64MiB", "--cpus", "1")

    def start() -> float:
        began = time.monotonic()
        job = pool.gpupool("vm", "run", *options).strip()
        _await_sign(lambda: b"".join(path.read_bytes() for path in jobs.glob(f"{job}/log*")))
        seconds = time.monotonic() - began
        pool.gpupool("vm", "stop", job, "--grace", "0")
        pool.gpupool("vm", "delete", job, "--yes")
        return seconds

    return start


def _make_bare(folder: Path, image: Path) -> Callable[[], float]:
    """A start of the same QEMU by hand: an overlay, then the same arguments."""
    qemu = find_program(QEMU, "qemu-system-x86")
    hardware = VmHardware(choose_accelerator(folder, qemu).name)
    spec = VmSpec(cpus=1, ram_bytes=RAM_BYTES, image=str(image))
    command = build_command("j-bare", "bare", spec, hardware)
    log = folder / "log"

    def start() -> float:
        began = time.monotonic()
        make_overlay(folder / "disk.qcow2", image, "raw", Account())
        with open(log, "wb") as output:
            process = subprocess.Popen(command, cwd=folder, stdout=output)
        try:
            _await_sign(log.read_bytes)
            return time.monotonic() - began
        finally:
            process.kill()
            process.wait()
            (folder / "disk.qcow2").unlink()

    return start


def _await_sign(read: Callable[[], bytes]) -> None:
    deadline = time.monotonic() + SECONDS
    while SIGN not in read():
        if time.monotonic() > deadline:
            raise TimeoutError(f"no guest was up within {SECONDS:g} s")
        time.sleep(LOOK_SECONDS)
