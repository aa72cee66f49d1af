"""A ledger that is lost while a container of a real node runs: its cards stay its own until it has
ended."""

from __future__ import annotations

import pytest

from gpupool.kubernetes.ledger import ledger
from gpupool.kubernetes.manifests import install
from gpupool.kubernetes.resources import names
from tests.support.cluster.api import Api, Object
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.images import SHELL
from tests.support.cluster.node import NAME
from tests.support.cluster_pool import ClusterPool, NodeParts, fresh
from tests.support.kube_builders import asking, pod
from tests.support.kube_people import People, cluster_admin

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("cards_come_back")]

LEDGER = f"{ledger.NODES}/{NAME}"
CARDS = 4


def create(admin: Api, pods_path: str, name: str) -> None:
    """It wants every card of the node, whole."""
    made = fresh(pod(name, {"main": asking(CARDS, 1000, None)}, namespace=pods_path.split("/")[4]))
    made["spec"]["containers"][0] |= {
        "image": SHELL.name,
        "command": ["/bin/sh", "-c", "sleep 600"],
    }
    admin.create(pods_path, made)


def is_running(found: Object) -> bool:
    return bool(found["status"].get("phase") == "Running")


def is_reported(found: Object) -> bool:
    return bool(found.get("status", {}).get("cards") and found["status"].get("slots"))


def test_definitions_made_anew_while_a_container_runs_give_out_none_of_its_cards(
    cluster: Cluster, pool: ClusterPool, parts: NodeParts, admin: Api, pods_path: str
) -> None:
    create(admin, pods_path, "first")
    admin.until(f"{pods_path}/first", is_running)
    named = [
        one for one in install.objects() if one["metadata"]["name"] == f"gpunodes.{names.GROUP}"
    ]
    definition = next(one for one in named if one["kind"] == "CustomResourceDefinition")
    admin.delete(install.path_of(definition))
    admin.until_gone(install.path_of(definition))
    pool.install()
    pool.until(
        lambda: is_reported(admin.find(LEDGER) or {}),
        f"the agent tells what it holds\n{parts.log()}",
    )
    people = People(cluster_admin(cluster))
    refused = people.run("adopt", NAME, "--yes")
    assert (refused.returncode, "GP-2036" in refused.stderr, "first" in refused.stderr) == (
        3,
        True,
        True,
    )
    admin.merge(LEDGER, {"spec": {"mode": "slot"}})  # by somebody who does not ask
    create(admin, pods_path, "second")
    admin.until(f"{pods_path}/second", waits)
    assert admin.get(LEDGER)["spec"].get("allocations", []) == []
    admin.delete(f"{pods_path}/first?gracePeriodSeconds=0")
    admin.until(f"{pods_path}/second", is_running)


def waits(found: Object) -> bool:
    conditions = found.get("status", {}).get("conditions") or ()
    return any("draining" in one.get("message", "") for one in conditions)
