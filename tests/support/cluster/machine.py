"""What a real node changes on the machine outside of the rig's directory, written down before it is
changed and put back after. Root only. One real node for a machine: the kubelet's plugin folder has
a fixed place."""

import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.support.cluster.directory import ClusterError, Directory
from tests.support.cluster.processes import is_marked
from tests.support.cluster.waiting import wait_until

ADDRESS = "10.250.0.1"  # the node's; its pods get others of the same /24
CLAIM = Path("/run/gpupool-cluster-node")
CGROUPS = Path("/sys/fs/cgroup")
PLUGINS = Path("/var/lib/kubelet/device-plugins")
CONTAINER_LOGS = Path("/var/log/containers")
CNI_RESULTS = Path("/var/lib/cni/results")
SYSCTLS = Path("/proc/sys")
SET_BY_KUBELET = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)
MADE_BY_PROGRAMS = tuple(
    Path(name)
    for name in (
        "/var/lib/kubelet",
        PLUGINS,
        CONTAINER_LOGS,
        "/run/containerd",
        "/run/containerd/s",
        "/var/lib/cni",
        CNI_RESULTS,
    )
)
LIMIT_SECONDS = 20


class Machine:
    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        tag = hashlib.sha256(os.fsencode(directory.path)).hexdigest()[:8]
        self.bridge = f"gpc{tag}"
        self.cgroup = f"gpupool-cluster-{tag}"

    def prepare(self) -> None:
        """Idempotent. Raises ClusterError where another node is on this machine."""
        self._claim()
        self._remember()
        self._make_bridge()
        for hierarchy in hierarchies():
            self._make_cgroup(hierarchy / self.cgroup)

    def restore(self) -> None:
        """Put everything back; the processes of the directory have ended before. Idempotent."""
        _until_done("processes in the node's cgroups", self._kill_containers)
        self._remove_shim_sockets()
        _until_done("mounts", self._unmount)
        _until_done("cgroups", self._remove_cgroups)
        self._remove_links()
        self._put_back()
        self._release()

    def _claim(self) -> None:
        """A link that names the owner: made in one step, so that it is never there without its
        text."""
        try:
            CLAIM.symlink_to(self._directory.path)
        except FileExistsError:
            self._take_over(CLAIM.readlink())
        if not (self._directory / "machine.json").exists() and _is_listening(
            PLUGINS / "kubelet.sock"
        ):
            raise ClusterError(
                f"a kubelet is at work on this machine ({PLUGINS}/kubelet.sock); a second cannot be"
            )

    def _take_over(self, owner: Path) -> None:
        if owner == self._directory.path:
            return
        if owner.exists() or is_marked(owner):
            raise ClusterError(
                f"the real node of {owner} is on this machine, and there can be one; end it with "
                f"`python -m tests.support.cluster down --dir {owner}`"
            )
        CLAIM.unlink()
        self._claim()

    def _release(self) -> None:
        if CLAIM.is_symlink() and CLAIM.readlink() == self._directory.path:
            CLAIM.unlink()

    def _remember(self) -> None:
        """Once, before the first change: what a second `up` finds is our own."""
        if (self._directory / "machine.json").exists():
            return
        values = {
            name: (SYSCTLS / name).read_text()
            for name in SET_BY_KUBELET
            if (SYSCTLS / name).exists()
        }
        absent = [str(path) for path in MADE_BY_PROGRAMS if not path.exists()]
        plugins = [path.name for path in PLUGINS.iterdir()] if PLUGINS.exists() else []
        self._directory.write("machine", {"sysctls": values, "absent": absent, "plugins": plugins})

    def _put_back(self) -> None:
        before = self._directory.read("machine")
        for name, value in before.get("sysctls", {}).items():
            if (SYSCTLS / name).read_text() != value:
                (SYSCTLS / name).write_text(value)
        if before:
            self._remove_kubelet_files(set(before["plugins"]))
            self._remove_network_results()
            for path in map(Path, reversed(before["absent"])):
                _remove_made(path)

    def _remove_kubelet_files(self, kept: set[str]) -> None:
        for file in PLUGINS.iterdir() if PLUGINS.exists() else ():
            if file.name not in kept:
                file.unlink()
        for link in CONTAINER_LOGS.glob("*.log"):
            if link.is_symlink() and link.readlink().is_relative_to(self._directory.path):
                link.unlink()

    def _remove_network_results(self) -> None:
        """What the network plugins remember of our pods, by the network namespaces in our
        directory."""
        for result in CNI_RESULTS.iterdir() if CNI_RESULTS.exists() else ():
            if str(self._directory.path) in result.read_text():
                result.unlink()

    def _make_bridge(self) -> None:
        if not Path("/sys/class/net", self.bridge).exists():
            run("ip", "link", "add", self.bridge, "type", "bridge")
        run("ip", "address", "replace", f"{ADDRESS}/24", "dev", self.bridge)
        run("ip", "link", "set", self.bridge, "up")

    def _remove_links(self) -> None:
        """The bridge, and the ends of pods' links: a pod's own end goes with its network namespace,
        later."""
        bridge = Path("/sys/class/net", self.bridge)
        for link in [*_names(bridge / "brif"), self.bridge]:
            deleted = subprocess.run(
                ["ip", "link", "delete", link], capture_output=True, text=True, check=False
            )
            if deleted.returncode != 0 and Path("/sys/class/net", link).exists():
                raise ClusterError(f"ip link delete {link}: {deleted.stderr.strip()}")

    def _make_cgroup(self, group: Path) -> None:
        group.mkdir(exist_ok=True)
        for name in (
            "cpuset.cpus",
            "cpuset.mems",
        ):  # version 1: empty in a new group, and nothing may run in it then
            if (group.parent / name).exists():
                (group / name).write_text((group.parent / name).read_text())

    def _groups(self) -> Iterator[Path]:
        """Ours in every hierarchy, the deepest first."""
        for hierarchy in hierarchies():
            top = hierarchy / self.cgroup
            if top.exists():
                yield from sorted(
                    (p for p in top.rglob("*") if p.is_dir()), key=lambda p: -len(p.parts)
                )
                yield top

    def _kill_containers(self) -> bool:
        pids = {
            int(word) for group in self._groups() for word in _read(group / "cgroup.procs").split()
        }
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        return not pids

    def _remove_cgroups(self) -> bool:
        for group in self._groups():
            try:
                group.rmdir()
            except (
                OSError
            ):  # the kernel is still at work on what was killed in it; _until_done asks again
                return False
        return True

    def _unmount(self) -> bool:
        points = mount_points(self._directory.path)
        for point in reversed(points):
            subprocess.run(["umount", "--lazy", str(point)], capture_output=True, check=False)
        return not points

    def _remove_shim_sockets(self) -> None:
        """A shim's socket is outside of containerd's folders, under a name that only its bundle
        knows."""
        for told in (self._directory / "containerd").glob(
            "state/io.containerd.runtime.v2.task/*/*/bootstrap.json"
        ):
            address = str(json.loads(told.read_text() or "{}").get("address", ""))
            if address.startswith("unix:///run/containerd/s/"):
                Path(address.removeprefix("unix://")).unlink(missing_ok=True)


