"""`kubectl gpupool` as people type it, and nodes as they are before anybody adopts them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpupool.kubernetes.ledger import ledger
from gpupool.kubernetes.resources import names
from tests.support import kube_builders
from tests.support.cluster.cluster import Cluster
from tests.support.cluster_pool import ClusterPool

LIMIT_SECONDS = 120


def typed(kubeconfig: Path, *words: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "gpupool.kubernetes.plugin",
        *words,
        "--kubeconfig",
        str(kubeconfig),
    ]


class People:
    """Somebody with a kubeconfig."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The whole command line, in a process of its own."""
        command = typed(self.kubeconfig, *words)
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_SECONDS,
            stdin=subprocess.DEVNULL,
        )

    def ok(self, *words: str) -> str:
        done = self.run(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def data(self, *words: str) -> Any:
        return json.loads(self.ok(*words, "-o", "json"))

    def refused(self, *words: str) -> str:
        """What is said on stderr."""
        done = self.run(*words)
        assert done.returncode not in (0, 1), done.stdout + done.stderr
        return done.stderr

    def begin(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            typed(self.kubeconfig, *words),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            env=dict(os.environ),
        )


def cluster_admin(cluster: Cluster) -> Path:
    """A kubeconfig of somebody with every right, who is not in system:masters, as on clusters that
    others run."""
    access, everything = cluster.access(), {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    access.service_account("kube-system", "people", [everything])
    return access.kubeconfig("people.kubeconfig", access.token("kube-system", "people"))


def observed(pool: ClusterPool, nodes: Sequence[str], cards: int = 4) -> None:
    """Nodes of which an agent has reported, and that nobody has adopted."""
    for name in nodes:
        node = pool.admin.get(f"/api/v1/nodes/{name}")
        pool.admin.apply(f"{ledger.NODES}/{name}", ledger.new_ledger(name, node))
        pool.admin.merge(
            f"{ledger.NODES}/{name}/status", {"status": kube_builders.status(name, cards)}
        )
        offer(pool, name, {names.SLOT: "512"})
    pool.agents.names |= set(nodes)


def offer(pool: ClusterPool, node: str, resources: dict[str, str | None]) -> None:
    """As a kubelet writes what plugins have told it."""
    status = {"capacity": resources, "allocatable": resources}
    pool.admin.merge(f"/api/v1/nodes/{node}/status", {"status": status})
