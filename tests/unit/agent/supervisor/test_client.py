"""The job supervisor and its Python side, with the real program: starting, logging, signalling,
ending, re-adopting."""

from __future__ import annotations

import os
import platform
import random
import resource
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpupool.agent.supervisor import client
from gpupool.agent.supervisor.client import (
    BindMount,
    JobSpec,
    JobState,
    ResourceLimit,
    SupervisorConnection,
)
from gpupool.agent.supervisor.job_spec import decode_spec, encode_spec
from gpupool_native import shim_path
from tests.support.supervised import (
    ENVIRONMENT,
    SECONDS,
    Jobs,
    await_end,
    is_alive,
    kill_supervisor,
    supervised_jobs,
    until,
)


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    yield from supervised_jobs(tmp_path)


@pytest.fixture
def own_mount() -> Iterator[Path]:
    """A mount point in the open /tmp, as a user's own pool has it."""
    mount = Path(f"/tmp/gpupool-test-{os.getuid()}-{os.getpid()}/self")
    yield mount
    for path in (mount, mount.parent):
        if path.exists():
            path.rmdir()


def pids_in(path: Path) -> list[int]:
    return [int(word) for word in path.read_text().split()]


def test_a_job_runs_and_its_output_and_end_are_recorded(jobs: Jobs) -> None:
    record, output = jobs.shell("echo out; echo err >&2; exit 7")
    assert (record.state, record.reason, record.exit_code, record.signal) == (
        "ended",
        "exited",
        7,
        None,
    )
    assert output == b"out\nerr\n"
    assert record.log_bytes == 8
    assert record.lost_bytes == 0
    assert record.leftover == 0
    assert 0 < record.started_ns < record.ended_ns < time.time_ns()
    assert (
        0
        < record.started_boot_ns
        < record.ended_boot_ns
        < time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    )


def test_the_log_of_another_run_goes_on_behind_the_first(jobs: Jobs) -> None:
    job_dir = jobs.start("sh", "-c", "printf first", log_max_bytes=4096)
    await_end(job_dir)
    for run, text in enumerate(("second", "", "third"), start=1):
        for name in ("started", "exit"):
            (job_dir / name).unlink()
        spec = decode_spec((job_dir / "spec").read_bytes())
        client.write_spec(job_dir, replace(spec, arguments=("printf", text), log_files=3))
        client.start_supervisor(job_dir)
        assert await_end(job_dir).state == "ended", run
    read = client.read_log(job_dir, 0, 4096)
    assert (read.data, read.dropped_bytes) == (b"firstsecondthird", 0)
    assert client.read_log(job_dir, 11, 4096).data == b"third"


def test_a_job_killed_by_a_signal_says_which(jobs: Jobs) -> None:
    record, _ = jobs.shell("kill -SEGV $$")
    assert (record.reason, record.signal, record.exit_code, record.shell_code) == (
        "signalled",
        11,
        None,
        139,
    )


def test_processor_time_and_memory_of_the_whole_job_are_recorded(jobs: Jobs) -> None:
    burn = "x = bytearray(64 << 20)\nimport time\nwhile time.process_time() < 0.3: pass"
    record, _ = jobs.run("sh", "-c", '"$0" -c "$1" & wait', sys.executable, burn)
    assert record.user_us + record.system_us >= 300_000
    assert record.max_rss_bytes > 64 << 20


def test_the_environment_is_exactly_what_was_asked_and_the_job_name(jobs: Jobs) -> None:
    os.environ["GPUPOOL_TEST_LEAK"] = "1"
    job_dir = jobs.start(
        "env", "-0", environment={"PATH": "/usr/bin:/bin", "A": "b=c\nd", "GPUPOOL_JOB": "forged"}
    )
    await_end(job_dir)
    found = set(client.read_log(job_dir, 0, 1 << 20).data.decode().split("\0")) - {""}
    name = client.read_spec(job_dir).job_id
    assert found == {"PATH=/usr/bin:/bin", "A=b=c\nd", f"GPUPOOL_JOB={name}"}


