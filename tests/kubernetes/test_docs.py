"""The commands of the pages for people, typed as they stand there (blocks marked `sh`), on a
cluster of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.kubernetes.manifests import install
from tests.support.cluster.build import HELM, build
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.pods import pod
from tests.support.cluster.session import session_cluster
from tests.support.cluster_pool import ClusterPool
from tests.support.kube_people import observed

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "how-to"
NODE = "node-00000"
KUBECTL = '#!/bin/sh\nshift\nexec "$PYTHON" -m gpupool.kubernetes.plugin "$@"\n'
"""kubectl itself runs `kubectl-gpupool` for `kubectl gpupool`, and adds nothing."""


def commands(page: str) -> list[str]:
    """Lines of the blocks that are marked."""
    found, inside = [], False
    for line in (PAGES / page).read_text().splitlines():
        if line.startswith("```"):
            inside = not inside and line == "```sh"
        elif inside:
            found.append(line.replace("NODE", NODE).replace("POD", "plain"))
    return found


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, dict[str, str]]]:
    place = tmp_path_factory.mktemp("bin")
    (place / "kubectl").write_text(KUBECTL)
    (place / "kubectl").chmod(0o755)
    helm = build(print, [HELM])
    with session_cluster(print) as running:
        assert running.simulate_nodes(1, prefix="node") == [NODE]
        running.admin().until("/api/v1/namespaces/default/serviceaccounts/default", bool)
        path = f"{place}:{helm}:{os.environ['PATH']}"
        yield (
            running,
            {
                **os.environ,
                "PATH": path,
                "KUBECONFIG": str(running.kubeconfig),
                "PYTHON": sys.executable,
            },
        )


def typed(line: str, environ: dict[str, str]) -> str:
    done = subprocess.run(
        line, shell=True, cwd=ROOT, env=environ, capture_output=True, text=True, check=False
    )
    looks = (
        "doctor" in line and done.returncode == 1
    )  # nodes without a kubelet run no controller: it says so
    assert done.returncode == 0 or looks, f"{line}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_what_the_pages_say_to_type_works(
    shell: tuple[Cluster, dict[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    cluster, environ = shell
    first, *rest = commands("kubernetes-install.md")
    assert first.startswith("helm ")
    typed(first, environ)
    pool = ClusterPool(cluster, tmp_path_factory.mktemp("pool"))
    pool.admin.until(
        f"/apis/apps/v1/namespaces/{install.NAMESPACE}/daemonsets/{install.AGENT}", bool
    )
    observed(pool, [NODE])
    pool.admin.create("/api/v1/namespaces/default/pods", pod("plain"))
    said = [typed(line, environ) for line in commands("kubernetes-adopt.md")]
    assert f"would set spec.mode of GpuNode {NODE} to slot (now observe)" in said[0]
    assert f"{NODE} is adopted, in mode slot" in said[1]
    assert f"{NODE} is only looked at now" in said[3]
    said = [typed(line, environ) for line in commands("kubernetes-troubleshooting.md")]
    assert "it asks no cards of gpupool" in said[-1]
    said = [typed(line, environ) for line in rest]
    assert "gpupool is gone from this cluster" in said[-1]
    pool.admin.close()
