"""Virtual machines on a real pool: QEMU boots a kernel of the distribution as a job.

The cards are simulated, so no guest sees them; they are held and metered all the same.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.agent.jobs.faults import VM_STEPS
from gpupool.vm.argv import make_mac, make_uuid
from tests.e2e.pool_fixture import RealPool
from tests.hosts import guest

pytestmark = [
    pytest.mark.hosts,
    pytest.mark.skipif(bool(guest.find_missing_part()), reason=guest.find_missing_part()),
]


SMALL = ("--ram", "64MiB", "--cpus", "1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of guests, which the account of a VM can reach."""
    made = tmp_path_factory.mktemp("guest")
    for one in (made, *list(made.parents)[:2]):
        # Also where `--basetemp` is short: a directory that all share stays as it is.
        one.chmod(one.stat().st_mode | 0o755)
    return made


@pytest.fixture(scope="module")
def linux(folder: Path) -> list[str]:
    """The options of a VM with a kernel, an initial file system and an empty disk."""
    guest.write_initramfs(folder / "initrd")
    image = folder / "empty.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", image, "64M"], check=True)
    kernel = guest.find_kernel()
    assert isinstance(kernel, guest.TestKernel)
    return [
        *("--kernel", str(kernel.image), "--initrd", str(folder / "initrd")),
        *("--append", guest.APPEND, "--image", str(image), "--ram", "192MiB", "--cpus", "1"),
    ]


@pytest.fixture(scope="module")
def tiny(folder: Path) -> list[str]:
    """The options of a VM that is up at once and knows no power button."""
    image = folder / "tiny.raw"
    image.write_bytes(guest.make_boot_disk())
    return ["--image", str(image), *SMALL]


@pytest.fixture(scope="module")
def shared_pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPool]:
    with RealPool(tmp_path_factory.mktemp("vms") / "pool", "2xL40S") as made:
        yield made


@pytest.fixture
def pool(shared_pool: RealPool) -> Iterator[RealPool]:
    """A pool on which nothing runs, and no file of a VM is left."""
    yield shared_pool
    shared_pool.stop_all()
    for row in shared_pool.json("vm", "list"):
        shared_pool.do("vm", "delete", row["id"], "--yes")
    assert (files(shared_pool), qemu_pids(shared_pool)) == ([], [])


def start(pool: RealPool, parts: list[str], name: str) -> str:
    """Start a VM; its job."""
    return pool.do("vm", "run", "--gpu", "1", *parts, "--name", name).strip()


def vm(pool: RealPool, name: str) -> dict[str, Any]:
    rows = [row for row in pool.json("vm", "list", "--all") if row["name"] == name]
    assert len(rows) == 1, rows
    found: dict[str, Any] = rows[0]
    return found