def hierarchies() -> list[Path]:
    """Every cgroup hierarchy: the one of version 2, or all of version 1 and beside them version
    2's."""
    if (CGROUPS / "cgroup.controllers").exists():
        return [CGROUPS]
    return [
        path
        for path in CGROUPS.iterdir()
        if path.is_dir() and not path.is_symlink() and path.is_mount()
    ]


def mount_points(directory: Path) -> list[Path]:
    """What is mounted in a directory, in the order of mounting."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = (Path(line.split()[4].encode().decode("unicode_escape")) for line in lines)
    return [point for point in points if point.is_relative_to(directory)]


def run(*command: str | Path) -> str:
    """A program's output. Raises ClusterError with its words."""
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise ClusterError(
            f"`{' '.join(map(str, command))}` exited with {done.returncode}: {done.stderr.strip()}"
        )
    return done.stdout


def _until_done(what: str, attempt: Callable[[], bool]) -> None:
    wait_until(
        attempt,
        LIMIT_SECONDS,
        lambda: f"{what} are still there after {LIMIT_SECONDS} s; call `down` again",
    )


def _remove_made(path: Path) -> None:
    """What programs of ours made. /run/containerd may have become another's meanwhile, so only when
    empty."""
    if path.exists() and not path.is_relative_to("/run"):
        shutil.rmtree(path)
    elif path.exists() and not any(path.iterdir()):
        path.rmdir()


def _is_listening(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()] if folder.exists() else []


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (FileNotFoundError, OSError):
        return ""
