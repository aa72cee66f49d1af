"""Nothing is left behind by a stop, whatever happened before it: the rig is killed at a step that it
reports, and at night at every one."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster.build import build
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.directory import ClusterError, Directory
from tests.support.cluster.machine import (
    CNI_RESULTS,
    CONTAINER_LOGS,
    PLUGINS,
    SET_BY_KUBELET,
    SYSCTLS,
    Machine,
    hierarchies,
)
from tests.support.cluster.pods import pod
from tests.support.cluster.session import ROOT, guarded, session_directory

RIG = [sys.executable, "-m", "tests.support.cluster"]
CONTROL_STEPS = [
    pytest.param("etcd ready", marks=pytest.mark.nightly),
    "kube-apiserver ready",
    pytest.param("kube-controller-manager ready", marks=pytest.mark.nightly),
    pytest.param("kube-scheduler ready", marks=pytest.mark.nightly),
]
NODE_STEPS = [
    pytest.param("machine prepared", marks=pytest.mark.nightly),
    pytest.param("containerd ready", marks=pytest.mark.nightly),
    "images loaded",
    pytest.param("node real-0 ready", marks=pytest.mark.nightly),
]
SLEEP = f"86400.{os.getpid()}"  # told from everybody else's
OWNER = """
from tests.support.cluster.session import session_cluster

with session_cluster(print) as cluster:
    print("up in", cluster.directory.path, flush=True)
    input()
"""
FIXED_FOLDERS = (
    "/var/lib/kubelet",
    "/var/log/containers",
    "/run/containerd",
    "/run/netns",
    "/var/lib/cni",
    "/opt",
)


@pytest.fixture
def directory() -> Iterator[Path]:
    path = session_directory()
    with guarded(path):
        yield path


def _up(directory: Path, *options: str) -> subprocess.Popen[str]:
    command = [*RIG, "up", "--dir", str(directory), *options]
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )


def _kill_at(rig: subprocess.Popen[str], step: str) -> None:
    """SIGKILL as soon as the step is reported; the next one has begun by then."""
    assert rig.stderr is not None
    seen = []
    for line in rig.stderr:
        seen.append(line)
        if line.rstrip().endswith(step):
            break
    else:
        pytest.fail(f"`up` ended before it said {step!r}:\n{''.join(seen)}")
    os.kill(rig.pid, signal.SIGKILL)
    rig.communicate()


def _down(directory: Path) -> None:
    subprocess.run(
        [*RIG, "down", "--dir", str(directory)], cwd=ROOT, check=True, capture_output=True
    )


def _traces(directory: Path) -> dict[str, object]:
    """What a rig could leave, looked up without its help."""
    name = os.fsencode(directory)
    return {
        "directory": directory.exists(),
        "claim": os.path.lexists("/run/gpupool-cluster-node"),
        "processes": sorted(_processes_naming(name)),
        "mounts": [
            line
            for line in Path("/proc/self/mounts").read_text().splitlines()
            if str(directory) in line
        ],
        "links": sorted(
            path.name
            for path in Path("/sys/class/net").iterdir()
            if path.name.startswith(("gpc", "veth"))
        ),
        "cgroups": sorted(
            str(path) for top in hierarchies() for path in top.glob("gpupool-cluster-*")
        ),
        "sysctls": {
            key: (SYSCTLS / key).read_text()
            for key in SET_BY_KUBELET
            if os.access(SYSCTLS / key, os.R_OK)
        },
        "folders": {
            top: sorted(str(path) for path in Path(top).rglob("*") if not _is_of_a_pool(path))
            for top in FIXED_FOLDERS
            if os.path.exists(top)
        },
    }


def _is_of_a_pool(path: Path) -> bool:
    """Whether it is a namespace of a pool's networks, which other tests make meanwhile."""
    return path.is_relative_to("/run/netns/") and path.name.startswith("gpupool-")


