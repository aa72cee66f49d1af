"""Whose a process of a node is, by the cgroup that the runtime put it in."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gpupool.audit.mapping_check import FencedJob
from gpupool.kubernetes.node.container_owners import ContainerOwners

UID = "0f8fad5b-d9cb-469f-a165-70867728950e"
OTHER = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
FIRST, SECOND = "a" * 64, "b" * 64
JOBS = [
    FencedJob("team/train-0/main", f"{UID}.main", 0),
    FencedJob("team/lone/main", f"{OTHER}.main", 0),
]


def pod(uid: str, *names: str, ids: dict[str, str] | None = None) -> dict[str, Any]:
    statuses = [
        {"name": name, "containerID": f"containerd://{one}"} for name, one in (ids or {}).items()
    ]
    return {
        "metadata": {"uid": uid},
        "spec": {"containers": [{"name": name} for name in names]},
        "status": {"containerStatuses": statuses},
    }


PODS = [pod(UID, "main", "side", ids={"main": FIRST, "side": SECOND}), pod(OTHER, "main")]
SLICE = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice/cri-containerd-{}.scope"


@pytest.mark.parametrize(
    ("cgroup", "expected"),
    [
        (f"0::/kubepods/burstable/pod{UID}/{FIRST}", f"{UID}.main"),
        (f"0::/../../..{SLICE.format(UID.replace('-', '_'), FIRST)}/deeper/still", f"{UID}.main"),
        (f"7:cpu:/kubepods/pod{UID}/{FIRST}\n0::/", f"{UID}.main"),
        (f"0::/kubepods/burstable/pod{UID}/{SECOND}", None),
        (f"0::/kubepods/burstable/pod{UID}/{'c' * 64}", None),
        (f"0::/kubepods/burstable/pod{OTHER}/{'c' * 64}", f"{OTHER}.main"),
        ("0::/system.slice/sshd.service", None),
    ],
    ids=[
        "cgroupfs",
        "systemd",
        "v1",
        "unfenced-sidecar",
        "unknown-of-several",
        "status-comes-later",
        "no-container",
    ],
)
def test_a_process_is_its_containers(tmp_path: Path, cgroup: str, expected: str | None) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7/cgroup").write_text(cgroup + "\n")
    owner = ContainerOwners(lambda: PODS, tmp_path).map_owners(JOBS)
    assert owner(7) == expected
    assert owner(8) is None


def test_every_process_of_the_container_is_killed_and_no_other(tmp_path: Path) -> None:
    processes = [subprocess.Popen(["sleep", "600"]) for _ in range(3)]
    try:
        for process, container in zip(processes, (FIRST, FIRST, SECOND), strict=True):
            (tmp_path / str(process.pid)).mkdir()
            (tmp_path / str(process.pid) / "cgroup").write_text(
                f"0::/kubepods/pod{UID}/{container}\n"
            )
        (tmp_path / "self").mkdir()
        owners = ContainerOwners(lambda: PODS, tmp_path)
        assert owners.kill_container(JOBS[0]) == 2
        assert [process.wait() for process in processes[:2]] == [-9, -9]
        assert processes[2].poll() is None
        assert owners.kill_container(JOBS[0]) == 0
        os.kill(processes[2].pid, 0)
    finally:
        for process in processes:
            process.kill()
            process.wait()