def test_an_environment_of_200_kilobytes_arrives_whole(jobs: Jobs) -> None:
    big = {f"V{i}": "x" * 1000 for i in range(200)} | ENVIRONMENT
    record, output = jobs.run("sh", "-c", "env | grep -c ^V", environment=big)
    assert (record.exit_code, output) == (0, b"200\n")


def test_nothing_of_the_supervisor_is_inherited(jobs: Jobs) -> None:
    look = (
        "import os, signal\n"
        "print(sorted(os.listdir('/proc/self/fd'))[:3], len(os.listdir('/proc/self/fd')))\n"
        "print(signal.pthread_sigmask(signal.SIG_BLOCK, []), os.getsid(0) == os.getpid() == os.getpgrp())\n"
        "print(open('/proc/self/status').read().split('SigIgn:')[1].split()[0])\n"
    )
    _, output = jobs.run(sys.executable, "-I", "-S", "-c", look)
    *lines, ignored = output.decode().splitlines()
    # The fourth descriptor is the listing itself; Python ignores SIGPIPE (13) and SIGXFSZ (25) by
    # its own choice.
    assert lines == ["['0', '1', '2'] 4", "set() True"]
    of_the_c_library = (
        0b11 << 31
    )  # signals 32 and 33 are its own: nobody can set or reset them through it
    assert int(ignored, 16) & ~of_the_c_library == 0x01001000


def test_umask_limits_and_directory_hold(jobs: Jobs, tmp_path: Path) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    limits = {"nofile": ResourceLimit(77, min(88, hard)), "core": ResourceLimit(0, 0)}
    _, output = jobs.shell(
        "umask; ulimit -Sn; ulimit -Hn; ulimit -c; pwd",
        umask=0o27,
        limits=limits,
        directory=str(tmp_path),
    )
    assert output.decode().split() == ["0027", "77", "88", "0", str(tmp_path)]


def test_the_command_runs_on_its_processors_alone_and_so_does_what_it_begins(jobs: Jobs) -> None:
    for cpu in sorted(os.sched_getaffinity(0)):
        _, output = jobs.shell(
            "grep Cpus_allowed_list /proc/self/status; nproc", cpus=f"{cpu},65535"
        )
        assert output.decode().split() == ["Cpus_allowed_list:", str(cpu), "1"]


def test_processors_that_are_not_there_are_said_and_nothing_runs(jobs: Jobs) -> None:
    with pytest.raises(client.FailedToStart, match="cannot keep to the job's processors") as caught:
        jobs.shell("echo ran", cpus="65535")
    assert caught.value.record is not None
    assert caught.value.record.stage == "processors"


def test_memory_is_taken_from_the_numa_nodes_asked_for_while_they_have_some(jobs: Jobs) -> None:
    look = (
        "import ctypes\n"
        "mode, nodes = ctypes.c_int(-1), (ctypes.c_ulong * 16)()\n"
        "get_mempolicy = 239\n"
        "failed = ctypes.CDLL(None).syscall(get_mempolicy, ctypes.byref(mode), nodes, 1024, 0, 0)\n"
        "print(failed, mode.value, nodes[0])\n"
    )
    _, plain = jobs.run(sys.executable, "-c", look)
    if plain.split()[0] != b"0" or platform.machine() != "x86_64":
        pytest.skip("this kernel tells nothing of memory policies")
    _, output = jobs.run(sys.executable, "-c", look, memory_nodes="0")
    preferred, preferred_many = 1, 5
    failed, mode, nodes = map(int, output.split())
    assert (failed, nodes) == (0, 1)
    assert mode in (preferred, preferred_many)
    _, elsewhere = jobs.run(sys.executable, "-c", look, memory_nodes="1000")
    assert elsewhere == plain, "a NUMA node that is not there is no reason not to run"


