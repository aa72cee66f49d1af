"""The programs, built from source once and kept: one folder for each content of go.mod, go.sum and
Go's version."""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.cluster.directory import ClusterError

MODULES = Path(__file__).parent / "modules"
CACHE_VARIABLE = "GPUPOOL_CLUSTER_CACHE"
GO_PLACES = ("/usr/local/go/bin", "/usr/lib/go/bin")
STEPS = (
    1  # raise it when the way of building changes, so that what was built the old way is not found
)

Report = Callable[[str], None]


@dataclass(frozen=True)
class Source:
    """One Go module of ours that pins the programs of one project."""

    name: str
    project: str
    versions_at: tuple[str, ...]
    programs: tuple[tuple[str, str], ...]

    @property
    def folder(self) -> Path:
        return MODULES / self.name

    @property
    def version(self) -> str:
        """The project's version as go.mod pins it."""
        return _pinned(self.folder / "go.mod", re.escape(self.project))

    @property
    def link_flags(self) -> str:
        """Nodes and clients report these; without them a node would say v0.0.0."""
        major, minor, _ = self.version.lstrip("v").split(".")
        told = {
            "gitVersion": self.version,
            "gitMajor": major,
            "gitMinor": minor,
            "gitTreeState": "clean",
        }
        told["Version"] = self.version
        return " ".join(
            ["-s", "-w", *(f"-X {at}={told[at.rsplit('.', 1)[1]]}" for at in self.versions_at)]
        )


KUBERNETES = Source(
    "kubernetes",
    "k8s.io/kubernetes",
    (
        *(
            f"k8s.io/component-base/version.{name}"
            for name in ("gitVersion", "gitMajor", "gitMinor", "gitTreeState")
        ),
        "k8s.io/client-go/pkg/version.gitVersion",
    ),
    (
        ("etcd", "go.etcd.io/etcd/server/v3"),
        ("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
        ("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
        ("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"),
        ("kubelet", "k8s.io/kubernetes/cmd/kubelet"),
    ),
)
CONTAINERD = Source(
    "containerd",
    "github.com/containerd/containerd/v2",
    ("github.com/containerd/containerd/v2/version.Version",),
    tuple(
        (name, f"github.com/containerd/containerd/v2/cmd/{name}")
        for name in ("containerd", "containerd-shim-runc-v2", "ctr")
    ),
)
SOURCES = (KUBERNETES, CONTAINERD)
HELM = Source("helm", "helm.sh/helm/v3", (), (("helm", "helm.sh/helm/v3/cmd/helm"),))
"""For tests of the chart alone: a folder of its own, so that the cluster is not built anew for
it."""


def build(report: Report, sources: Sequence[Source] = SOURCES) -> Path:
    """The folder with every program; builds what is missing there: the first time 6 minutes on two
    idle processors, up to 20 on busy ones.

    Two at once take turns. A build that was cut short goes on with the program it was at.
    """
    go = find_go()
    bin_dir = cache_folder(go_version(go), sources) / "bin"
    with _taking_turns(bin_dir.parent, report):
        for source in sources:
            for name, package in source.programs:
                if not (bin_dir / name).exists():
                    _build_one(go, source, name, package, bin_dir, report)
    return bin_dir


def cache_folder(go_version: str, sources: Sequence[Source] = SOURCES) -> Path:
    content = hashlib.sha256(f"{STEPS} {go_version}".encode())
    for source in sources:
        for file in ("go.mod", "go.sum"):
            content.update((source.folder / file).read_bytes())
    root = os.environ.get(CACHE_VARIABLE) or Path.home() / ".cache" / "gpupool" / "cluster"
    return Path(root) / content.hexdigest()[:16]


def find_go() -> str:
    """The `go` command, new enough for both modules. Raises ClusterError naming what to install."""
    needed = max((_go_line(source) for source in SOURCES), key=_numbers)
    go = shutil.which("go") or shutil.which("go", path=os.pathsep.join(GO_PLACES))
    advice = (
        f"install Go {needed} or newer from https://go.dev/dl/ into /usr/local/go, and try again"
    )
    if go is None:
        raise ClusterError(
            f"the cluster is built from source, and no `go` is on PATH or in /usr/local/go; {advice}"
        )
    version = go_version(go)
    if _numbers(version) < _numbers(needed):
        raise ClusterError(f"the cluster needs Go {needed}, and {go} is {version}; {advice}")
    return go


def go_version(go: str) -> str:
    """The version that will build: Go itself may fetch a newer one when a module asks for it."""
    asked = subprocess.run(
        [go, "env", "GOVERSION"], cwd=CONTAINERD.folder, capture_output=True, text=True, check=False
    )
    if asked.returncode != 0:
        raise ClusterError(f"`{go} env GOVERSION` failed: {asked.stderr.strip()}")
    return asked.stdout.strip().removeprefix("go")


def _go_line(source: Source) -> str:
    return _pinned(source.folder / "go.mod", "go")


def _pinned(go_mod: Path, name: str) -> str:
    found = re.search(rf"^\s*{name} (v?\d\S*)", go_mod.read_text(), re.MULTILINE)
    if found is None:
        raise ClusterError(f"{go_mod} pins no version of {name}")
    return found[1]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


@contextmanager
def _taking_turns(folder: Path, report: Report) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(f"waiting for another build in {folder}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build_one(
    go: str, source: Source, name: str, package: str, bin_dir: Path, report: Report
) -> None:
    report(f"building {name} ({source.project} {source.version})")
    began = time.monotonic()
    bin_dir.mkdir(exist_ok=True)
    new = bin_dir / f".{name}.new"
    command = [
        go,
        "build",
        "-trimpath",
        "-buildvcs=false",
        "-ldflags",
        source.link_flags,
        "-o",
        str(new),
        package,
    ]
    made = subprocess.run(
        command,
        cwd=source.folder,
        env={**os.environ, "CGO_ENABLED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode != 0:
        raise ClusterError(f"building {name} failed with {made.returncode}:\n{made.stderr}")
    new.replace(bin_dir / name)
    report(
        f"built {name}: {time.monotonic() - began:.0f} s, {(bin_dir / name).stat().st_size >> 20} MiB"
    )
