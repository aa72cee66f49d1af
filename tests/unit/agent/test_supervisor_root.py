"""What only a root pool can do: run jobs as somebody else, in cgroups, kept from devices, with a
private share."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.agent.supervisor import cgroups, client
from gpupool.agent.supervisor.client import JobState, SupervisorConnection
from gpupool.agent.supervisor.pool_cgroups import remove_pool
from gpupool.client.attach import SupervisorChannel, _expect
from gpupool_native import shim_path
from tests.support.supervised import (
    Jobs,
    await_end,
    is_alive,
    kill_supervisor,
    supervised_jobs,
    until,
)

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]

UID = 54321
SUPPORT = cgroups.detect_cgroups()
POOL = f"test{os.getpid()}"


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    for part in (tmp_path, *tmp_path.parents):
        if part != Path("/"):
            part.chmod(part.stat().st_mode | 0o111)
    yield from supervised_jobs(tmp_path)
    remove_pool(SUPPORT, POOL)


def job_groups(job_id: str) -> tuple[str, ...]:
    return cgroups.find_job_cgroups(SUPPORT, POOL, job_id)


needs_cgroups = pytest.mark.skipif(
    SUPPORT.kind == "none", reason=f"no cgroup to write: {SUPPORT.refusals}"
)


def test_a_job_runs_as_its_user_and_cannot_become_root_again(jobs: Jobs) -> None:
    script = "id -u; id -g; id -G; grep -E '^(Uid|Gid|CapPrm|CapEff|CapAmb)' /proc/self/status; exec < /etc/shadow"
    record, output = jobs.shell(script, uid=UID, gid=UID + 1, groups=(UID + 1, 7, 8))
    lines = output.decode().splitlines()
    assert lines[:3] == [str(UID), str(UID + 1), f"{UID + 1} 7 8"]
    assert {line.split(":")[0]: set(line.split()[1:]) for line in lines[3:8]} == {
        "Uid": {str(UID)},
        "Gid": {str(UID + 1)},
        "CapPrm": {"0" * 16},
        "CapEff": {"0" * 16},
        "CapAmb": {"0" * 16},
    }
    assert record.exit_code != 0


def test_a_user_without_a_group_is_refused(jobs: Jobs) -> None:
    job_dir = jobs.write("true", uid=UID)
    with pytest.raises(client.BadSpec, match="uid= is given without gid="):
        client.start_supervisor(job_dir)


def test_a_directory_that_the_user_may_not_enter_is_not_entered_with_roots_rights(
    jobs: Jobs, tmp_path: Path
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    job_dir = jobs.write("true", uid=UID, gid=UID, directory=str(closed))
    with pytest.raises(
        client.FailedToStart, match=r"cannot enter the directory .*: Permission denied"
    ):
        client.start_supervisor(job_dir)


def test_a_job_directory_that_others_may_write_is_refused(jobs: Jobs) -> None:
    job_dir = jobs.write("true")
    job_dir.chmod(0o777)
    with pytest.raises(client.BadSpec, match="writable by nobody else"):
        client.start_supervisor(job_dir)
    job_dir.chmod(0o755)
    os.chown(job_dir / "spec", UID, UID)
    with pytest.raises(client.BadSpec, match="must be a plain file of uid 0"):
        client.start_supervisor(job_dir)


def test_the_share_is_read_only_for_the_job_and_unseen_by_the_host(
    jobs: Jobs, tmp_path: Path
) -> None:
    share = tmp_path / "share"
    share.mkdir()
    (share / "limits").write_text("30 %")
    share.chmod(0o777)
    mount = Path(f"/run/gpupool-test-{os.getpid()}/self")
    script = 'cat $GPUPOOL_SHARE/limits; echo " $GPUPOOL_SHARE"; echo x > $GPUPOOL_SHARE/limits; umount $GPUPOOL_SHARE'
    fields = {"share_directory": str(share), "share_mount": str(mount)}
    try:
        record, output = jobs.shell(
            f"{script}; cat {mount}/limits; ls {mount}", uid=UID, gid=UID, **fields
        )
        assert (record.share, record.share_refused) == ("mounted", "")
        assert output.startswith(f"30 % {mount}\n".encode())
        assert b"Read-only file system" in output
        assert output.endswith(b"30 %limits\n")
        assert (share / "limits").read_text() == "30 %"
        assert list(mount.iterdir()) == []
        assert str(mount) not in Path("/proc/self/mountinfo").read_text()
    finally:
        mount.rmdir()
        mount.parent.rmdir()


def test_two_jobs_see_two_shares_at_one_path(jobs: Jobs, tmp_path: Path) -> None:
    mount = Path(f"/run/gpupool-test-{os.getpid()}/self")
    try:
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "who").write_text(name)
        fields = [
            {"share_directory": str(tmp_path / name), "share_mount": str(mount)}
            for name in ("one", "two")
        ]
        first = jobs.start("sh", "-c", f"cat {mount}/who; sleep 600", uid=UID, gid=UID, **fields[0])
        _, output = jobs.run("cat", f"{mount}/who", uid=UID, gid=UID, **fields[1])
        assert output == b"two"
        assert client.read_log(first, 0, 10).data == b"one"
    finally:
        jobs.end_all()
        mount.rmdir()
        mount.parent.rmdir()


def test_a_share_that_the_job_could_not_read_is_not_promised(jobs: Jobs, tmp_path: Path) -> None:
    share = tmp_path / "share"
    share.mkdir(mode=0o700)
    mount = Path(f"/run/gpupool-test-{os.getpid()}/self")
    job_dir = jobs.write(
        "true", uid=UID, gid=UID, share_directory=str(share), share_mount=str(mount)
    )
    try:
        with pytest.raises(
            client.FailedToStart, match="cannot be read by the job: Permission denied"
        ):
            client.start_supervisor(job_dir)
    finally:
        mount.rmdir()
        mount.parent.rmdir()


def test_a_terminal_belongs_to_the_jobs_user(jobs: Jobs) -> None:
    job_dir = jobs.start(
        "sh",
        "-c",
        "stat -L -c %u:%a /proc/self/fd/0; exec 3<>/dev/tty",
        stdio="attach",
        uid=UID,
        gid=UID,
    )
    channel = SupervisorChannel(str(job_dir / "sock"))
    channel.send("hello 1 1")
    _expect(channel, "hello")
    channel.send("attach pty 24 80")
    _expect(channel, "attached")
    (master,) = channel.take_descriptors()
    assert await_end(job_dir).exit_code == 0
    assert os.read(master, 100).startswith(f"{UID}:6".encode())
    os.close(master)
    channel.close()


@needs_cgroups
def test_a_job_is_in_its_cgroups_which_go_with_it(jobs: Jobs) -> None:
    groups = job_groups("a")
    job_dir = jobs.start("sleep", "600", uid=UID, gid=UID, cgroups=groups)
    with SupervisorConnection(job_dir) as line:
        pid = line.read_status().pid
        assert all(cgroups.list_members(Path(group)) == (pid,) for group in groups)
        assert line.read_status().supervisor_pid not in cgroups.list_members(Path(groups[0]))
        line.stop(0)
    record = await_end(job_dir)
    assert not any(Path(group).exists() for group in groups)
    assert record.memory_peak_bytes is None or record.memory_peak_bytes > 0


@needs_cgroups
def test_stop_reaches_every_member_of_the_cgroup(jobs: Jobs, tmp_path: Path) -> None:
    note = tmp_path / "note"
    loop = "while :; do sleep 0.01; done"
    script = f"(setsid sh -c 'trap \"sleep 1; echo asked > {note}; exit\" TERM; echo up; {loop}' &); sleep 600"
    job_dir = jobs.start("sh", "-c", script, cgroups=job_groups("b"))
    until(lambda: client.read_log(job_dir, 0, 10).data == b"up\n")
    with SupervisorConnection(job_dir) as line:
        line.stop(30)
    record = await_end(job_dir)
    assert (record.reason, record.signal) == ("stopped", 15)
    assert note.exists(), "the grace is everybody's, also after the command itself has gone"


@needs_cgroups
def test_a_fork_storm_in_a_cgroup_ends_with_its_job(jobs: Jobs, tmp_path: Path) -> None:
    groups = job_groups("c")
    script = "for i in 1 2 3; do (while :; do (setsid sleep 600 &); sleep 0.01; done &); done; sleep 0.3; exit 3"
    record, _ = jobs.shell(script, cgroups=groups)
    assert record.exit_code == 3
    assert not any(Path(group).exists() for group in groups)


@needs_cgroups
def test_what_a_killed_supervisor_leaves_in_the_cgroup_is_ended(jobs: Jobs, tmp_path: Path) -> None:
    groups, pids = job_groups("d"), tmp_path / "pids"
    job_dir = jobs.start(
        "sh",
        "-c",
        f"(setsid env -i sh -c 'echo $$ > {pids}; exec sleep 600' &); exec sleep 600",
        cgroups=groups,
    )
    until(lambda: pids.exists() and pids.read_text().strip())
    kill_supervisor(job_dir)
    assert client.inspect_job(job_dir).state is JobState.DIED
    client.reap_orphans(job_dir)
    assert not is_alive(int(pids.read_text()))
    assert not any(Path(group).exists() for group in groups)


def usable(version: int, controller: str = "") -> list[cgroups.Hierarchy]:
    return [
        found
        for found in SUPPORT.hierarchies
        if found.usable
        and found.version == version
        and (not controller or controller in found.controllers)
    ]


@pytest.mark.skipif(not usable(2), reason="needs cgroup v2 to count every process's time")
def test_from_start_to_exit_record_a_short_job_costs_little_more_than_a_short_pipeline(
    jobs: Jobs,
) -> None:
    group = usable(2)[0].base / f"{cgroups.PARENT_PREFIX}{POOL}" / "cost"
    group.mkdir(parents=True)

    def count_microseconds(program: str, *arguments: str) -> int:
        before = int((group / "cpu.stat").read_text().split()[1])
        enter = f"echo $$ > {group}/cgroup.procs; exec {program}"
        subprocess.run(["sh", "-c", enter, *arguments], check=True)
        until(lambda: cgroups.list_members(group) == ())
        return int((group / "cpu.stat").read_text().split()[1]) - before

    supervised, plain = [], []
    for _ in range(7):
        job_dir = jobs.write("true")
        supervised.append(count_microseconds(f"{shim_path()} $0", str(job_dir)))
        await_end(job_dir)
        plain.append(count_microseconds("sh -c 'true | true | true | true; true'"))
    group.rmdir()
    # Usually 1.7 times, whatever the machine's speed; a start of Python alone would be 8 more.
    assert min(supervised) < 4 * min(plain), (supervised, plain)


@pytest.fixture(params=["v1", "v2"])
def device_group(request: pytest.FixtureRequest) -> str:
    found = usable(1, "devices") if request.param == "v1" else usable(2)
    if not found:
        pytest.skip(f"no writable cgroup {request.param} hierarchy for device rules")
    return str(found[0].base / f"{cgroups.PARENT_PREFIX}{POOL}" / f"devices-{request.param}")


@pytest.fixture
def full(tmp_path: Path) -> Path:
    """A harmless device, /dev/full, under another name."""
    path = tmp_path / "card0"
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 7))
    path.chmod(0o666)
    return path


def test_a_denied_device_cannot_be_opened_and_others_can(
    jobs: Jobs, device_group: str, full: Path
) -> None:
    script = f"head -c 1 {full} | wc -c; head -c 1 /dev/zero | wc -c"
    rule = cgroups.make_device_rule(full)
    assert rule == "c 1:7 rwm"
    _, free = jobs.shell(script, uid=UID, gid=UID, cgroups=(device_group,))
    assert free.split() == [b"1", b"1"]
    _, denied = jobs.shell(
        script, uid=UID, gid=UID, cgroups=(device_group,), device_deny=(rule, "c 240:* rwm")
    )
    assert b"Operation not permitted" in denied
    assert denied.split()[-2:] == [b"0", b"1"]


def test_a_denial_holds_for_root_and_for_files_made_by_the_job(
    jobs: Jobs, device_group: str, full: Path
) -> None:
    script = f"mknod {full}2 c 1 7; head -c 1 {full}; head -c 1 /dev/full"
    record, output = jobs.shell(script, cgroups=(device_group,), device_deny=("c 1:7 rwm",))
    assert output.count(b"Operation not permitted") == 3
    assert record.exit_code == 1


def test_a_denial_of_writing_alone_still_lets_read(
    jobs: Jobs, device_group: str, full: Path
) -> None:
    script = f"head -c 1 {full} | wc -c; : > {full}"
    _, output = jobs.shell(script, cgroups=(device_group,), device_deny=("c 1:7 w",))
    assert output.startswith(b"1\n")
    assert b"Operation not permitted" in output


def test_exceptions_work_on_v2_and_are_refused_on_v1(
    jobs: Jobs, device_group: str, full: Path
) -> None:
    rules = {"device_deny": ("c 1:* rwm",), "device_allow": ("c 1:7 r", "c 1:3 rw")}
    job_dir = jobs.write(
        "sh",
        "-c",
        f"head -c 1 {full} | wc -c; head -c 1 /dev/zero",
        cgroups=(device_group,),
        **rules,
    )
    if device_group.endswith("v1"):
        with pytest.raises(client.FailedToStart, match="cannot be expressed in cgroup v1"):
            client.start_supervisor(job_dir)
        return
    client.start_supervisor(job_dir)
    await_end(job_dir)
    output = client.read_log(job_dir, 0, 1000).data
    assert output.startswith(b"1\n")
    assert b"/dev/zero' for reading: Operation not permitted" in output


def test_device_rules_without_a_place_for_them_stop_the_start(jobs: Jobs, tmp_path: Path) -> None:
    memory = usable(1, "memory")
    if not memory:
        pytest.skip("no cgroup v1 memory hierarchy")
    group = str(memory[0].base / f"{cgroups.PARENT_PREFIX}{POOL}" / "nowhere")
    job_dir = jobs.write("true", cgroups=(group,), device_deny=("c 1:7 rwm",))
    with pytest.raises(
        client.FailedToStart, match="none of the cgroups given can hold device rules"
    ):
        client.start_supervisor(job_dir)
    assert not Path(group).exists()


def test_a_path_that_is_no_cgroup_is_refused_and_nothing_starts(jobs: Jobs, tmp_path: Path) -> None:
    job_dir = jobs.write("true", cgroups=(str(tmp_path / "gpupool-x" / "j"),))
    with pytest.raises(client.FailedToStart, match="cannot make the cgroup"):
        client.start_supervisor(job_dir)
    assert not (job_dir / "started").exists()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "disk"
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k,mode=755", "none", path], check=True)
    yield path
    subprocess.run(["umount", "-l", path], check=True)


@pytest.fixture
def small_jobs(small_disk: Path) -> Iterator[Jobs]:
    yield from supervised_jobs(small_disk)


def test_a_full_disk_neither_blocks_nor_ends_the_job_and_the_loss_is_counted(
    small_jobs: Jobs,
) -> None:
    job_dir = small_jobs.start(
        "sh", "-c", "head -c 1000000 /dev/zero; exit 3", log_max_bytes=1 << 20
    )
    record = await_end(job_dir)
    assert record.exit_code == 3
    assert 0 < record.log_bytes < 300_000
    assert record.log_bytes + record.lost_bytes == 1_000_000


def test_output_after_a_full_disk_was_cleared_is_kept_again(
    small_jobs: Jobs, small_disk: Path, tmp_path: Path
) -> None:
    wait = f"while ! [ -e {tmp_path}/go ]; do sleep 0.01; done"
    script = f"head -c 400000 /dev/zero; touch {tmp_path}/full; {wait}; echo back"
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(100_000))
    job_dir = small_jobs.start("sh", "-c", script, log_max_bytes=1 << 20)
    until((tmp_path / "full").exists)
    with SupervisorConnection(job_dir) as line:
        until(lambda: line.read_status().log_bytes + line.read_status().lost_bytes == 400_000)
        lost = line.read_status().lost_bytes
        assert lost > 0
        ballast.unlink()
        (tmp_path / "go").touch()
    record = await_end(job_dir)
    assert record.lost_bytes == lost
    assert client.read_log(job_dir, record.log_bytes - 5, 10).data == b"back\n"


def test_a_full_disk_stops_a_start_before_anything_runs(small_jobs: Jobs, small_disk: Path) -> None:
    job_dir = small_jobs.write("true")
    ballast = small_disk / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    with pytest.raises(client.SupervisorError, match="No space left on device"):
        client.start_supervisor(job_dir)
    until(
        lambda: client.inspect_job(job_dir).state is JobState.NOT_STARTED
    )  # its lock goes with its process
    ballast.unlink()
    client.start_supervisor(job_dir)
    assert await_end(job_dir).exit_code == 0


def test_rotation_goes_on_with_a_disk_that_holds_only_a_few_segments(small_jobs: Jobs) -> None:
    record, _ = small_jobs.run("seq", "1", "100000", log_max_bytes=16384, log_files=4)
    assert (record.exit_code, record.lost_bytes) == (0, 0)


def test_a_job_may_be_signalled_by_the_supervisor_of_root_whoever_it_is(jobs: Jobs) -> None:
    job_dir = jobs.start("sleep", "600", uid=UID, gid=UID)
    with SupervisorConnection(job_dir) as line:
        line.send_signal(signal.SIGUSR2)
    assert await_end(job_dir).signal == signal.SIGUSR2