def test_a_script_without_a_shebang_and_a_path_search_in_the_jobs_own_path_work(
    jobs: Jobs, tmp_path: Path
) -> None:
    script = tmp_path / "hello-script"
    script.write_text("echo hello\n")
    script.chmod(0o755)
    _, output = jobs.run("hello-script", environment={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert output == b"hello\n"


@pytest.mark.parametrize(
    ("arguments", "fields", "stage", "errno", "code"),
    [
        (("no-such-command",), {}, "exec", 2, 127),
        (("/etc",), {}, "exec", 13, 126),
        (("true",), {"directory": "/no/such/place"}, "cwd", 2, 127),
    ],
)
def test_a_command_that_cannot_be_executed_is_reported_with_its_reason(
    jobs: Jobs,
    arguments: tuple[str, ...],
    fields: dict[str, str],
    stage: str,
    errno: int,
    code: int,
) -> None:
    job_dir = jobs.write(*arguments, **fields)
    with pytest.raises(client.FailedToStart) as caught:
        client.start_supervisor(job_dir)
    record = caught.value.record
    assert record is not None
    assert (record.state, record.stage, record.errno, record.shell_code) == (
        "failed_to_start",
        stage,
        errno,
        code,
    )
    assert record.message in str(caught.value)
    assert client.inspect_job(job_dir).state is JobState.ENDED


@pytest.mark.parametrize(
    "text", ["state=ended\n", "state=ended\nreason=exited\nexit_code=\n", "reason=exited\n"]
)
def test_a_damaged_record_of_an_end_is_that_of_a_supervisor_that_died(
    tmp_path: Path, text: str
) -> None:
    """Before, an agent that found one did not start."""
    (tmp_path / "started").write_text("gpupool-started 1\nstarted_boot_ns=\n")
    (tmp_path / "exit").write_text(f"gpupool-exit 1\n{text}")
    status = client.inspect_job(tmp_path)
    assert (status.state, status.started, status.exit) == (JobState.DIED, None, None)


def test_states_follow_the_life_of_a_job(jobs: Jobs) -> None:
    job_dir = jobs.write("sh", "-c", "read x < /proc/self/fd/0; sleep 600")
    assert client.inspect_job(job_dir).state is JobState.NOT_STARTED
    status = client.start_supervisor(job_dir)
    assert status.state is JobState.RUNNING
    with SupervisorConnection(job_dir) as line:
        live = line.read_status()
        assert (live.state, live.pid, live.start_ticks) == (
            "running",
            status.started.pid,
            status.started.start_ticks,
        )
        line.stop(0)
    await_end(job_dir)
    assert client.inspect_job(job_dir).state is JobState.ENDED


def test_a_job_is_never_started_twice(jobs: Jobs, tmp_path: Path) -> None:
    job_dir = jobs.start("sh", "-c", f"echo x >> {tmp_path}/count; sleep 600")
    with pytest.raises(client.SupervisorConflict):
        client.start_supervisor(job_dir)
    kill_supervisor(job_dir)
    with pytest.raises(client.RepeatedStart):
        client.start_supervisor(job_dir)
    ended = jobs.start("true")
    await_end(ended)
    until(lambda: not client.is_supervised(ended))
    with pytest.raises(client.RepeatedStart):
        client.start_supervisor(ended)
    assert (tmp_path / "count").read_text() == "x\n"


def test_of_many_supervisors_racing_on_one_job_one_runs_it(jobs: Jobs, tmp_path: Path) -> None:
    job_dir = jobs.write("sh", "-c", f"echo x >> {tmp_path}/count; sleep 0.2")
    racers = [
        subprocess.Popen(
            [shim_path(), job_dir], stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
        )
        for _ in range(12)
    ]
    codes = sorted(racer.wait() for racer in racers)
    await_end(job_dir)
    assert codes[0] == 0
    assert set(codes[1:]) <= {11, 12}
    assert (tmp_path / "count").read_text() == "x\n"


def test_a_signal_reaches_the_whole_process_group(jobs: Jobs) -> None:
    job_dir = jobs.start(
        "sh", "-c", "trap 'echo caught; exit 3' USR1; echo ready; while :; do sleep 0.01; done"
    )
    until(lambda: client.read_log(job_dir, 0, 100).data == b"ready\n")
    with SupervisorConnection(job_dir) as line:
        line.send_signal(signal.SIGUSR1)
    record = await_end(job_dir)
    # The group's `sleep` dies of the signal as well, which the shell passes over.
    assert record.exit_code == 3
    assert b"caught" in client.read_log(job_dir, 0, 1000).data


def test_stop_asks_first_and_kills_after_the_grace(jobs: Jobs) -> None:
    polite = jobs.start("sh", "-c", "trap 'exit 5' TERM; echo ready; while :; do sleep 0.01; done")
    stubborn = jobs.start("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.01; done")
    for job_dir, grace in ((polite, 60), (stubborn, 1)):
        until(lambda at=job_dir: client.read_log(at, 0, 100).data)
        with SupervisorConnection(job_dir) as line:
            line.stop(grace)
    first, second = await_end(polite), await_end(stubborn)
    assert (first.reason, first.exit_code) == ("stopped", 5)
    assert (second.reason, second.signal) == ("stopped", 9)
    assert second.ended_boot_ns - second.started_boot_ns >= 1_000_000_000


def test_a_stopped_process_is_woken_to_hear_that_it_shall_end(jobs: Jobs) -> None:
    job_dir = jobs.start("sh", "-c", "trap 'exit 5' TERM; echo ready; while :; do sleep 0.01; done")
    until(lambda: client.read_log(job_dir, 0, 100).data)
    with SupervisorConnection(job_dir) as line:
        line.send_signal(signal.SIGSTOP)
        line.stop(60)
    assert await_end(job_dir).exit_code == 5


def test_terminating_the_supervisor_stops_the_job_with_its_grace(jobs: Jobs) -> None:
    job_dir = jobs.start("sleep", "600", grace_seconds=5)
    with SupervisorConnection(job_dir) as line:
        os.kill(line.read_status().supervisor_pid, signal.SIGTERM)
    record = await_end(job_dir)
    assert (record.reason, record.signal) == ("stopped", 15)


def test_a_job_past_its_time_is_stopped(jobs: Jobs) -> None:
    record, _ = jobs.run("sleep", "600", max_seconds=1, grace_seconds=5)
    assert (record.reason, record.signal) == ("max_time", 15)
    assert 1e9 <= record.ended_boot_ns - record.started_boot_ns < 10e9


def test_no_orphan_outlives_its_job(jobs: Jobs, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    fork = (
        "import os, time\n"
        "def leave(depth):\n"
        "    if os.fork() == 0:\n"
        "        os.setsid()\n"
        f"        os.write(os.open('{pids}', os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), b'%d\\n' % os.getpid())\n"
        "        if depth: leave(depth - 1)\n"
        "        time.sleep(600)\n"
        "leave(4)\n"
        f"while len(open('{pids}', 'a+').seek(0) or open('{pids}').read().split()) < 5: time.sleep(0.01)\n"
        "os._exit(9)\n"
    )
    record, _ = jobs.run(sys.executable, "-I", "-S", "-c", fork)
    assert record.exit_code == 9
    assert len(pids_in(pids)) == 5
    assert not [pid for pid in pids_in(pids) if is_alive(pid)]


def daemon_script(pids: Path) -> str:
    return (
        f"(setsid sh -c 'echo $$ >> {pids}; exec sleep 600' &); echo $$ >> {pids}; exec sleep 600"
    )


def test_a_copy_of_a_record_ends_no_process_of_the_original(jobs: Jobs, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    job_dir = jobs.start("sh", "-c", daemon_script(pids))
    until(lambda: pids.exists() and len(pids_in(pids)) == 2)
    command = client.read_started(job_dir).pid
    kill_supervisor(job_dir)
    until(lambda: not is_alive(command), "the death of the command with its supervisor")
    left = [pid for pid in pids_in(pids) if is_alive(pid)]
    assert len(left) == 1
    copied = tmp_path / "copy"
    shutil.copytree(job_dir, copied, ignore=shutil.ignore_patterns("sock"))
    assert not client.read_started(copied).is_original
    reaped = client.reap_orphans(copied)
    assert (reaped.killed, reaped.remaining) == (0, ())
    assert is_alive(left[0])
    moved = job_dir.rename(tmp_path / "moved")
    assert client.reap_orphans(moved).killed == 1, "a record that was renamed is the same"


def test_what_a_killed_supervisor_leaves_is_found_and_ended(
    jobs: Jobs, tmp_path: Path, own_mount: Path
) -> None:
    pids = tmp_path / "pids"
    share = tmp_path / "share"
    share.mkdir()
    job_dir = jobs.start(
        "sh", "-c", daemon_script(pids), share_directory=str(share), share_mount=str(own_mount)
    )
    until(lambda: pids.exists() and len(pids_in(pids)) == 2)
    with pytest.raises(client.LiveSupervisor):
        client.reap_orphans(job_dir)
    command = client.read_started(job_dir).pid
    kill_supervisor(job_dir)
    until(lambda: not is_alive(command), "the death of the command with its supervisor")
    assert client.inspect_job(job_dir).state is JobState.DIED
    reaped = client.reap_orphans(job_dir)
    assert (reaped.killed, reaped.remaining) == (1, ())
    assert not [pid for pid in pids_in(pids) if is_alive(pid)]
    assert client.reap_orphans(job_dir).killed == 0


def test_the_share_is_shown_at_its_fixed_path_or_where_that_is_refused_by_its_own(
    jobs: Jobs, tmp_path: Path, own_mount: Path
) -> None:
    (tmp_path / "share").mkdir()
    (tmp_path / "share" / "limits").write_text("30 %")
    fields = {"share_directory": str(tmp_path / "share"), "share_mount": str(own_mount)}
    record, output = jobs.shell('echo "$GPUPOOL_SHARE"; cat "$GPUPOOL_SHARE/limits"', **fields)
    place, content = output.decode().splitlines()
    assert content == "30 %"
    assert (record.share, place) in (
        ("mounted", str(own_mount)),
        ("environment", str(tmp_path / "share")),
    )
    assert (record.share_refused == "") == (record.share == "mounted")


def test_a_mount_point_that_others_could_have_made_is_not_used(
    jobs: Jobs, tmp_path: Path, own_mount: Path
) -> None:
    own_mount.parent.mkdir()
    own_mount.parent.chmod(0o777)
    (tmp_path / "share").mkdir()
    fields = {"share_directory": str(tmp_path / "share"), "share_mount": str(own_mount)}
    record, output = jobs.shell('echo "$GPUPOOL_SHARE"', **fields)
    assert (record.share, output.decode().strip()) == ("environment", str(tmp_path / "share"))
    assert record.share_refused == "mount point's directory: Operation not permitted"


def test_an_orphan_whose_name_is_cut_in_a_letter_is_found_and_ended(
    jobs: Jobs, tmp_path: Path
) -> None:
    """The kernel keeps 15 bytes of a name."""
    program = tmp_path / "x数据处理程序"
    program.symlink_to("/bin/sleep")
    job_dir = jobs.start("sh", "-c", f"setsid {program} 600 & echo $! >{tmp_path}/pid; wait")
    until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip())
    pid = int((tmp_path / "pid").read_text())
    until(lambda: "数".encode() in Path(f"/proc/{pid}/stat").read_bytes(), "its name")
    command = client.read_started(job_dir).pid
    kill_supervisor(job_dir)
    until(lambda: not is_alive(command), "the death of the command with its supervisor")
    assert client.reap_orphans(job_dir).killed == 1
    until(lambda: not is_alive(pid), "its end")


def test_a_process_of_another_job_is_not_taken_for_an_orphan(jobs: Jobs) -> None:
    lost, other = jobs.start("sleep", "600"), jobs.start("sleep", "600")
    kill_supervisor(lost)
    client.reap_orphans(lost)
    with SupervisorConnection(other) as line:
        assert is_alive(line.read_status().pid)


def test_the_log_is_rotated_and_read_by_absolute_offset(jobs: Jobs) -> None:
    job_dir = jobs.start("seq", "1", "20000", log_max_bytes=4096, log_files=3)
    record = await_end(job_dir)
    whole = "".join(f"{i}\n" for i in range(1, 20001)).encode()
    assert record.log_bytes == len(whole)
    assert len(client.log_files(job_dir)) == 3
    assert all(path.stat().st_size <= 4096 for path in client.log_files(job_dir))
    first = client.read_log(job_dir, 0, 100)
    assert first.dropped_bytes == first.offset > 0
    assert first.data == whole[first.offset : first.offset + 100]
    rest = client.read_log(job_dir, first.next_offset, 1 << 20)
    assert rest.data == whole[first.next_offset :]
    assert rest.dropped_bytes == 0
    assert client.read_log(job_dir, len(whole), 10).data == b""
    assert client.log_end(job_dir) == len(whole)


def test_a_supervisor_writes_on_when_its_old_segments_were_removed(
    jobs: Jobs, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    script = f"seq 1 2000; while [ ! -e {go} ]; do sleep 0.01; done; seq 2001 20000"
    job_dir = jobs.start("sh", "-c", script, log_max_bytes=4096, log_files=3)
    whole = "".join(f"{i}\n" for i in range(1, 20001)).encode()
    begun = whole.index(b"\n2001\n") + 1
    until(lambda: client.log_end(job_dir) == begun)
    for path in client.log_files(job_dir)[:-1]:
        path.unlink()
    go.touch()
    assert await_end(job_dir).log_bytes == len(whole)
    rest = client.read_log(job_dir, 0, 1 << 20)
    assert rest.dropped_bytes == rest.offset > begun
    assert rest.data == whole[rest.offset :]


def test_a_reader_that_follows_a_fast_writer_sees_every_byte_or_is_told(jobs: Jobs) -> None:
    job_dir = jobs.start("seq", "1", "300000", log_max_bytes=65536, log_files=4)
    whole = "".join(f"{i}\n" for i in range(1, 300001)).encode()
    offset = seen = dropped = 0
    while offset < len(whole):
        chunk = client.read_log(job_dir, offset, 8192)
        assert chunk.data == whole[chunk.offset : chunk.next_offset]
        seen, dropped = seen + len(chunk.data), dropped + chunk.dropped_bytes
        offset = chunk.next_offset
    assert seen + dropped == len(whole)


def test_a_path_longer_than_a_socket_address_works(jobs: Jobs, tmp_path: Path) -> None:
    deep = Jobs(tmp_path / ("d" * 120) / ("e" * 120))
    deep.root.mkdir(parents=True)
    job_dir = deep.start("sleep", "600")
    with SupervisorConnection(job_dir) as line:
        line.stop(0)
    assert await_end(job_dir).reason == "stopped"


def test_the_news_of_the_end_wakes_a_selector(jobs: Jobs) -> None:
    job_dir = jobs.start("sleep", "600")
    with SupervisorConnection(job_dir) as watcher, SupervisorConnection(job_dir) as other:
        watcher.subscribe()
        assert watcher.read_event() is None
        other.stop(0)
        assert select.select([watcher], [], [], SECONDS)[0]
        event = watcher.read_event()
        assert event is not None
        assert (event.state, event.reason, event.signal) == ("ended", "stopped", 9)
        assert client.read_exit(job_dir) is not None
        assert select.select([watcher], [], [], SECONDS)[0], (
            "the end of the conversation is readable too"
        )
        with pytest.raises(client.ConnectionLost):
            watcher.read_event()


@pytest.mark.parametrize(
    ("record", "says"),
    [
        (b"nonsense=1\0", "unknown key 'nonsense'"),
        (b"uid=-1\0", "bad value for uid="),
        (b"umask=9\0", "bad value for umask="),
        (b"cpus=3-1\0", "bad value for cpus="),
        (b"cpus=0,,1\0", "bad value for cpus="),
        (b"cpus=65536\0", "bad value for cpus="),
        (b"memory_nodes=-1\0", "bad value for memory_nodes="),
        (b"rlimit=nofile:5:4\0", "bad value for rlimit="),
        (b"rlimit=magic:5:6\0", "bad value for rlimit="),
        (b"stdio=loud\0", "bad value for stdio="),
        (b"cwd=relative\0", "bad value for cwd="),
        (b"device_deny=c 1 rwm\0", "bad value for device_deny="),
        (b"device_deny=c 1:7 rwm\0", "device rules need a cgroup="),
        (b"share_dir=/tmp\0", "share_dir= and share_mount= go together"),
        (b"env=NOVALUE\0", "bad value for env="),
        (b"unmounted_env==x\0", "bad value for unmounted_env="),
        (b"unmounted_env=A=x\0", "need a share_dir="),
        (b"bind_ro=/tmp\n/tmp\0", "need a share_dir="),
        (b"bind_ro=/tmp\0", "bad value for bind_ro="),
        (b"bind_rw=/tmp\nrelative\0", "bad value for bind_rw="),
        (b"bind_rw=/tmp\n/tmp\n/tmp\0", "bad value for bind_rw="),
        (b"log_max_bytes=1\0", "bad value for log_max_bytes="),
        (b"cut=short", "cut short"),
        (b"no equals sign\0", "unknown key"),
    ],
)
def test_a_description_that_is_not_fully_understood_is_refused_and_nothing_starts(
    jobs: Jobs, record: bytes, says: str
) -> None:
    job_dir = jobs.write("true")
    content = (job_dir / "spec").read_bytes()
    (job_dir / "spec").write_bytes(content + record)
    with pytest.raises(client.BadSpec, match="spec: ") as caught:
        client.start_supervisor(job_dir)
    assert says in str(caught.value)
    assert client.inspect_job(job_dir).state is JobState.NOT_STARTED
    (job_dir / "spec").write_bytes(content)
    client.start_supervisor(job_dir)
    assert await_end(job_dir).exit_code == 0


def test_a_description_of_another_version_is_refused(jobs: Jobs) -> None:
    job_dir = jobs.write("true")
    (job_dir / "spec").write_bytes(
        (job_dir / "spec").read_bytes().replace(b"gpupool-job 1", b"gpupool-job 2")
    )
    with pytest.raises(client.BadSpec, match="another version"):
        client.start_supervisor(job_dir)


def test_a_description_reads_back_as_it_was_written() -> None:
    spec = JobSpec(
        job_id="j", arguments=("a", "", "b\nc", "\udcff"), directory="/d", environment={"A": "x=y", "B": ""},
        uid=5, gid=6,
        groups=(7, 8), umask=0o77, limits={"core": ResourceLimit(0, None)},
        stdio="attach", log_max_bytes=8192, log_files=2,
        share_directory="/s", share_mount="/m/self", max_seconds=9, grace_seconds=0, attach_seconds=3,
        binds=(BindMount("/x", "/m/x"), BindMount("/a b", "/etc/y=z", True)),
        unmounted_environment={"C": "=", "A": "other"},
        cgroups=("/a/b", "/c/d"), device_deny=("c 1:2 rwm",), device_allow=("b *:3 r",), owner_uid=11,
        cpus="0-3,8", memory_nodes="1",
    )  # fmt: skip
    assert decode_spec(encode_spec(spec)) == spec


def test_a_value_with_a_nul_is_refused_before_it_is_written(tmp_path: Path) -> None:
    with pytest.raises(client.BadSpec, match="NUL"):
        client.write_spec(tmp_path, JobSpec(job_id="j", arguments=("a\0b",), directory="/"))
    assert not list(tmp_path.iterdir())


def test_mangled_descriptions_are_refused_or_obeyed_but_never_crash_the_supervisor(
    jobs: Jobs,
) -> None:
    rng = random.Random(20240501)
    job_dir = jobs.write(
        "true", cgroups=(), groups=(1, 2), limits={"core": ResourceLimit(0, 0)}, max_seconds=5
    )
    content = (job_dir / "spec").read_bytes()
    seen = set()
    for _ in range(300):
        mangled = bytearray(content)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(mangled))
            mangled[at : at + rng.randint(0, 3)] = rng.randbytes(rng.randint(0, 3))
        # Keep to mistakes that are refused before anything starts: a job without its command.
        cut = bytes(mangled).replace(b"arg=true\0", b"")
        (job_dir / "spec").write_bytes(cut)
        done = subprocess.run(
            [shim_path(), job_dir], capture_output=True, check=False, timeout=SECONDS
        )
        seen.add(done.returncode)
        assert done.returncode in (10, 13), done
        if done.returncode == 13:
            for name in ("started", "exit"):
                (job_dir / name).unlink(missing_ok=True)
    assert 10 in seen


@pytest.mark.parametrize("arguments", [(), ("a", "b"), ("--help",)])
def test_the_supervisor_called_wrongly_says_how(arguments: tuple[str, ...]) -> None:
    done = subprocess.run([shim_path(), *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "gpupool-shim: usage: gpupool-shim JOBDIR\n")
