"""Pages for those who come from elsewhere, for quotas and for gangs: what they say to type is
typed, in their order."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpupool.kubernetes.ledger import ledger
from gpupool.kubernetes.resources.tenant import TENANTS
from tests.support import pages
from tests.support.cluster.pods import is_bound
from tests.support.cluster.session import session_cluster
from tests.support.cluster_pool import ClusterPool
from tests.support.kube_people import observed

NODE = "node-00000"
CARDS = 4
KUBECTL = '#!/bin/sh\nexec "$PYTHON" -m tests.support.kubectl "$@"\n'
PODS = "/api/v1/pods"
SETTINGS = "/apis/gpupool.dev/v1alpha1/poolsettings/pool"


@dataclass
class Shell:
    """A shell in a folder with the page's files."""

    pool: ClusterPool
    environ: dict[str, str]
    place: Path

    def type(self, page: str, after: Callable[[str], None]) -> list[str]:
        """Every line of the page; `after` looks at the cluster after each."""
        pages.write_files(page, self.place)
        said = []
        for line in pages.typed(page):
            typed = line.replace("NODE", NODE)
            done = subprocess.run(
                typed,
                shell=True,
                cwd=self.place,
                env=self.environ,
                capture_output=True,
                text=True,
                check=False,
            )
            looks = (
                "doctor" in line and done.returncode == 1
            )  # one process leads here, no Deployment: it says so
            assert done.returncode == 0 or looks, (
                f"{typed}\n{done.stdout}{done.stderr}{self.pool.log()}"
            )
            said.append(done.stdout)
            after(line)
        return said


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterPool]:
    """A cluster of its own: whose words are taken is a matter of all of it."""
    with (
        session_cluster(print) as cluster,
        ClusterPool(cluster, tmp_path_factory.mktemp("pages")) as made,
    ):
        assert cluster.simulate_nodes(1, prefix="node") == [NODE]
        for space in ("default", "vision", "speech"):
            cluster.access().namespace(space)
            made.admin.until(f"/api/v1/namespaces/{space}/serviceaccounts/default", bool)
        observed(made, [NODE], CARDS)
        made.start()
        made.start_webhook("native")
        made.admin.until(SETTINGS, bool)
        yield made


@pytest.fixture
def shell(pool: ClusterPool, tmp_path: Path) -> Iterator[Shell]:
    program = tmp_path / "bin" / "kubectl"
    program.parent.mkdir()
    program.write_text(KUBECTL)
    program.chmod(0o755)
    environ = {
        **os.environ,
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(pages.ROOT),
        "KUBECONFIG": str(pool.cluster.kubeconfig),
        "PYTHON": sys.executable,
    }
    yield Shell(pool, environ, tmp_path)
    shutil.rmtree(tmp_path / "bin")
    pool.until(lambda: not any(pool.entries().values()), "an empty ledger")


def bound(pool: ClusterPool) -> int:
    return sum(is_bound(one) for one in pool.admin.get(PODS)["items"])


def held(pool: ClusterPool) -> list[int]:
    cards = [
        card for entries in pool.entries().values() for entry in entries for card in entry["cards"]
    ]
    return sorted(card["gpuMilli"] for card in cards)


def dialects(pool: ClusterPool) -> list[str]:
    found: list[str] = pool.admin.get(SETTINGS)["status"].get("inUse", {}).get("dialects", [])
    return found


def run_out(pool: ClusterPool, namespace: str = "default") -> None:
    """Nodes without a kubelet let a deleted pod go only when nobody waits for it."""
    path = f"/api/v1/namespaces/{namespace}/pods"

    def gone() -> bool:
        pool.admin.delete(f"{path}?gracePeriodSeconds=0")
        return not pool.admin.get(path)["items"]

    pool.until(gone, "no pod")


FROM = {
    "kubernetes-from-hami.md": ("hami", 2, [300, 300]),
    "kubernetes-from-qgpu.md": ("qgpu", 2, [300, 300]),
    "kubernetes-from-kai.md": ("kai", 1, [500]),
}


@pytest.mark.parametrize("page", FROM)
def test_a_manifest_of_another_system_runs_unchanged_and_the_way_back_is_whole(
    pool: ClusterPool, shell: Shell, page: str
) -> None:
    dialect, pods, shares = FROM[page]
    seen = []

    def look(line: str) -> None:
        if "patch poolsettings" in line:
            pool.until(
                lambda: (dialect in dialects(pool)) == (dialect in line), f"the words of {dialect}"
            )
        if "apply" in line:
            pool.until(
                lambda: bound(pool) == pods and held(pool) == shares,
                f"{pods} pods with their shares",
            )
            seen.append(pool.entries()[NODE])
        if "delete" in line:
            run_out(pool)

    said = shell.type(page, look)
    assert seen
    assert any("would set spec.mode" in one for one in said)
    assert pool.admin.get(f"{ledger.NODES}/{NODE}")["spec"]["mode"] == "observe"


def adopted(shell: Shell) -> None:
    done = subprocess.run(
        ["kubectl", "gpupool", "adopt", NODE, "--yes"],
        env=shell.environ,
        cwd=shell.place,
        check=False,
    )
    assert done.returncode == 0


def test_what_a_cohort_lends_and_keeps_is_as_the_page_says(pool: ClusterPool, shell: Shell) -> None:
    adopted(shell)

    def look(line: str) -> None:
        if line.endswith("apply -f tenants.yaml"):
            for name in ("lab", "vision"):
                pool.admin.until(f"{TENANTS}/{name}", lambda found: status(found) == "True")
        if line.endswith("apply -f four.yaml"):
            pool.until(
                lambda: bound(pool) == 3 and held(pool) == [1000] * 3,
                "its own two and a borrowed one",
            )
            pool.admin.until(f"{TENANTS}/vision", lambda found: found["status"].get("waiting") == 1)
        if line.endswith("delete -f four.yaml"):
            run_out(pool, "vision")

    said = shell.type("kubernetes-tenants.md", look)
    assert "vision" in said[2]
    assert "lab" in said[1]


def status(found: dict[str, Any]) -> str:
    conditions = found.get("status", {}).get("conditions", ())
    return next((one["status"] for one in conditions if one["type"] == "InForce"), "")


def test_gangs_start_together_also_where_the_next_pod_is_made_when_the_first_runs(
    pool: ClusterPool, shell: Shell
) -> None:
    adopted(shell)
    serve = "/api/v1/namespaces/default/pods/serve"

    def look(line: str) -> None:
        if line.endswith("apply -f job.yaml"):
            pool.until(lambda: bound(pool) == 2 and held(pool) == [1000] * 2, "both of the gang")
        if line.endswith("apply -f ordered.yaml"):
            pool.admin.until(f"{serve}-0", is_bound)
            assert held(pool) == [1000] * 2
            assert pool.admin.find(f"{serve}-1") is None
            ready = {"type": "Ready", "status": "True"}
            pool.admin.merge(
                f"{serve}-0/status", {"status": {"phase": "Running", "conditions": [ready]}}
            )
            pool.admin.until(f"{serve}-1", is_bound)
            assert held(pool) == [1000] * 2
        if "delete" in line:
            run_out(pool)
            pool.until(lambda: not held(pool), "the seats that were kept for a while given back")

    shell.type("kubernetes-gangs.md", look)
