"""An image of Debian that gpupool builds: it boots as a VM, cloud-init is content, and SSH lets the key in.

Minutes, and an archive of packages: `make test-nightly`. `GPUPOOL_TEST_MIRROR` names another archive than
Debian's own, `GPUPOOL_TEST_IMAGE` an image that was built before.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpupool.vm.image_build import PROGRAMS
from tests.e2e.pool_fixture import RealPool
from tests.hosts import guest

BUILD_SECONDS = 3600.0
#: From the start of QEMU until SSH answers. Emulated on two busy cores it took four minutes.
BOOT_SECONDS = 1800.0


def find_missing_part() -> str:
    for program, package in PROGRAMS.items():
        if shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None:
            return f"no {program}: apt-get install {package}"
    if shutil.which("ssh") is None:
        return "no ssh: apt-get install openssh-client"
    return guest.find_missing_part()


pytestmark = [
    pytest.mark.hosts,
    pytest.mark.slow,
    pytest.mark.root,
    pytest.mark.skipif(bool(find_missing_part()), reason=find_missing_part()),
]


def test_a_built_image_boots_with_cloud_init_and_lets_the_key_in(tmp_path: Path) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    with RealPool(tmp_path / "pool", "1xH200") as pool:
        store_image(pool)
        size = ("--cpus", "2", "--ram", "1GiB")
        pool.do(
            "vm", "run", "--image", "nightly", *size, "--ssh-key", f"{key}.pub", "--name", "dev"
        )
        await_login(pool)
        assert ask_guest(pool, "cloud-init status --wait").strip(".\n") == "status: done"
        # One line for each device that the VM has, and no card: simulated ones are in no guest.
        devices = ask_guest(pool, "lspci")
        assert devices.count("Virtio block device") == 2
        assert devices.count("Virtio network device") == 1
        assert ask_guest(pool, "hostname") == "dev\n"
        key_words = ("-i", str(key), "debian@dev")
        assert pool.run("vm", "ssh", *key_words, "whoami", timeout=600).stdout == "debian\n"
        assert ask_guest(pool, "sudo -n id -u") == "0\n"
        # What a guest of its own has: a host key, an identity, and the room of its disk.
        assert ask_guest(pool, "cat /etc/machine-id") not in ("", "uninitialized\n")
        assert "running" in ask_guest(pool, "systemctl is-system-running --wait || true")
        # systemd-logind obeys the power button within the grace period.
        assert pool.run("vm", "stop", "dev", timeout=BOOT_SECONDS).stdout == "dev done\n"
        pool.do("vm", "delete", "dev", "--yes")
    # The end of the pool is a purge: no image is left.
    assert not (tmp_path / "pool").exists()


def store_image(pool: RealPool) -> None:
    built = os.environ.get("GPUPOOL_TEST_IMAGE")
    if built is not None:
        words = ("vm", "image", "import", built, "--name", "nightly")
        assert pool.run(*words, timeout=BUILD_SECONDS).returncode == 0
        return
    mirror = os.environ.get("GPUPOOL_TEST_MIRROR")
    options = () if mirror is None else ("--mirror", mirror)
    began = time.monotonic()
    done = pool.run("vm", "image", "build", "--name", "nightly", *options, timeout=BUILD_SECONDS)
    assert done.returncode == 0, done.stderr[-4000:]
    images = sorted(path.suffix for path in (pool.state_dir / "images").iterdir())
    assert images == [".json", ".qcow2"]
    sys.stderr.write(f"built in {time.monotonic() - began:.0f} s\n")


def await_login(pool: RealPool) -> None:
    """Wait until the guest lets the key in; fails with the guest's console."""
    deadline = time.monotonic() + BOOT_SECONDS
    while run_in_guest(pool, "true").returncode != 0:
        assert time.monotonic() < deadline, pool.do("logs", "dev")[-4000:]
        time.sleep(5)  # between two looks from outside


def ask_guest(pool: RealPool, command: str) -> str:
    done = run_in_guest(pool, command)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


def run_in_guest(pool: RealPool, command: str) -> subprocess.CompletedProcess[str]:
    """Run a command by `gpupool vm ssh`, with the key of this test."""
    key = str(pool.state_dir.parent / "key")
    words = ("vm", "ssh", "-i", key, "dev", "-l", "debian", command)
    return pool.run(*words, timeout=BOOT_SECONDS)
