"""What a node's mode lets happen on it: nothing, whole cards alone, or shares too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpupool.base.units import GIB
from gpupool.kubernetes.ledger import ledger
from gpupool.kubernetes.resources import names
from gpupool.model.sharing_default import SHARING_LABEL
from tests.kubernetes.node.conftest import allocatable
from tests.support.cluster.api import Api
from tests.support.cluster.images import SHELL
from tests.support.cluster.node import NAME
from tests.support.cluster.pods import has_ended
from tests.support.cluster_pool import ClusterPool, NodeParts, fresh
from tests.support.kube_builders import asking, pod

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("cards_come_back")]

NODE = f"{ledger.NODES}/{NAME}"
SHARE, WHOLE = asking(1, 200, GIB), asking(1, 1000, None)


@pytest.fixture
def shares_again(pool: ClusterPool, parts: NodeParts) -> Iterator[None]:
    yield
    pool.admin.merge(NODE, {"spec": {"mode": "slot"}})
    pool.until(lambda: allocatable(pool.admin, names.SLOT) == 512, "slots")


def create(admin: Api, pods_path: str, name: str, claim: dict[str, object]) -> None:
    made = fresh(
        pod(
            name,
            {"main": claim},
            spec={"restartPolicy": "Never", "terminationGracePeriodSeconds": 0},
        )
    )
    made["metadata"]["namespace"] = pods_path.split("/")[4]
    made["spec"]["containers"][0] |= {
        "image": SHELL.name,
        "command": ["/bin/sh", "-c", "echo fence $GPUPOOL_FENCE"],
    }
    admin.create(pods_path, made)


def fence(admin: Api, pods_path: str, name: str) -> str:
    admin.until(f"{pods_path}/{name}", has_ended)
    return admin.text(f"{pods_path}/{name}/log").strip()


def test_a_node_that_is_only_looked_at_stays_as_it_was(parts: NodeParts) -> None:
    """No label, no taint, no resource, no file of ours where the kubelet or the runtime looks."""
    assert parts.looked_at is not None
    before, after = parts.looked_at
    assert after == before
    assert before["cdi"] == []


def test_a_node_that_is_given_back_hands_out_nothing(
    pool: ClusterPool, admin: Api, pods_path: str, shares_again: None
) -> None:
    admin.merge(NODE, {"spec": {"mode": "observe"}})
    pool.until(lambda: allocatable(admin, names.SLOT) == 0, "no slots")
    pool.until(lambda: allocatable(admin, names.GPU_MILLI) == 0, "no cards")
    create(admin, pods_path, "share", SHARE)
    waits = admin.until(
        f"{pods_path}/share", lambda found: "not adopted" in str(found["status"].get("conditions"))
    )
    assert waits["spec"]["schedulingGates"]
    admin.merge(NODE, {"spec": {"mode": "slot"}})
    assert fence(admin, pods_path, "share") == "fence soft"


def test_a_node_of_whole_cards_takes_no_share_until_it_is_let(
    pool: ClusterPool, admin: Api, pods_path: str, shares_again: None
) -> None:
    admin.merge(NODE, {"spec": {"mode": "whole"}})
    create(admin, pods_path, "share", SHARE)
    admin.until(f"{pods_path}/share", lambda found: bool(found["status"].get("conditions")))
    create(admin, pods_path, "whole", WHOLE)
    assert fence(admin, pods_path, "whole") == "fence none"
    assert admin.get(f"{pods_path}/share")["spec"]["schedulingGates"]
    admin.merge(NODE, {"spec": {"mode": "slot"}})
    assert fence(admin, pods_path, "share") == "fence soft"


def test_label_of_the_node_is_the_default_of_its_shares(
    pool: ClusterPool, parts: NodeParts, admin: Api, pods_path: str
) -> None:
    """The agent reports it with the rights that it has in a cluster, and prepares the share so."""

    def has_default(kind: str) -> bool:
        return pool.admin.get(NODE)["status"].get("sharingDefault") == kind

    pool.until(lambda: has_default("fixed"), "the default without a label")
    path = f"/api/v1/nodes/{NAME}"
    pool.admin.merge(path, {"metadata": {"labels": {SHARING_LABEL: "burst"}}})
    try:
        pool.until(lambda: has_default("burst"), f"the node's default\n{parts.log()}")
        create(admin, pods_path, "shared", {**SHARE, "names_sharing": False})
        assert fence(admin, pods_path, "shared") == "fence soft"
        assert (
            "(burst)" in admin.get(f"{pods_path}/shared")["metadata"]["annotations"][names.PLACED]
        )
    finally:
        pool.admin.merge(path, {"metadata": {"labels": {SHARING_LABEL: None}}})
    pool.until(lambda: has_default("fixed"), "the default without its label")
