"""A pod that names a MIG profile gets a partition of a card in MIG mode, from admission to release."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from gpupool.kubernetes.admission.decide import ClusterFacts, decide_admission
from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.ledger import ledger
from gpupool.kubernetes.resources.gpu_node import GpuNode
from gpupool.kubernetes.resources.node import NodeFacts
from gpupool.model.partition import is_valid_set
from gpupool.probes.mig_tables import list_mig_profiles
from tests.kubernetes.node.conftest import CARDS
from tests.support.cluster.api import Api
from tests.support.cluster.images import SHELL
from tests.support.cluster.node import NAME
from tests.support.cluster.pods import has_ended
from tests.support.cluster_pool import ClusterPool, NodeParts

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("cards_come_back", "mig_card")]

NODE = f"{ledger.NODES}/{NAME}"
TELLS = "cat /run/gpupool/share/share.json; echo; echo level $GPUPOOL_FENCE"


@pytest.fixture(scope="module")
def mig_card(pool: ClusterPool, parts: NodeParts) -> Iterator[None]:
    """One H200 in MIG mode beside the other cards, all simulated."""
    parts.restart_agent(f"{CARDS}xL40S+1xH200:mig")
    pool.until(lambda: find_mig_card(pool.admin) is not None, "a card that publishes profiles")
    yield
    parts.restart_agent(f"{CARDS}xL40S")
    pool.until(lambda: find_mig_card(pool.admin) is None, "the cards of before")


def find_mig_card(admin: Api) -> dict[str, Any] | None:
    for card in admin.get(NODE)["status"].get("cards", ()):
        if "profiles" in card:
            found: dict[str, Any] = card
            return found
    return None


def create(admin: Api, pods_path: str, name: str, limits: dict[str, str], command: str) -> None:
    """Create a pod as admission stores it, by what the cluster publishes now."""
    cluster = ClusterCache()
    cluster.note_host(NAME, NodeFacts.from_json(admin.get(f"/api/v1/nodes/{NAME}")))
    cluster.note_ledger(NAME, GpuNode.from_json(admin.get(NODE)))
    typed = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": pods_path.split("/")[4]},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {
                    "name": "main",
                    "image": SHELL.name,
                    "command": ["/bin/sh", "-c", command],
                    "resources": {"limits": limits},
                }
            ],
        },
    }
    facts = ClusterFacts(cluster.take_snapshot().cards)
    admin.create(pods_path, decide_admission(typed, "default", facts).pod)


def test_pods_with_the_plugins_words_share_a_card_in_slots(
    pool: ClusterPool, pods_path: str
) -> None:
    admin = pool.admin
    create(admin, pods_path, "serve", {"nvidia.com/mig-3g.71gb": "1"}, f"{TELLS}; sleep 600")
    create(admin, pods_path, "small", {"nvidia.com/mig-1g.18gb": "1"}, TELLS)
    admin.until(f"{pods_path}/small", has_ended)
    text, _, level = admin.text(f"{pods_path}/small/log").rpartition("level ")
    share = json.loads(text)
    (device,) = share["devices"]
    card = find_mig_card(admin)
    assert card is not None
    assert (device["uuid"], device["profile"]) == (card["uuid"], "1g.18gb")
    shapes = {one.name: one for one in list_mig_profiles("H200")}
    assert device["memory_bytes"] == shapes["1g.18gb"].memory_bytes
    assert level.strip() == "soft", "the fence holds a partition of a simulated card"
    admin.until(f"{pods_path}/serve", lambda one: one["status"]["phase"] == "Running")
    held = GpuNode.from_json(admin.get(NODE)).slots_by_card()[card["uuid"]]
    assert is_valid_set(list_mig_profiles("H200"), held)
    assert "3g.71gb" in [slot.profile for slot in held]
    create(admin, pods_path, "wide", {"nvidia.com/mig-7g.141gb": "1"}, TELLS)
    admin.delete(f"{pods_path}/serve?gracePeriodSeconds=0")
    admin.until(f"{pods_path}/wide", has_ended)
    assert '"profile": "7g.141gb"' in admin.text(f"{pods_path}/wide/log")
