"""Real containers of root: in a user namespace, in the job's cgroup, with images of their own."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpupool.agent.network.daemons import find_missing_programs
from gpupool.mechanisms.containers.accounts import MissingPart, find_account, find_free_id
from gpupool.mechanisms.containers.argv import ROOT_RUN_DIR
from gpupool.mechanisms.containers.image_store import STORE
from gpupool.mechanisms.containers.images import AccountPodman
from gpupool.mechanisms.containers.podman import find_podman
from tests.e2e.pool_fixture import RealPool
from tests.hosts.container_account import IMAGE, build_archive, find_missing_part, run

pytestmark = [
    pytest.mark.hosts,
    pytest.mark.root,
    pytest.mark.skipif(bool(find_missing_part()), reason=find_missing_part()),
]
SHARE = ("--gpu", "0.3", "--memory", "2GiB", "--image", IMAGE)


@contextmanager
def give_ids() -> Iterator[None]:
    """Subordinate ids of root; those that this gave are gone afterwards."""
    if not isinstance(find_account(0, 0), MissingPart):
        yield
        return
    files = (Path("/etc/subuid"), Path("/etc/subgid"))
    first = max(find_free_id(file.read_text()) for file in files) + 70_000
    ids = f"{first}-{first + 65_535}"
    run("usermod", "--add-subuids", ids, "--add-subgids", ids, "root")
    try:
        yield
    finally:
        # usermod takes nothing from an account that has a process.
        run("sed", "-i", f"/^root:{first}:65536$/d", *map(str, files))


@pytest.fixture(scope="module")
def podman() -> Iterator[AccountPodman]:
    store = (Path(pwd.getpwuid(0).pw_dir) / STORE).parent
    was_there = store.exists()
    with give_ids():
        installation = find_podman()
        account = find_account(0, 0)
        assert not isinstance(installation, MissingPart)
        assert not isinstance(account, MissingPart)
        yield AccountPodman(installation, account)
    if not was_there:
        shutil.rmtree(store)
        shutil.rmtree(ROOT_RUN_DIR)


@pytest.fixture(scope="module")
def pool(podman: AccountPodman) -> Iterator[RealPool]:
    place = Path(tempfile.mkdtemp(prefix="gpt-"))
    (place / "image").mkdir()
    archive = build_archive(podman, place / "image")
    with RealPool(place / "pool", "2xL40S") as made:
        assert made.do("image", "load", str(archive)) == f"{IMAGE}\n"
        yield made
        made.do("image", "remove", IMAGE)
    shutil.rmtree(place)


def test_root_of_the_container_has_no_capability_and_a_read_only_sys(pool: RealPool) -> None:
    script = """
        cat /proc/self/uid_map
        for file in /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/*/cgroup.procs /sys/kernel/mm/ksm/run; do
            [ -e $file ] && echo 0 2>/dev/null >$file && echo written $file
        done
        while read -r _ place _ options _; do
            case $place:$options in /sys*:rw*) echo writable $place; esac
        done </proc/self/mounts
        rm /run/gpupool/share/limits 2>/dev/null && echo removed
        cat /proc/self/status
    """
    done = pool.run("run", *SHARE, "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    outside = [line.split()[1] for line in done.stdout.splitlines()[:2]]
    assert outside[0] == "0"
    assert int(outside[1]) > 1000
    assert "written" not in done.stdout
    assert "writable" not in done.stdout
    assert "removed" not in done.stdout
    assert "CapBnd:\t0000000000000000\n" in done.stdout


def test_the_container_of_root_stays_in_its_jobs_cgroups(pool: RealPool) -> None:
    done = pool.run("run", *SHARE, "--", "sh", "-c", "echo $GPUPOOL_JOB; cat /proc/self/cgroup")
    job, *lines = done.stdout.splitlines()
    groups = [line.rpartition(":")[2] for line in lines]
    own = [group for group in groups if group.endswith(f"/{job}")]
    assert own, done.stdout
    # Podman names the cgroups that it makes so.
    assert not [group for group in groups if "libpod" in group or "conmon" in group]
    assert len(set(own)) == 1


def test_a_share_is_enforced_in_a_container_of_root(pool: RealPool) -> None:
    done = pool.run("run", *SHARE, "--name", "enforced", "--", "probe")
    assert done.stdout == "2048 2\n", done.stderr
    assert pool.job("enforced")["fence"] == "soft"


def test_a_stopped_container_of_root_leaves_nothing(pool: RealPool, podman: AccountPodman) -> None:
    pool.do("submit", *SHARE, "--name", "lasting", "--", "sleep", "300")
    pool.until_state("lasting", "running")
    job = pool.job("lasting")["id"]
    pool.until((pool.state_dir / "agent/jobs" / job / "container/pid").exists, "the container")
    filters = f"--filter=label=gpupool.job={job}"
    assert len(json.loads(podman.call("ps", filters, "--format=json").output)) == 1
    pool.do("stop", "lasting")
    pool.until_state("lasting", "stopped")
    assert list_containers(podman) == []
    assert str(podman.account.home) + "/" + str(STORE) not in Path("/proc/mounts").read_text()


@pytest.mark.parametrize("victim", ["podman", "supervisor"])
def test_a_container_of_root_goes_with_what_was_killed(
    pool: RealPool, podman: AccountPodman, victim: str
) -> None:
    pool.do("submit", *SHARE, "--name", victim, "--", "sleep", "300")
    pool.until_state(victim, "running")
    job = pool.job(victim)["id"]
    pid_file = pool.state_dir / "agent/jobs" / job / "container/pid"
    pool.until(pid_file.exists, "the container")
    first = Path(f"/proc/{pid_file.read_text().strip()}")
    killed = find_podman_process(job)
    if victim == "supervisor":
        killed = int(Path(f"/proc/{killed}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(killed, signal.SIGKILL)
    pool.until_state(victim, "failed" if victim == "podman" else "lost")
    pool.until(lambda: not first.exists(), "the end of the container")
    pool.until(lambda: not list_containers(podman), "the end of its record")


def find_podman_process(job: str) -> int:
    """The `podman run` of a job, by its own words."""
    word = f"--name=gpupool-{job}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[0].endswith(b"podman") and word in words:
                return int(entry.name)
    raise AssertionError(f"no podman of {job}")


def list_containers(podman: AccountPodman) -> list[object]:
    found: list[object] = json.loads(podman.call("ps", "--all", "--format=json").output)
    return found


def test_an_image_that_a_job_uses_is_not_removed(pool: RealPool) -> None:
    pool.do("submit", *SHARE, "--name", "user", "--", "sleep", "300")
    pool.until_state("user", "running")
    job = pool.job("user")["id"]
    pool.until((pool.state_dir / "agent/jobs" / job / "container/pid").exists, "the container")
    done = pool.run("image", "remove", IMAGE)
    assert done.returncode == 3
    assert "image is in use by a container" in done.stderr
    pool.do("stop", "user", "--grace", "0")


@pytest.mark.skipif(bool(find_missing_programs()), reason="needs ovn-central, ovn-host")
def test_a_container_has_the_address_that_it_asks_for_in_its_network(pool: RealPool) -> None:
    pool.do("network", "enable")
    pool.do("network", "create", "lab", "--cidr", "10.0.0.0/24")
    words = ("--network", "lab", "--address", "10.0.0.77")
    shown = pool.do("run", "-q", *words, *SHARE, "--", "cat", "/proc/net/fib_trie")
    assert "10.0.0.77" in shown
    pool.until(lambda: pool.json("network", "show", "lab")["ports"] == [], "the end of its port")
    pool.do("network", "delete", "lab", "--yes")
    pool.do("network", "disable", "--yes")
