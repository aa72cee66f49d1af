"""Which controllers there are, how each is built and started, and the definitions that come with
it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.support.cluster.build import Report, Source, build, cache_folder, find_go, go_version
from tests.support.cluster.directory import ClusterError

DEFINITIONS = "definitions"
ADVICE = "`make test-operators` builds it, once"

Json = dict[str, Any]


@dataclass(frozen=True)
class Operator:
    """One project's controller. `definitions` are files of its module, as it ships them."""

    source: Source
    definitions: Sequence[str]

    @property
    def name(self) -> str:
        return self.source.programs[0][0]

    def build(self, report: Report) -> None:
        """The program, and beside it its definitions, which the module's cache may lose."""
        kept = build(report, [self.source]).parent / DEFINITIONS
        if not kept.exists():
            new = kept.with_name(f".{DEFINITIONS}.new")
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir()
            for name in self.definitions:
                shutil.copyfile(_module(self.source) / name, new / Path(name).name)
            new.replace(kept)

    def why_not(self) -> str:
        """Why it cannot be run here; empty where it can."""
        try:
            built = (self._folder / DEFINITIONS).exists() and self.program.exists()
        except ClusterError as error:
            return str(error)
        return "" if built else f"{self.name} {self.source.version} is not built; {ADVICE}"

    @property
    def program(self) -> Path:
        return self._folder / "bin" / self.name

    def objects(self) -> list[Json]:
        """Its definitions."""
        files = sorted((self._folder / DEFINITIONS).iterdir())
        return [
            one
            for file in files
            for one in yaml.load_all(file.read_text(), yaml.CSafeLoader)
            if one
        ]

    @property
    def _folder(self) -> Path:
        return cache_folder(go_version(find_go()), [self.source])


def _module(source: Source) -> Path:
    """Where its sources are: the build has put them there."""
    asked = [find_go(), "list", "-m", "-f", "{{.Dir}}", source.project]
    return Path(
        subprocess.run(
            asked, cwd=source.folder, capture_output=True, text=True, check=True
        ).stdout.strip()
    )


LWS = Operator(
    Source("lws", "sigs.k8s.io/lws", (), (("lws", "sigs.k8s.io/lws/cmd"),)),
    (
        "config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml",
        "config/crd/bases/disaggregatedset.x-k8s.io_disaggregatedsets.yaml",
        "config/webhook/manifests.yaml",
    ),
)
MPI = Operator(
    Source(
        "mpi-operator",
        "github.com/kubeflow/mpi-operator",
        (),
        (("mpi-operator", "github.com/kubeflow/mpi-operator/cmd/mpi-operator"),),
    ),
    ("manifests/base/kubeflow.org_mpijobs.yaml",),
)
RAY = Operator(
    Source(
        "kuberay",
        "github.com/ray-project/kuberay/ray-operator",
        (),
        (("ray-operator", "github.com/ray-project/kuberay/ray-operator"),),
    ),
    tuple(
        f"config/crd/bases/ray.io_{kind}.yaml" for kind in ("rayclusters", "rayjobs", "rayservices")
    ),
)
OPERATORS = (LWS, MPI, RAY)