def files(pool: RealPool) -> list[str]:
    """Everything below the directory of VMs."""
    root = pool.state_dir / "agent" / "vms"
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def qemu_pids(pool: RealPool) -> list[int]:
    """The QEMUs that run in a directory of this pool."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        try:
            program = (entry / "exe").readlink().name
            directory = (entry / "cwd").readlink()
        except (OSError, ValueError):
            continue
        if program.startswith("qemu-system") and directory.is_relative_to(pool.state_dir):
            found.append(int(entry.name))
    return found


def await_text(pool: RealPool, name: str, text: str) -> None:
    pool.until(lambda: text in pool.run("logs", name).stdout, f"{text!r} in the log of {name}")


def test_a_vm_boots_survives_its_server_powers_off_and_leaves_nothing(
    pool: RealPool, linux: list[str]
) -> None:
    job = start(pool, linux, "dev")
    await_text(pool, "dev", guest.UP)
    row = vm(pool, "dev")
    assert (row["state"], row["devices"], row["simulated"]) == ("running", [], True)
    assert row["disk"] is True
    assert row["address"].startswith("127.0.0.1:")
    assert row["emulated"] is bool(row["emulated_why"])
    assert pool.held_milli() == 1000

    console = pool.start("vm", "console", "dev", stdin=subprocess.PIPE)
    assert console.stdin is not None
    console.stdin.write(b"good day\n")
    console.stdin.flush()
    await_text(pool, "dev", "heard: good day")

    before = qemu_pids(pool)
    os.kill(pool.server_pid(), signal.SIGKILL)
    assert qemu_pids(pool) == before
    pool.up("--sim", pool.sim)
    pool.until(lambda: vm(pool, "dev")["state"] == "running", "the VM is taken back")
    assert qemu_pids(pool) == before
    assert vm(pool, "dev")["address"] == row["address"]

    assert pool.do("vm", "stop", "dev") == "dev done\n"
    assert console.wait(30) == 0
    assert "powering off" in pool.do("logs", "dev")
    assert (qemu_pids(pool), pool.held_milli()) == ([], 0)
    assert vm(pool, "dev")["state"] == "ended"
    assert f"{job}/run/disk.qcow2" in files(pool)
    assert "<name>dev</name>" in pool.do("vm", "xml", "dev")
    assert "kind: VirtualMachine" in pool.do("vm", "xml", "dev", "--for", "kubevirt")

    assert pool.do("vm", "delete", "dev", "--yes").endswith("dev deleted\n")
    assert files(pool) == []
    ended = pool.job(job)
    assert (ended["state"], ended["exit_code"]) == ("done", 0)
    usage = [row for row in pool.json("report", "--by", "job")["rows"] if row["job"] == job]
    seconds = round((ended["ended_ns"] - ended["started_ns"]) / 1e9)
    # The card is billed from its placement to its release, in whole seconds.
    assert usage[0]["card_milliseconds"] >= (seconds - 1) * 1000
    assert usage[0]["cpu_milliseconds"] > 0


def test_a_vm_without_a_card_leaves_all_cards_to_others(pool: RealPool, linux: list[str]) -> None:
    pool.do("vm", "run", "--gpu", "none", *linux, "--name", "build")
    await_text(pool, "build", guest.UP)
    job = pool.job("build")
    assert (job["count"], job["gpu_milli"], job["seats"], job["device"]) == (0, 0, [], None)
    assert (job["share"], job["mechanism"], job["cpu_milli"]) == ("no GPU", "no-card", 1000)
    assert job["node"] == "sim-0"
    row = vm(pool, "build")
    assert (row["state"], row["cards"], row["devices"]) == ("running", [], [])
    assert pool.held_milli() == 0
    # Both cards are free, also whole.
    assert pool.run("run", "--gpu", "2", "--no-wait", "--", "true").returncode == 0
    # What it holds of its node is on record, and comes back.
    shown = pool.do("show", "build")
    assert "no GPU" in shown
    explained = pool.do("explain", "build")
    assert "it takes no card" in explained

    before = qemu_pids(pool)
    os.kill(pool.server_pid(), signal.SIGKILL)
    pool.up("--sim", pool.sim)
    pool.until(lambda: vm(pool, "build")["state"] == "running", "the VM is taken back")
    assert qemu_pids(pool) == before
    assert pool.do("vm", "stop", "build") == "build done\n"
    pool.do("vm", "start", "build")
    pool.until_state("build", "running")
    assert pool.job("build")["count"] == 0


def test_a_guest_that_ignores_its_button_is_ended_after_the_grace(
    pool: RealPool, tiny: list[str]
) -> None:
    start(pool, tiny, "deaf")
    await_text(pool, "deaf", guest.UP)
    refused = pool.run("vm", "delete", "deaf", "--yes")
    assert (refused.returncode, "gpupool vm stop deaf" in refused.stderr) == (3, True)
    assert pool.do("vm", "reset", "deaf") == "deaf reset\n"
    pool.until(lambda: pool.do("logs", "deaf").count(guest.UP) == 2, "the guest is up again")
    assert pool.do("vm", "stop", "deaf", "--grace", "1s") == "deaf stopped\n"
    assert (qemu_pids(pool), pool.held_milli()) == ([], 0)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("step", VM_STEPS)
def test_killed_at_a_step_of_its_start_a_vm_starts_once_and_keeps_its_disk(
    tmp_path: Path, tiny: list[str], step: str
) -> None:
    pool = RealPool(tmp_path / "pool", "1xL40S")
    plain = dict(pool.environ)
    pool.environ |= {"GPUPOOL_FAULT": step, "GPUPOOL_FAULTS_ALLOWED": "1"}
    pool.up("--sim", pool.sim)
    try:
        server = pool.server_pid()
        job = start(pool, tiny, "dev")
        pool.until(lambda: not Path(f"/proc/{server}").exists(), "the kill")
        assert qemu_pids(pool) == []
        disk = pool.state_dir / "agent" / "vms" / job / "run" / "disk.qcow2"
        before = disk.stat().st_ino if disk.exists() else None
        assert (before is None) is (step == "vm-directory-made")
        pool.environ = plain
        pool.up("--sim", pool.sim)
        pool.until_state("dev", "running")
        assert len(qemu_pids(pool)) == 1
        assert before in (None, disk.stat().st_ino)
        pool.do("vm", "stop", "dev", "--grace", "0")
        pool.do("vm", "delete", "dev", "--yes")
        assert (files(pool), qemu_pids(pool), pool.held_milli()) == ([], [], 0)
    finally:
        pool.environ = plain
        pool.do("down", "--purge", "--yes", "--grace", "1s")


def test_a_vm_that_ended_starts_again_with_its_disk_and_its_addresses(
    pool: RealPool, tiny: list[str]
) -> None:
    first = start(pool, tiny, "again")
    pool.until_state("again", "running")
    refused = pool.run("vm", "start", first)
    assert (refused.returncode, "again is running" in refused.stderr) == (3, True)
    pool.do("vm", "stop", first, "--grace", "0")
    disk = pool.state_dir / "agent" / "vms" / first / "run" / "disk.qcow2"
    number = disk.stat().st_ino
    second = pool.do("vm", "start", first).strip()
    await_text(pool, second, guest.UP)
    assert not disk.exists()
    assert disk.parents[2].joinpath(second, "run", "disk.qcow2").stat().st_ino == number
    assert [row["id"] for row in pool.json("vm", "list")] == [second]
    unique = make_uuid(first)
    assert f"<uuid>{unique}</uuid>" in pool.do("vm", "xml", second)
    assert make_mac(first) in pool.do("vm", "xml", second)
    gone = pool.run("vm", "start", first)
    assert (gone.returncode, "no" in gone.stderr) == (3, True)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("step", ["vm-directory-made", "vm-recorded", "vm-disk-taken"])
def test_killed_while_a_vm_starts_again_its_disk_is_never_lost(
    tmp_path: Path, tiny: list[str], step: str
) -> None:
    pool = RealPool(tmp_path / "pool", "1xL40S")
    plain = dict(pool.environ)
    pool.up("--sim", pool.sim)
    try:
        first = start(pool, tiny, "dev")
        pool.until_state("dev", "running")
        pool.do("vm", "stop", "dev", "--grace", "0")
        root = pool.state_dir / "agent" / "vms"
        number = (root / first / "run" / "disk.qcow2").stat().st_ino
        pool.do("down")
        pool.environ |= {"GPUPOOL_FAULT": step, "GPUPOOL_FAULTS_ALLOWED": "1"}
        pool.up("--sim", pool.sim)
        server = pool.server_pid()
        second = pool.do("vm", "start", first).strip()
        pool.until(lambda: not Path(f"/proc/{server}").exists(), "the kill")
        assert [disk.stat().st_ino for disk in root.rglob("disk.qcow2")] == [number]
        pool.environ = plain
        pool.up("--sim", pool.sim)
        pool.until(lambda: pool.job(second)["state"] == "running", "it runs")
        assert (root / second / "run" / "disk.qcow2").stat().st_ino == number
        assert len(qemu_pids(pool)) == 1
    finally:
        pool.environ = plain
        pool.do("down", "--purge", "--yes", "--grace", "1s")


def test_what_cannot_start_is_refused_with_what_was_found(
    pool: RealPool, tiny: list[str], tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("no disk\n" * 200)
    refused = [
        (["--gpu", "0.3", *tiny], 3, "whole cards"),
        (["--gpu", "none", "--model", "L40S", *tiny], 2, "--model L40S with --gpu none"),
        (["--image", str(tmp_path / "notes.txt")], 2, "got text of 1600 bytes"),
        (["--image", str(tmp_path / "absent.qcow2")], 2, "No such file"),
        (["--image", "absent"], 5, "gpupool vm image list"),
        ([*tiny, "--ram", "1MiB"], 2, "64 MiB to 16 TiB"),
        ([], 2, "--image IMAGE"),
    ]
    for options, code, text in refused:
        done = pool.run("vm", "run", *options)
        assert (done.returncode, text in done.stderr) == (code, True), done.stderr
    assert (files(pool), pool.held_milli()) == ([], 0)


@pytest.mark.parametrize("size", [["--cpus", "1000"], ["--ram", "15TiB"]])
def test_a_vm_larger_than_its_host_is_refused_with_both_numbers(
    pool: RealPool, tiny: list[str], size: list[str]
) -> None:
    # A simulated node has any processors and memory; its host has not.
    pool.do("vm", "run", *tiny, *size, "--name", f"huge-{size[1].lower()}")
    reason = pool.until_state(f"huge-{size[1].lower()}", "failed")["reason"]
    assert "this host has" in reason
    assert size[1].removesuffix("TiB") in reason or "15728640 MiB" in reason
    assert files(pool) == []


def test_an_image_is_stored_once_and_vms_start_from_its_name(
    pool: RealPool, linux: list[str], tmp_path: Path
) -> None:
    source = linux[linux.index("--image") + 1]
    stored = pool.do("vm", "image", "import", source, "--name", "small")
    assert pool.do("vm", "image", "import", source, "--name", "small") == stored
    image = pool.json("vm", "image", "list")[0]
    assert (image["name"], image["format"], image["disk_bytes"]) == ("small", "qcow2", 64 << 20)
    assert os.stat(image["path"]).st_mode & 0o777 == 0o444

    overlay = tmp_path / "overlay.qcow2"
    subprocess.run(
        ["qemu-img", "create", "-q", "-f", "qcow2", "-b", source, "-F", "qcow2", overlay],
        check=True,
    )
    refused = pool.run("vm", "image", "import", str(overlay))
    assert (refused.returncode, "stands alone" in refused.stderr) == (2, True)

    pool.do("vm", "run", "--image", "small", *SMALL, "--name", "of-image")
    pool.until_state("of-image", "running")
    info = json.loads(
        subprocess.run(
            ["qemu-img", "info", "-U", "--output=json",
             pool.state_dir / "agent" / "vms" / vm(pool, "of-image")["id"] / "run" / "disk.qcow2"],
            check=True, capture_output=True,
        ).stdout
    )  # fmt: skip
    assert info["backing-filename"] == image["path"]
