"""A ledger that is deleted while pods have its cards: refused, and if it happens, no card is given
out again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.kubernetes.ledger import ledger
from gpupool.kubernetes.manifests import install
from gpupool.kubernetes.resources import names
from tests.support import kube_builders
from tests.support.cluster.api import Api, Object, RefusedError
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.pods import is_bound
from tests.support.cluster_pool import ClusterPool, fresh
from tests.support.kube_builders import asking, pod
from tests.support.kube_people import People, cluster_admin

NODE = "twice-00000"
LEDGER = f"{ledger.NODES}/{NODE}"
GIVE_UP = {"metadata": {"annotations": {names.GIVEN_UP: "true"}}}


@pytest.fixture
def pool(cluster: Cluster, tmp_path: Path, pods_path: str) -> Iterator[ClusterPool]:
    with ClusterPool(cluster, tmp_path) as made:
        made.adopt(cluster.simulate_nodes(1, prefix="twice"), 2)
        made.start()
        yield made
        made.admin.delete(f"{pods_path}?gracePeriodSeconds=0")


def create(admin: Api, pods_path: str, name: str) -> None:
    admin.create(
        pods_path,
        fresh(pod(name, {"main": asking(2, 1000, None)}, namespace=pods_path.split("/")[4])),
    )


def lost(pool: ClusterPool, admin: Api, held: Object) -> None:
    """The ledger is gone and made anew as an agent makes it, which still holds cards for what
    runs."""
    uses = [
        {"uid": one["uid"], "container": one["container"], "slot": "s1", "generation": 1}
        for one in held
    ]
    pool.agents.names.discard(NODE)
    admin.merge(LEDGER, GIVE_UP)
    admin.delete(LEDGER)
    admin.until_gone(LEDGER)
    admin.create(ledger.NODES, ledger.new_ledger(NODE, admin.get(f"/api/v1/nodes/{NODE}")))
    admin.merge(f"{LEDGER}/status", {"status": {**kube_builders.status(NODE, 2), "slots": uses}})


def test_a_ledger_that_holds_cards_is_not_deleted(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    create(admin, pods_path, "first")
    admin.until(f"{pods_path}/first", is_bound)
    with pytest.raises(
        RefusedError, match=rf"GP-2037: pods have cards of node {NODE}: kubectl gpupool release"
    ):
        admin.delete(LEDGER)
    with pytest.raises(RefusedError, match="GP-2037"):
        admin.delete(ledger.NODES)
    admin.merge(LEDGER, GIVE_UP)
    admin.delete(LEDGER)


def test_after_a_deletion_no_card_is_given_out_twice(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    create(admin, pods_path, "first")
    admin.until(f"{pods_path}/first", is_bound)
    lost(pool, admin, pool.entries()[NODE])
    people = People(cluster_admin(pool.cluster))
    refused = people.run("adopt", NODE, "--yes")
    assert (refused.returncode, "GP-2036" in refused.stderr, "first" in refused.stderr) == (
        3,
        True,
        True,
    )
    assert "are not in its ledger" in people.run("doctor").stdout
    admin.merge(LEDGER, {"spec": {"mode": "slot"}})  # by somebody who does not ask
    create(admin, pods_path, "second")
    admin.until(f"{pods_path}/second", waits)
    assert pool.entries()[NODE] == []
    admin.delete(f"{pods_path}/first?gracePeriodSeconds=0")
    admin.merge(f"{LEDGER}/status", {"status": {"slots": []}})
    pool.agents.names.add(NODE)
    admin.until(f"{pods_path}/second", is_bound)


def test_the_definition_made_anew_is_no_way_around(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    create(admin, pods_path, "first")
    admin.until(f"{pods_path}/first", is_bound)
    held = pool.entries()[NODE]
    made = next(
        one for one in install.objects() if one["metadata"]["name"] == f"gpunodes.{names.GROUP}"
    )
    assert made["kind"] == "CustomResourceDefinition"
    pool.agents.names.discard(NODE)
    pool.kill()
    admin.delete(install.path_of(made))
    admin.until_gone(install.path_of(made))
    pool.install()
    pool.start()
    admin.create(ledger.NODES, ledger.new_ledger(NODE, admin.get(f"/api/v1/nodes/{NODE}")))
    uses = [
        {"uid": one["uid"], "container": one["container"], "slot": "s1", "generation": 1}
        for one in held
    ]
    admin.merge(f"{LEDGER}/status", {"status": {**kube_builders.status(NODE, 2), "slots": uses}})
    admin.merge(LEDGER, {"spec": {"mode": "slot"}})
    create(admin, pods_path, "second")
    admin.until(f"{pods_path}/second", waits)
    assert pool.entries()[NODE] == []


def waits(found: Object) -> bool:
    """It was told that the cards cannot be had now."""
    conditions = found.get("status", {}).get("conditions") or ()
    return any("draining" in one.get("message", "") for one in conditions)
