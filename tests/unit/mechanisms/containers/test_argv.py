"""The command line of a job's Podman."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpupool.mechanisms.containers.accounts import ContainerAccount, IdRange
from gpupool.mechanisms.containers.argv import (
    ContainerStart,
    build_run_arguments,
    build_run_environment,
)
from gpupool.mechanisms.containers.podman import PodmanInstallation
from gpupool.mechanisms.contract import HostMount

PODMAN = PodmanInstallation("/bin/podman", "/bin/unshare", "/sbin/runc", (4, 3), False)
ANN = ContainerAccount(
    "ann", 1001, 1002, "/home/ann", IdRange(100_000, 65_536), IdRange(200_000, 9)
)
ROOT = ContainerAccount("root", 0, 0, "/root", IdRange(300_000, 65_536), IdRange(300_000, 65_536))
START = ContainerStart(
    job="j-1",
    image="sha256:1",
    command=("sh", "-c", "exit 7"),
    runtime_dir="/run/gpupool/stage-0",
    config_file="/run/gpupool/stage-1/containers.conf",
    init_path="/run/gpupool/stage-2/gpupool-init",
    guard_path="/run/gpupool/stage-2/gpupool-read-only",
)


def build(start: ContainerStart = START, podman: PodmanInstallation = PODMAN) -> list[str]:
    return list(build_run_arguments(start, podman, ANN))


def test_podman_starts_in_namespaces_of_the_accounts_ids() -> None:
    assert build()[:8] == [
        "/bin/unshare",
        "--user",
        "--map-root-user",
        "--map-users=100000,1,65536",
        "--map-groups=200000,1,9",
        "--mount",
        "--propagation=slave",
        "/bin/podman",
    ]


def test_root_has_its_own_places_and_a_read_only_sys() -> None:
    words = list(build_run_arguments(START, PODMAN, ROOT))
    at = words.index("/run/gpupool/stage-2/gpupool-read-only")
    assert words[at + 1 : at + 6] == [
        "/sys",
        "/bin/podman",
        "--root=/root/.local/share/containers/storage",
        "--runroot=/run/gpupool-podman/run",
        "--tmpdir=/run/gpupool-podman/tmp",
    ]


def test_the_kernel_refuses_other_accounts_so_their_podman_starts_at_once() -> None:
    words = build()
    assert START.guard_path not in words
    assert not [word for word in words if word.startswith(("--root=", "--runroot="))]


def test_image_and_command_come_last_and_are_never_options() -> None:
    assert build()[-4:] == ["sha256:1", "sh", "-c", "exit 7"]


@pytest.mark.parametrize(
    "word",
    [
        "--rm",
        "--name=gpupool-j-1",
        "--label=gpupool.job=j-1",
        "--pull=never",
        "--network=host",
        "--cap-drop=all",
        "--security-opt=no-new-privileges",
        "--log-driver=none",
        "--init-path=/run/gpupool/stage-2/gpupool-init",
        "--pidfile=/run/gpupool/stage-0/pid",
        "--http-proxy=false",
    ],
)
def test_every_container_is_started_with(word: str) -> None:
    assert word in build()


def test_crun_makes_no_cgroup_and_runc_cannot_be_told_so() -> None:
    crun = replace(PODMAN, oci_runtime="/bin/crun", without_cgroup=True)
    assert "--cgroups=disabled" in build(podman=crun)
    assert "--cgroups=disabled" not in build()


def test_a_terminal_and_standard_input_are_for_attached_jobs_alone() -> None:
    assert not {"--interactive", "--tty"} & set(build())
    assert "--interactive" in build(replace(START, attached=True))
    assert "--tty" in build(replace(START, attached=True, terminal=True))


def test_limits_are_named_and_bounded_by_what_podman_can_set() -> None:
    limits = {"nofile": (1024, None), "nproc": (99_999, 99_999), "core": (0, None), "as": (1, 1)}
    words = build(replace(START, limits=limits, pid_max=32_768))
    assert [word for word in words if word.startswith("--ulimit")] == [
        "--ulimit=core=0:-1",
        "--ulimit=nofile=1024:1048576",
        "--ulimit=nproc=32768:32768",
    ]


def test_mounts_are_read_only_unless_they_are_asked_for_otherwise() -> None:
    mounts = (HostMount(Path("/a"), "/b"), HostMount(Path("/c"), "/d", writable=True))
    words = build(replace(START, volumes=mounts[:1], mounts=mounts[1:]))
    assert [word for word in words if word.startswith("--mount=")] == [
        "--mount=type=bind,src=/a,dst=/b,ro=true,bind-propagation=rprivate",
        "--mount=type=bind,src=/c,dst=/d,ro=false,bind-propagation=rprivate",
    ]


def test_the_value_of_a_variable_is_no_word_that_others_can_read() -> None:
    start = replace(START, environment={"TOKEN": "secret", "LD_PRELOAD": "/x.so", "HOME": "/root"})
    words = build(start)
    assert "--env=TOKEN" in words
    assert "secret" not in " ".join(words)
    assert build_run_environment(start, ANN)["TOKEN"] == "secret"


def test_a_variable_that_would_change_podman_is_not_in_its_environment() -> None:
    start = replace(START, environment={"LD_PRELOAD": "/x.so", "HOME": "/root", "PATH": "/x"})
    environment = build_run_environment(start, ANN)
    assert "LD_PRELOAD" not in environment
    assert environment["HOME"] == "/home/ann"
    assert not environment["PATH"].startswith("/x")
    assert {"--env=LD_PRELOAD=/x.so", "--env=HOME=/root", "--env=PATH=/x"} <= set(build(start))


def test_the_callers_choices_are_passed_on() -> None:
    start = replace(
        START,
        user="1000:100",
        workdir="/work",
        pull="missing",
        auth_file="/home/ann/auth.json",
        devices=("/dev/nvidia0",),
        hooks_dir="/run/gpupool/stage-1/hooks",
        umask=0o077,
    )
    assert {
        "--user=1000:100",
        "--workdir=/work",
        "--pull=missing",
        "--authfile=/home/ann/auth.json",
        "--device=/dev/nvidia0",
        "--hooks-dir=/run/gpupool/stage-1/hooks",
        "--umask=0077",
    } <= set(build(start))
