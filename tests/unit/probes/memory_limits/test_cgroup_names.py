"""Which name a cgroup's directory has in /proc/PID/cgroup."""

import os
from pathlib import Path

import pytest

from gpupool.probes.memory_limits.cgroup_names import find_group_name
from tests.support.job_cgroups import enter_group, open_pool_group

HYBRID = """\
23 1 0:5 / / rw - ext4 /dev/vda rw
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct
40 31 0:37 / /sys/fs/cgroup/systemd rw shared:7 - cgroup cgroup rw,xattr,name=systemd
41 31 0:38 /outer /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
UNIFIED = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"


def find_name(directory: str, mounts: str, folder: Path) -> str | None:
    (folder / "self").mkdir(exist_ok=True)
    (folder / "self/mountinfo").write_text(mounts)
    return find_group_name(Path(directory), folder)


@pytest.mark.parametrize("name", ["\u2028", "\x85", "\udcff"])
def test_a_mount_of_any_name_hides_no_cgroup(name: str, tmp_path: Path) -> None:
    line = f"50 22 0:50 / /home/ann/a{name}b rw - fuse.sshfs ann@x:/ rw\n"
    (tmp_path / "self").mkdir()
    (tmp_path / "self/mountinfo").write_bytes(os.fsencode(line) + UNIFIED.encode())
    assert find_group_name(Path("/sys/fs/cgroup/gpupool-p/job"), tmp_path) == ":/gpupool-p/job"


@pytest.mark.parametrize(
    ("mounts", "directory", "name"),
    [
        (UNIFIED, "/sys/fs/cgroup/gpupool-p/job", ":/gpupool-p/job"),
        (HYBRID, "/sys/fs/cgroup/cpu/gpupool-p/job", "cpu:/gpupool-p/job"),
        (HYBRID, "/sys/fs/cgroup/systemd/job", "name=systemd:/job"),
        (HYBRID, "/sys/fs/cgroup/unified/job", ":/outer/job"),
        (UNIFIED, "/sys/fs/cgroup", None),
        (UNIFIED, "/sys/fs/cgroup-2/job", None),
        (HYBRID, "/sys/fs/cgroup/job", None),
    ],
)
def test_a_directory_has_the_name_of_its_cgroup(
    mounts: str, directory: str, name: str | None, tmp_path: Path
) -> None:
    assert find_name(directory, mounts, tmp_path) == name


@pytest.mark.root
def test_the_kernel_names_a_real_cgroup_alike() -> None:
    with open_pool_group() as pool:
        group = pool / "job"
        group.mkdir()
        name = find_group_name(group)
        assert name is not None
        child = os.fork()
        if child == 0:
            enter_group(group)
            text = Path("/proc/self/cgroup").read_text()
            lines = [line.partition(":")[2] for line in text.splitlines()]
            os._exit(0 if name in lines else 1)
        assert os.waitpid(child, 0)[1] == 0
