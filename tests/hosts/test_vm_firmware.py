"""Virtual machines that boot by UEFI: real OVMF, its variables, and regions of large cards."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from gpupool.base.errors import VmRejection
from gpupool.mechanisms.contract import PciFunction
from gpupool.model.vm import GIB, MIB, VmSpec
from gpupool.vm.argv import VmHardware, build_arguments
from gpupool.vm.disk import Account
from gpupool.vm.files import VARIABLES
from gpupool.vm.firmware import find_firmware, make_variables
from tests.e2e.pool_fixture import RealPool
from tests.hosts import guest

SECONDS = 180.0
#: Two such cards need more than QEMU and OVMF leave by themselves. A device of QEMU has a region of any
#: size, and nothing behind it. An emulated processor has 40 bits of addresses, so no larger.
BAR_BYTES = 128 * GIB


def find_missing_part() -> str:
    try:
        find_firmware()
    except VmRejection as refusal:
        return f"{refusal.message}: {refusal.hint}"
    return guest.find_missing_part()


pytestmark = [
    pytest.mark.hosts,
    pytest.mark.skipif(bool(find_missing_part()), reason=find_missing_part()),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("uefi")
    guest.write_initramfs(made / "initrd")
    return made


def find_kernel() -> str:
    kernel = guest.find_kernel()
    assert isinstance(kernel, guest.TestKernel)
    return str(kernel.image)


def test_variables_of_the_firmware_stay_with_the_disk(folder: Path, tmp_path: Path) -> None:
    image = folder / "tiny.raw"
    image.write_bytes(guest.make_boot_disk())
    with RealPool(tmp_path / "pool", "1xH200") as pool:
        options = ("--image", str(image), "--ram", "192MiB", "--cpus", "1", "--firmware", "uefi")
        first = pool.do("vm", "run", *options, "--name", "dev").strip()
        pool.until_state("dev", "running")
        vms = pool.state_dir / "agent" / "vms"
        variables = vms / first / "run" / VARIABLES
        number = variables.stat().st_ino
        # OVMF stores what it found at each start, so the file is no copy of the empty one for long.
        empty = find_firmware().variables.read_bytes()
        pool.until(lambda: variables.read_bytes() != empty, "OVMF writes its variables")
        assert "OVMF_CODE" in pool.do("vm", "xml", "dev")
        pool.do("vm", "stop", "dev", "--grace", "0")
        second = pool.do("vm", "start", first).strip()
        pool.until(lambda: pool.job(second)["state"] == "running", "it runs again")
        assert (vms / second / "run" / VARIABLES).stat().st_ino == number
        assert not (vms / first).exists()
        pool.do("vm", "stop", second, "--grace", "0")
        pool.do("vm", "delete", second, "--yes")
        assert list(vms.iterdir()) == []


def test_the_window_holds_the_regions_of_two_cards(folder: Path, tmp_path: Path) -> None:
    bars = (16 * MIB, BAR_BYTES)
    cards = [PciFunction(f"0000:0{slot}:00.0", slot, "vfio-pci", bars) for slot in (1, 2)]
    files = find_firmware()
    make_variables(tmp_path / VARIABLES, files, Account())
    append = f"{guest.APPEND} {guest.SHOW_REGIONS}"
    spec = VmSpec(1, 192 * MIB, kernel=find_kernel(), initrd=f"{folder}/initrd", append=append)
    words = build_arguments(
        "j-1", "dev", spec, VmHardware("tcg", tuple(cards), firmware_code=str(files.code))
    )
    assert f"q35-pcihost.pci-hole64-size={512 * GIB}" in words
    command = [use_test_device(word) for word in words]
    log = tmp_path / "log"
    with open(log, "wb") as output:
        command[words.index("-add-fd") + 1] = "fd=3,set=3,opaque=log"
        shell = ["/bin/sh", "-c", 'exec 3>&1; exec "$@"', "sh", *command]
        process = subprocess.Popen(shell, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=output)
    try:
        deadline = time.monotonic() + SECONDS
        while guest.UP.encode() not in log.read_bytes():
            assert time.monotonic() < deadline, log.read_bytes()[-2000:]
            assert process.poll() is None
            time.sleep(0.1)  # between two looks
    finally:
        process.kill()
        process.wait()
    regions: set[tuple[int, int]] = set()
    for start, end in re.findall(r"^(0x[0-9a-f]{16}) (0x[0-9a-f]{16}) ", log.read_text(), re.M):
        if int(end, 16) - int(start, 16) + 1 == BAR_BYTES:
            regions.add((int(start, 16), int(end, 16)))
    (first, second) = sorted(regions)
    assert first[0] >= 4 * GIB
    assert first[1] < second[0]


def use_test_device(word: str) -> str:
    """Replace a card by QEMU's device with a region of the same size."""
    if not word.startswith("vfio-pci,"):
        return word
    bus = next(part for part in word.split(",") if part.startswith("bus="))
    return f"pci-testdev,membar={BAR_BYTES},{bus}"


def test_no_other_account_reads_the_variables(tmp_path: Path) -> None:
    make_variables(tmp_path / VARIABLES, find_firmware(), Account())
    found = (tmp_path / VARIABLES).stat()
    assert (found.st_mode & 0o777, found.st_uid) == (0o600, os.geteuid())