def _processes_naming(directory: bytes) -> Iterator[str]:
    for entry in Path("/proc").iterdir():
        try:
            about = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
        except OSError:
            continue
        if directory in about and b"\0guard\0" not in about:
            yield about.decode(errors="replace")[:200]


@pytest.mark.parametrize("step", CONTROL_STEPS)
def test_a_rig_killed_while_it_starts_goes_without_a_trace(directory: Path, step: str) -> None:
    before = _traces(directory)
    _kill_at(_up(directory), step)
    assert _traces(directory)["processes"], "etcd at least is there"
    _down(directory)
    assert _traces(directory) == before
    _down(directory)
    assert _traces(directory) == before


@pytest.mark.root
@pytest.mark.parametrize("step", NODE_STEPS)
def test_a_real_node_killed_while_it_starts_goes_without_a_trace(
    directory: Path, step: str
) -> None:
    before = _traces(directory)
    _kill_at(_up(directory, "--real-node"), step)
    assert _traces(directory)["links"] != before["links"], "the bridge is there"
    _down(directory)
    assert _traces(directory) == before


def test_an_interrupted_start_is_taken_up_again(directory: Path) -> None:
    _kill_at(_up(directory), "etcd ready")
    rig = _up(directory, "--nodes", "2")
    _, words = rig.communicate()
    assert rig.returncode == 0, words
    assert "2 simulated nodes" in words


def test_a_session_that_is_killed_takes_its_rig_along() -> None:
    """The guard outlives its owner by as long as `down` takes."""
    command = [sys.executable, "-c", OWNER]
    owner = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert owner.stdout is not None
    directory = next(Path(line.split()[-1]) for line in owner.stdout if line.startswith("up in"))
    os.kill(owner.pid, signal.SIGKILL)
    owner.communicate()  # the guard holds the other end of the pipe, and lets go of it when it ends
    assert _traces(directory)["processes"] == []
    assert not directory.exists()


@pytest.fixture(
    params=[
        pytest.param((), id="bare machine", marks=pytest.mark.nightly),
        pytest.param((PLUGINS, CONTAINER_LOGS, CNI_RESULTS), id="folders of others"),
    ]
)
def folders(request: pytest.FixtureRequest) -> Iterator[None]:
    """The fixed folders, absent as on a machine like this, or there before us; then they stay."""
    made = [
        top for path in request.param for top in reversed([path, *path.parents]) if not top.exists()
    ]
    made = list(dict.fromkeys(made))
    for path in made:
        path.mkdir()
    yield
    for path in reversed(made):
        path.rmdir()


@pytest.mark.root
def test_pods_that_run_are_ended_with_the_rig(directory: Path, folders: None) -> None:
    """Also when containerd has died before, so that nobody is left to ask for it."""
    before = _traces(directory)
    cluster = Cluster(directory, build(print))
    cluster.up(print)
    cluster.add_real_node(print)
    admin, pods = cluster.admin(), "/api/v1/namespaces/default/pods"
    for name in ("a", "b"):
        admin.create(pods, pod(name, command=["/bin/sleep", SLEEP]))
        admin.until(f"{pods}/{name}", lambda p: p["status"].get("phase") == "Running")
    assert len(_sleepers()) == 2
    cluster.processes.kill("containerd")
    _down(directory)
    assert _sleepers() == []
    assert _traces(directory) == before


def _sleepers() -> list[str]:
    """The pods' own processes: they do not carry the rig's mark."""
    wanted = f"/bin/sleep\0{SLEEP}\0".encode()
    return [
        entry.name
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and _command(entry) == wanted
    ]


def _command(entry: Path) -> bytes:
    try:
        return (entry / "cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.root
def test_a_second_real_node_is_refused_and_told_whose_the_first_is(directory: Path) -> None:
    first, second = Directory(directory), Directory(directory.with_name(f"{directory.name}-2"))
    with guarded(second.path), first.locked(), second.locked():
        Machine(first).prepare()
        with pytest.raises(
            ClusterError,
            match=f"real node of {directory} is on this machine.*down --dir {directory}",
        ):
            Machine(second).prepare()
    _down(directory)
