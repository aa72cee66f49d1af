"""From the command to the guest's first output: a VM of the pool beside the same QEMU started bare.

On a busy machine the difference of the clock says more of the machine than of the pool, so the
processor time that the pool spends for a start is measured as well: of the command, of the server with
its agent, and of the programs that they wait for. QEMU's own is in neither figure.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.pool import Pool, running_pool
from bench.rows import Row, median_row
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
#: Clock ticks a second, the unit of /proc/PID/stat.
TICKS = os.sysconf("SC_CLK_TCK")
RAM_BYTES = 64 * MIB
COMMAND = "gpupool vm run --image tiny.raw --ram 64MiB --cpus 1, until the guest prints"
SIGN = UP.encode()


@dataclass(frozen=True)
class StartTimes:
    """One start, in seconds: by the clock, and of processors without QEMU."""

    clock: float
    processor: float


def run(out: Path) -> list[Row]:
    ours: list[StartTimes] = []
    bare: list[StartTimes] = []
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
    (out / "vm-start.txt").write_text(f"ours {ours}\nbare {bare}\n")
    clocks = [one.clock for one in ours]
    peers = [one.clock for one in bare]
    # Means: a tick of the processors' clock is 10 ms, about a tenth of what is measured.
    processor = statistics.mean(one.processor for one in ours)
    peer = statistics.mean(one.processor for one in bare)
    added = statistics.median(clocks) - statistics.median(peers)
    command = f"{QEMU} with the same arguments, after qemu-img create"
    return [
        median_row(
            "VM: seconds until the guest's first output",
            COMMAND,
            clocks,
            peer_samples=peers,
            peer_command=command,
        ),
        Row("VM: seconds that the pool adds", "s", added, COMMAND, limit=LIMIT_SECONDS),
        Row(
            "VM: processor seconds of a start, without QEMU",
            "s",
            processor,
            COMMAND,
            peer=peer,
            peer_command=command,
            samples=tuple(one.processor for one in ours),
            peer_samples=tuple(one.processor for one in bare),
        ),
    ]


def _make_start(pool: Pool, image: Path) -> Callable[[], StartTimes]:
    """A start by the pool; its end is not measured."""
    jobs = Path(pool.env["GPUPOOL_STATE_DIR"], "agent", "jobs")
    options = ("--image", str(image), "--ram", "64MiB", "--cpus", "1")

    def start() -> StartTimes:
        before = _read_server_seconds(pool.pid) + _read_child_seconds()
        began = time.monotonic()
        job = pool.gpupool("vm", "run", *options).strip()
        _await_sign(lambda: b"".join(path.read_bytes() for path in jobs.glob(f"{job}/log*")))
        clock = time.monotonic() - began
        after = _read_server_seconds(pool.pid) + _read_child_seconds()
        pool.gpupool("vm", "stop", job, "--grace", "0")
        pool.gpupool("vm", "delete", job, "--yes")
        return StartTimes(clock, after - before)

    return start


def _make_bare(folder: Path, image: Path) -> Callable[[], StartTimes]:
    """A start of the same QEMU by hand: an overlay, then the same arguments."""
    qemu = find_program(QEMU, "qemu-system-x86")
    hardware = VmHardware(choose_accelerator(folder, qemu).name)
    spec = VmSpec(cpus=1, ram_bytes=RAM_BYTES, image=str(image))
    command = build_command("j-bare", "bare", spec, hardware)
    log = folder / "log"

    def start() -> StartTimes:
        before = _read_child_seconds()
        began = time.monotonic()
        make_overlay(folder / "disk.qcow2", image, "raw", Account())
        processor = _read_child_seconds() - before
        with open(log, "wb") as output:
            process = subprocess.Popen(command, cwd=folder, stdout=output)
        try:
            _await_sign(log.read_bytes)
            return StartTimes(time.monotonic() - began, processor)
        finally:
            process.kill()
            process.wait()
            (folder / "disk.qcow2").unlink()

    return start


def _read_server_seconds(pid: int) -> float:
    """Processor time of the server with its agent, and of the programs that they waited for.

    The supervisor and its QEMU are not their children once they run.
    """
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    # utime, stime, cutime and cstime are fields 14 to 17 of the line, from 1 on (proc(5)).
    return sum(int(field) for field in fields[11:15]) / TICKS


def _read_child_seconds() -> float:
    """Processor time of the programs that this process waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _await_sign(read: Callable[[], bytes]) -> None:
    deadline = time.monotonic() + SECONDS
    while SIGN not in read():
        if time.monotonic() > deadline:
            raise TimeoutError(f"no guest was up within {SECONDS:g} s")
        time.sleep(LOOK_SECONDS)
