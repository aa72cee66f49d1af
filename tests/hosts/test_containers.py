"""Real containers by real Podman, as an ordinary account in a pool of root."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.agent.network.daemons import find_missing_programs
from gpupool.mechanisms.containers.images import AccountPodman
from tests.e2e.pool_fixture import Terminal
from tests.hosts.container_account import (
    IMAGE,
    AccountPool,
    OwnAccountPool,
    build_archive,
    find_missing_part,
    make_account,
)
from tests.support.jupyter import Browser
from tests.support.pages import PAGES
from tests.support.typed_commands import commands

pytestmark = [
    pytest.mark.hosts,
    pytest.mark.root,
    pytest.mark.skipif(bool(find_missing_part()), reason=find_missing_part()),
]
SHARE = ("--gpu", "0.3", "--memory", "2GiB", "--image", IMAGE)


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A directory that every account may enter."""
    made = Path(tempfile.mkdtemp(prefix="gpt-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def podman(place: Path) -> Iterator[AccountPodman]:
    home = place / "home"
    home.mkdir()
    with make_account(home) as made:
        yield made


@pytest.fixture(scope="module")
def pool(place: Path, podman: AccountPodman) -> Iterator[AccountPool]:
    (place / "image").mkdir()
    archive = build_archive(podman, place / "image")
    with AccountPool(place / "pool", podman) as made:
        loaded = made.type("image", "load", str(archive))
        assert loaded.stdout == f"{IMAGE}\n", loaded.stderr
        yield made


@pytest.fixture(autouse=True)
def nothing_stays(pool: AccountPool, podman: AccountPodman) -> Iterator[None]:
    """After each test no process, container or mount of the account is left, and no files of it."""
    yield
    pool.do("stop", "--all", "--yes", "--grace", "0")
    pool.until(lambda: not list_processes(podman.account.uid), "the end of its processes")
    log = (pool.state_dir / "server.log").read_text()
    assert json.loads(podman.call("ps", "--all", "--format=json").output) == [], log
    assert podman.account.home not in Path("/proc/mounts").read_text()
    assert not list((pool.state_dir / "agent/jobs").glob("*/container*"))
    assert not list((pool.state_dir / "agent/prepared").iterdir())


def list_processes(uid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            status = (entry / "status").read_text()
        except OSError:
            continue
        if f"\nUid:\t{uid}\t" in status and "State:\tZ" not in status:
            found.append(int(entry.name))
    return found


def test_output_exit_code_and_variables_are_the_commands(pool: AccountPool) -> None:
    script = 'cat; echo "$A" >&2; id -u; exit 7'
    done = pool.type(
        "run", *SHARE, "--env", "A=b c", "--", "sh", "-c", script, input="typed\n", stdin=None
    )
    assert (done.returncode, done.stdout, done.stderr) == (7, "typed\n0\n", "b c\n")


def test_a_large_output_arrives_whole(pool: AccountPool) -> None:
    script = "head -c 20000000 /dev/zero"
    done = pool.type("run", *SHARE, "--", "sh", "-c", script, text=False)
    assert len(done.stdout) == 20_000_000


def test_a_share_is_enforced_in_the_container(pool: AccountPool) -> None:
    done = pool.type("run", *SHARE, "--name", "held", "--", "probe")
    assert done.stdout == "2048 2\n", done.stderr
    job = pool.job("held")
    assert job["fence"] == "soft"
    (submitted,) = [
        event
        for event in map(json.loads, pool.do("events", "--after", "0", "-o", "json").splitlines())
        if event["kind"] == "job.submitted" and event["subject"] == job["id"]
    ]
    assert submitted["data"]["image"] == IMAGE
    assert submitted["data"]["image_id"].startswith("sha256:")
    assert pool.type("run", "--image", IMAGE, "--gpu", "1", "--", "probe").stdout == "46068 0\n"


def test_the_share_cannot_be_changed_and_no_capability_is_left(pool: AccountPool) -> None:
    script = """
        for file in /run/gpupool/share/limits /usr/lib/x86_64-linux-gnu/libcuda.so.1; do
            echo x 2>/dev/null >$file && echo written; rm -f $file 2>/dev/null && echo removed
        done
        cat /proc/self/status
    """
    done = pool.type("run", *SHARE, "--", "sh", "-c", script)
    assert "written" not in done.stdout
    assert "removed" not in done.stdout
    assert "CapBnd:\t0000000000000000\n" in done.stdout
    assert "NoNewPrivs:\t1\n" in done.stdout


def test_the_container_is_in_its_jobs_cgroup(pool: AccountPool) -> None:
    done = pool.type("run", *SHARE, "--", "sh", "-c", "echo $GPUPOOL_JOB; cat /proc/self/cgroup")
    job, *lines = done.stdout.splitlines()
    assert any(line.endswith(f"/{job}") for line in lines), done.stdout


def test_a_missing_command_and_a_missing_image_say_what_to_do(pool: AccountPool) -> None:
    done = pool.type("run", *SHARE, "--", "/bin/nothing")
    assert done.returncode == 127
    assert "/bin/nothing" in done.stderr
    done = pool.type("run", "--gpu", "0.3", "--image", "localhost/other:1", "--", "true")
    assert done.returncode == 3
    assert "GP-2060: this account has no image localhost/other:1" in done.stderr
    assert "gpupool image load FILE" in done.stderr


def test_an_image_that_went_is_the_reason_of_the_end(pool: AccountPool) -> None:
    # As over the network: the name is looked up when the job starts.
    body = {
        "shape": {"gpu_milli": 300},
        "name": "gone",
        "launch": {"argv": ["true"], "container": {"image": "localhost/gone:1"}},
    }
    words = (
        "from gpupool.base.client_settings import client_settings as read\n"
        "from gpupool.client.transport import Api\n"
        f"Api(read()).request('POST', 'jobs', {body!r})"
    )
    typed = pool.make_words()
    subprocess.run(
        [*typed[: typed.index("-c")], "-c", words],
        check=True,
        cwd="/",
        env={**pool.environ, "HOME": pool.account.home},
    )
    job = pool.until_state("gone", "failed")
    assert job["exit_code"] == 125
    assert (
        "Podman could not start the container: localhost/gone:1: image not known" in job["reason"]
    )


def test_only_allowed_mounts_are_made_and_the_kernel_checks_them(
    pool: AccountPool, place: Path
) -> None:
    home = Path(pool.account.home)
    (home / "data").mkdir()
    (home / "data/in").write_text("mine\n")
    (home / "link").symlink_to("/etc")
    volume = f"{home}/data:/data:ro"
    script = "cat /data/in; echo x >/data/in"
    done = pool.type("run", *SHARE, "--volume", volume, "--", "sh", "-c", script)
    assert done.stdout == "mine\n"
    assert "Read-only" in done.stderr
    for source in ("/etc", f"{home}/link"):
        done = pool.type("run", *SHARE, "--name", "etc", "--volume", f"{source}:/x", "--", "true")
        assert done.returncode == 126
        assert f"{source} may not be mounted; allowed here: {home}" in done.stderr


def test_the_commands_of_the_page_work_in_their_order(
    pool: AccountPool, podman: AccountPodman, place: Path
) -> None:
    (place / "page").mkdir()
    archive = build_archive(podman, place / "page", "localhost/train:1")
    home = Path(pool.account.home)
    shutil.copy(archive, home / "train.tar")
    (home / "data").mkdir(exist_ok=True)
    (home / "data/in").write_text("mine\n")
    printed = []
    for words in commands(PAGES / "containers.md"):
        if words[0] == "up":  # the pool runs already
            continue
        done = pool.type(*words, cwd=str(home))
        assert done.returncode == 0, f"gpupool {words}: {done.stdout}{done.stderr}"
        printed.append(done.stdout)
    assert printed[0] == "localhost/train:1\n"
    assert "localhost/train:1" in printed[1]
    assert (printed[2], printed[-2]) == ("soft\n", "in\n")


def test_a_musl_image_is_refused_for_a_share(
    pool: AccountPool, podman: AccountPodman, place: Path
) -> None:
    (place / "musl").mkdir()
    archive = build_archive(podman, place / "musl", "localhost/musl:1", musl=True)
    assert podman.load_image(archive).code == 0
    done = pool.type("run", "--gpu", "0.3", "--image", "localhost/musl:1", "--", "true")
    assert done.returncode == 126
    assert "GP-2018: the image has musl and no glibc" in done.stderr


def test_a_job_outlives_the_killed_server_and_is_stopped(pool: AccountPool) -> None:
    pool.submit(*SHARE, "--name", "lasting", "--", "probe", "300")
    pool.until_state("lasting", "running")
    pool.until(lambda: pool.type("logs", "lasting").stdout == "2048 2\n", "the program's look")
    os.kill(pool.server_pid(), signal.SIGKILL)
    pool.up()
    assert pool.until_state("lasting", "running")["fence"] == "soft"
    assert "fence." not in pool.do("events", "--last", "500")
    began = time.monotonic()
    pool.type("stop", "lasting", "--grace", "30s")
    pool.until_state("lasting", "stopped")
    assert time.monotonic() - began < 15, "SIGTERM did not reach the command"


def test_a_container_goes_with_its_killed_podman(pool: AccountPool, podman: AccountPodman) -> None:
    pool.submit(*SHARE, "--name", "orphan", "--", "sleep", "300")
    pool.until_state("orphan", "running")
    job = pool.job("orphan")["id"]
    wait_for_container(pool, podman, job)
    os.kill(find_process(podman.account.uid, "podman"), signal.SIGKILL)
    pool.until_state("orphan", "failed")


def test_a_container_goes_with_its_killed_supervisor(
    pool: AccountPool, podman: AccountPodman
) -> None:
    pool.submit(*SHARE, "--name", "lost", "--", "sleep", "300")
    pool.until_state("lost", "running")
    job = pool.job("lost")["id"]
    wait_for_container(pool, podman, job)
    os.kill(find_parent(find_process(podman.account.uid, "podman")), signal.SIGKILL)
    pool.until_state("lost", "lost")


def wait_for_container(pool: AccountPool, podman: AccountPodman, job: str) -> None:
    """The container's first process is there, and Podman's record has the job's label."""
    pool.until(
        lambda: (pool.state_dir / "agent/jobs" / job / "container/pid").exists(),
        "its first process",
    )
    filters = f"--filter=label=gpupool.job={job}"
    assert len(json.loads(podman.call("ps", filters, "--format=json").output)) == 1


def find_process(uid: int, name: str) -> int:
    for pid in list_processes(uid):
        if Path(f"/proc/{pid}/comm").read_text().strip() == name:
            return pid
    raise AssertionError(f"no process {name}")


def find_parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_a_terminal_and_ctrl_c_reach_the_command(pool: AccountPool) -> None:
    script = "trap 'echo caught; exit 3' INT; test -t 0 && test -t 1 && echo ready; while :; do sleep 0.1; done"
    with Terminal() as terminal:
        words = pool.make_words("run", *SHARE, "--", "sh", "-c", script)
        process = subprocess.Popen(
            words,
            stdin=terminal.side,
            stdout=terminal.side,
            stderr=terminal.side,
            cwd="/",
            env={**pool.environ, "HOME": pool.account.home},
            start_new_session=True,
        )
        terminal.until(b"ready")
        terminal.type(b"\x03")
        assert terminal.until_ended(process) == 3
        assert b"caught" in terminal.seen


def test_a_running_share_gets_another_size(pool: AccountPool) -> None:
    script = "probe; until [ $(probe | head -c 4) = 4096 ]; do sleep 0.1; done; probe"
    pool.submit(*SHARE, "--name", "sized", "--", "sh", "-c", script)
    pool.until(lambda: pool.type("logs", "sized").stdout == "2048 2\n", "the first look")
    pool.do("resize", "sized", "--memory", "4GiB")
    pool.until_state("sized", "done")
    assert pool.type("logs", "sized").stdout == "2048 2\n4096 0\n"


def test_in_an_accounts_own_pool_a_container_runs_and_goes_with_its_supervisor(
    podman: AccountPodman, pool: AccountPool
) -> None:
    with OwnAccountPool(Path(podman.account.home) / "own", podman) as own:
        done = own.type("run", *SHARE, "--name", "mine", "--", "probe")
        assert done.stdout == "2048 2\n", done.stderr
        assert own.job("mine")["fence"] == "advisory"
        own.type("run", *SHARE, "--name", "long", "--", "probe", "3")
        assert "fence." not in own.do("events", "--last", "500")
        assert own.type("run", *SHARE, "--volume", "/etc:/host:ro", "--", "true").returncode == 0
        own.submit(*SHARE, "--name", "lost", "--", "sleep", "300")
        own.until_state("lost", "running")
        wait_for_container(own, podman, own.job("lost")["id"])
        os.kill(find_parent(find_process(podman.account.uid, "podman")), signal.SIGKILL)
        own.until_state("lost", "lost")
        assert json.loads(podman.call("ps", "--all", "--format=json").output) == []
        assert not list((own.state_dir / "agent/jobs").glob("*/container*"))


def test_a_program_that_brings_its_own_driver_is_found_and_ended(pool: AccountPool) -> None:
    pool.type("run", *SHARE, "--", "true")
    (driver,) = (pool.state_dir / "agent/fence").glob("*/driver/libcuda.so.1")
    home = Path(pool.account.home)
    shutil.copy(driver, home / "libcuda.so.1")
    (home / "libcuda.so.1").chmod(0o644)
    volume = f"{home}:/own:ro"
    pool.submit(
        *SHARE,
        "--name",
        "cheat",
        "--volume",
        volume,
        "--env",
        "LD_LIBRARY_PATH=/own",
        "--",
        "probe",
        "60",
    )
    job = pool.until_state("cheat", "stopped", "failed")
    assert "ended by its fence" in job["reason"]


@pytest.mark.skipif(bool(find_missing_programs()), reason="needs the packages of OVN")
def test_a_container_joins_a_network_and_sees_no_other_one(pool: AccountPool) -> None:
    pool.do("network", "enable")
    pool.do("network", "create", "lab", "--cidr", "10.0.0.0/24")
    try:
        joined = pool.type("run", "--network", "lab", *SHARE, "--", "cat", "/proc/net/dev")
        names = {line.split(":")[0].strip() for line in joined.stdout.splitlines() if ":" in line}
        assert names == {"lo", "eth0"}, joined.stderr
        asked = pool.type("run", "--network", "lab", *SHARE, "--", "cat", "/etc/resolv.conf")
        assert "nameserver 100.126.255.250\n" in asked.stdout, asked.stderr
    finally:
        pool.do("network", "delete", "lab", "--yes")
        pool.do("network", "disable", "--yes")


def test_a_page_of_a_container_is_shown_without_its_prefix(pool: AccountPool) -> None:
    words = ("submit", *SHARE, "--user", "0", "--name", "web", "--", "/bin/probe", "serve")
    submitted = pool.type(*words)
    assert submitted.returncode == 0, submitted.stderr
    pool.until_state("web", "running")
    opened = pool.type("notebook", "--open", "web", "-o", "json")
    assert opened.returncode == 0, opened.stderr
    link = json.loads(opened.stdout)["url"]

    async def read_page() -> str:
        async with Browser() as browser:
            answer = await browser.open(link)
            # The link works once; the container may still be starting.
            while answer.status == 502:
                await asyncio.sleep(0.1)
                answer = await browser.ask("GET", "lab")
            return await answer.text()

    assert asyncio.run(asyncio.wait_for(read_page(), 60)) == "/lab"
    stopped = pool.type("stop", "web", "--grace", "0")
    assert stopped.returncode == 0, stopped.stderr
