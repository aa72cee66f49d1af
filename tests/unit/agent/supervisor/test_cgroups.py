"""Which cgroups a host offers, from recorded hosts; and ending and removing a job's own, on the
real ones."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.agent.supervisor import cgroups
from gpupool.agent.supervisor.cgroups import (
    CgroupSupport,
    detect_cgroups,
    find_job_cgroups,
)
from gpupool.agent.supervisor.host_limits import limit_host
from gpupool.agent.supervisor.pool_cgroups import remove_pool
from tests.support.supervised import SECONDS

V2_HOST = {
    "mountinfo": "29 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
    "30 22 0:27 / /proc rw - proc proc rw\n",
    "cgroup": "0::/user.slice/user-1000.slice/user@1000.service/app.slice/pool.scope\n",
    "groups": ["", "user.slice/user-1000.slice/user@1000.service/app.slice/pool.scope"],
}
V1_HOST = {
    "mountinfo": "".join(
        f"{number} 22 0:{number} / /sys/fs/cgroup/{name} rw,relatime - cgroup cgroup rw,{name}\n"
        for number, name in enumerate(["cpu,cpuacct", "memory", "devices", "freezer", "pids"], 30)
    )
    + "40 22 0:40 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n",
    "cgroup": "5:cpu,cpuacct:/\n4:memory:/a\n3:devices:/a\n2:freezer:/\n6:pids:/\n1:name=systemd:/init.scope\n",
    "groups": ["memory", "devices", "freezer", "pids", "cpu,cpuacct", "memory/a", "devices/a"],
}
HYBRID_HOST = V1_HOST | {
    "mountinfo": str(V1_HOST["mountinfo"])
    + "41 22 0:41 / /sys/fs/cgroup/unified rw - cgroup2 cgroup rw\n",
    "cgroup": str(V1_HOST["cgroup"]) + "0::/init.scope\n",
    "groups": [*V1_HOST["groups"], "unified"],
}
NO_HOST = {"mountinfo": "22 1 0:20 / / rw - ext4 /dev/root rw\n", "cgroup": "", "groups": []}


def recorded(tmp_path: Path, host: dict[str, object]) -> tuple[Path, Path]:
    proc, sys_root = tmp_path / "proc", tmp_path / "sys"
    (proc / "self").mkdir(parents=True)
    (proc / "self" / "mountinfo").write_text(str(host["mountinfo"]))
    (proc / "self" / "cgroup").write_text(str(host["cgroup"]))
    names = host["groups"]
    assert isinstance(names, list)
    for name in names:
        (sys_root / "fs/cgroup" / name).mkdir(parents=True, exist_ok=True)
        (sys_root / "fs/cgroup" / name / "cgroup.procs").touch()
    return proc, sys_root


def groups_of(tmp_path: Path, host: dict[str, object], uid: int) -> tuple[CgroupSupport, list[str]]:
    support = detect_cgroups(*recorded(tmp_path, host), uid=uid, writable=lambda path: True)
    base = tmp_path / "sys/fs/cgroup"
    return support, [
        str(Path(path).relative_to(base)) for path in find_job_cgroups(support, "p1", "j1")
    ]


def test_on_v2_root_gets_one_group_at_the_top(tmp_path: Path) -> None:
    support, groups = groups_of(tmp_path, V2_HOST, 0)
    assert (support.kind, groups) == ("v2", ["gpupool-p1/j1"])


def test_on_v2_a_user_gets_one_below_what_was_delegated_to_him(tmp_path: Path) -> None:
    support, groups = groups_of(tmp_path, V2_HOST, 1000)
    scope = "user.slice/user-1000.slice/user@1000.service/app.slice/pool.scope"
    assert (support.kind, groups) == ("v2", [f"{scope}/gpupool-p1/j1"])


def test_on_v1_a_job_gets_a_group_where_it_can_be_kept_counted_and_frozen(tmp_path: Path) -> None:
    support, groups = groups_of(tmp_path, V1_HOST, 0)
    assert support.kind == "v1"
    assert groups == [f"{name}/gpupool-p1/j1" for name in ("memory", "devices", "freezer", "pids")]


def test_on_a_hybrid_host_v2_takes_the_freezers_place(tmp_path: Path) -> None:
    support, groups = groups_of(tmp_path, HYBRID_HOST, 0)
    assert support.kind == "v1"
    assert groups == [f"{name}/gpupool-p1/j1" for name in ("memory", "devices", "pids", "unified")]


@pytest.mark.parametrize("name", ["\u2028", "\x85", "\xa0", "\udcff"])
def test_a_mount_of_any_name_hides_no_hierarchy(tmp_path: Path, name: str) -> None:
    """Users mount what they like by FUSE; before, no agent started beside such a mount."""
    proc, sys_root = recorded(tmp_path, V2_HOST)
    line = f"50 22 0:50 / /home/ann/a{name}b rw,nosuid - fuse.sshfs ann@x:/ rw\n"
    mounts = proc / "self" / "mountinfo"
    mounts.write_bytes(os.fsencode(line) + mounts.read_bytes())
    support = detect_cgroups(proc, sys_root, uid=0, writable=lambda path: True)
    assert support.kind == "v2"


def test_a_host_without_cgroups_has_none(tmp_path: Path) -> None:
    support, groups = groups_of(tmp_path, NO_HOST, 0)
    assert (support.kind, groups, support.refusals) == ("none", [], ())


def test_what_cannot_be_written_is_said_and_not_used(tmp_path: Path) -> None:
    support = detect_cgroups(*recorded(tmp_path, V2_HOST), uid=1000, writable=lambda path: False)
    assert support.kind == "none"
    assert find_job_cgroups(support, "p1", "j1") == ()
    (refusal,) = support.refusals
    assert refusal.startswith("cgroup v2: ")
    assert refusal.endswith("pool.scope is not ours to write")


def test_a_v1_host_whose_devices_are_not_ours_still_uses_the_rest(tmp_path: Path) -> None:
    support = detect_cgroups(
        *recorded(tmp_path, V1_HOST), uid=0, writable=lambda path: "devices" not in path.parts
    )
    assert [path.split("/")[-3] for path in find_job_cgroups(support, "p1", "j1")] == [
        "memory",
        "freezer",
        "pids",
    ]
    assert len(support.refusals) == 1


@pytest.mark.parametrize("name", ["", "..", ".", "a/b", "-x", "a\n", "é", "x" * 200])
def test_a_name_that_could_lead_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    support = detect_cgroups(*recorded(tmp_path, V2_HOST), uid=0, writable=lambda path: True)
    with pytest.raises(ValueError, match="cannot be the name of a cgroup"):
        find_job_cgroups(support, "p1", name)
    with pytest.raises(ValueError, match="cannot be the name of a cgroup"):
        find_job_cgroups(support, name, "j1")


@pytest.mark.parametrize(
    "path", ["/sys/fs/cgroup/system.slice/sshd.service", "/sys/fs/cgroup", "/"]
)
def test_a_group_of_somebody_else_is_never_touched(path: str) -> None:
    with pytest.raises(ValueError, match="not a job's cgroup of gpupool"):
        cgroups.kill_members([path])
    with pytest.raises(ValueError, match="not a job's cgroup of gpupool"):
        cgroups.remove_groups([path])


def test_a_device_rule_names_a_device_and_nothing_else(tmp_path: Path) -> None:
    assert cgroups.make_device_rule(Path("/dev/null")) == "c 1:3 rwm"
    assert cgroups.make_device_rule(Path("/dev/null"), "r") == "c 1:3 r"
    with pytest.raises(ValueError, match="is not a device"):
        cgroups.make_device_rule(tmp_path)


def test_this_host_can_be_looked_at_by_anybody() -> None:
    support = detect_cgroups()
    assert support.kind in ("v1", "v2", "none")
    assert support.kind == "none" or find_job_cgroups(support, "p", "j")


POOL = f"testcg{os.getpid()}"
SUPPORT = detect_cgroups()
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
needs_cgroups = pytest.mark.skipif(
    SUPPORT.kind == "none", reason=f"no cgroup to write: {SUPPORT.refusals}"
)


@pytest.fixture
def groups() -> Iterator[tuple[str, ...]]:
    paths = find_job_cgroups(SUPPORT, POOL, "j1")
    for path in paths:
        os.makedirs(path)
    yield paths
    cgroups.kill_members(paths)
    cgroups.remove_groups(paths)
    remove_pool(SUPPORT, POOL)


@pytest.mark.root
@needs_root
@needs_cgroups
def test_every_member_is_killed_also_those_that_keep_forking(groups: tuple[str, ...]) -> None:
    enter = "; ".join(f"echo $$ > {path}/cgroup.procs" for path in groups)
    process = subprocess.Popen(
        ["sh", "-c", f"{enter}; while :; do (setsid sleep 600 &); sleep 0.01; done"]
    )
    try:
        while not all(len(cgroups.list_members(Path(path))) > 3 for path in groups):
            assert process.poll() is None
        assert cgroups.remove_groups(groups) == groups, "a group with members stays"
        assert cgroups.kill_members(groups) == ()
    finally:
        process.kill()
    assert process.wait(SECONDS) == -9
    assert cgroups.remove_groups(groups) == ()
    assert cgroups.remove_groups(groups) == (), "the second time is as good as the first"
    assert cgroups.kill_members(groups) == ()


@pytest.mark.root
@needs_root
@needs_cgroups
def test_members_of_groups_that_the_job_made_are_killed_and_the_groups_removed(
    groups: tuple[str, ...],
) -> None:
    """Before, they lived on behind a supervisor that was killed, on cards given to others."""
    inner = [Path(path) / "inner" for path in groups]
    for path in inner:
        (path / "deeper").mkdir(parents=True)
    enter = "; ".join(f"echo $$ > {path}/deeper/cgroup.procs" for path in inner)
    process = subprocess.Popen(["sh", "-c", f"{enter}; exec sleep 600"])
    try:
        while not all(cgroups.list_members(path / "deeper") for path in inner):
            assert process.poll() is None
        assert cgroups.remove_groups(groups) == groups, "a group with members stays"
        assert cgroups.kill_members(groups) == ()
        assert process.wait(SECONDS) == -9
    finally:
        process.kill()
        process.wait(SECONDS)
    assert cgroups.remove_groups(groups) == ()


def test_a_job_is_held_to_its_part_of_the_node_where_its_group_can_and_else_that_is_said(
    tmp_path: Path,
) -> None:
    group = tmp_path / "gpupool-p1" / "j1"
    group.mkdir(parents=True)
    for name in ("memory.max", "cpu.max"):
        (group / name).touch()
    assert limit_host([str(group)], 1500, 1 << 30) == ""
    assert (group / "memory.max").read_text() == str(1 << 30)
    assert (group / "cpu.max").read_text() == "150000 100000"
    (group / "cpu.max").unlink()
    said = "its processors are counted, not enforced: its cgroup cannot limit them here"
    assert limit_host([str(group)], 1500, 1 << 30) == said
    assert limit_host([], 0, 1 << 30).startswith("its main memory is counted")
    assert limit_host([str(group)], 0, 0) == ""


def test_a_v2_group_holds_a_job_to_its_processors_and_binds_no_memory(tmp_path: Path) -> None:
    group = tmp_path / "gpupool-p1" / "j1"
    group.mkdir(parents=True)
    for name in ("memory.max", "cpu.max", "cpuset.cpus", "cpuset.mems"):
        (group / name).touch()
    assert limit_host([str(group)], 1500, 1 << 30, "0-3") == ""
    assert (group / "cpuset.cpus").read_text() == "0-3"
    assert (group / "cpuset.mems").read_text() == ""


@pytest.mark.root
def test_a_v1_group_takes_the_memory_limit(tmp_path: Path) -> None:
    support = detect_cgroups()
    groups = find_job_cgroups(support, f"test{os.getpid()}", "j1")
    v1 = [path for path in groups if "/memory/" in path]
    if not v1:
        pytest.skip("no v1 memory hierarchy here")
    try:
        assert limit_host(groups, 0, 1 << 30) == ""
        assert int((Path(v1[0]) / "memory.limit_in_bytes").read_text()) == 1 << 30
    finally:
        cgroups.remove_groups(groups)
        remove_pool(support, f"test{os.getpid()}")
