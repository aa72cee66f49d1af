"""Pods are released only where kube-scheduler takes them: each of these would be stuck for good on
the fuller node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gpupool.kubernetes.ledger import ledger
from gpupool.kubernetes.resources.pod_requests import sum_foreign_usage
from tests.support.cluster.api import Api, Object
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.pods import is_bound
from tests.support.cluster_pool import ClusterPool, fresh
from tests.support.kube_builders import asking, gang, pod

WHOLE = {"main": asking(1, 1000, None)}
CARDS = 4
ZONE = "topology.kubernetes.io/zone"
FULL, EMPTY = "fits-00000", "fits-00001"
#: The fuller node first, whatever came before: so each test sees by where a pod lands which rule
#: kept it away.
SETTINGS = {"policy": "binpack", "replaceSeconds": 0}
STORAGE = "/apis/storage.k8s.io/v1/storageclasses"
CSI_NODES = "/apis/storage.k8s.io/v1/csinodes"
ATTACHMENTS = "/apis/storage.k8s.io/v1/volumeattachments"
LATER, SELECTED = "WaitForFirstConsumer", "volume.kubernetes.io/selected-node"
VOLUMES = "/api/v1/persistentvolumes"


@pytest.fixture(scope="module")
def pool(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterPool]:
    with ClusterPool(cluster, tmp_path_factory.mktemp("fits")) as made:
        made.adopt(cluster.simulate_nodes(2, prefix="fits"), CARDS)
        for name, zone in ((FULL, "a"), (EMPTY, "b")):
            made.admin.merge(f"/api/v1/nodes/{name}", {"metadata": {"labels": {ZONE: zone}}})
        made.start(**SETTINGS)
        yield made


@pytest.fixture(autouse=True)
def begun(pool: ClusterPool, admin: Api, pods_path: str) -> Iterator[None]:
    """One card of the first node is used, so that the next pod would go there too."""
    made = asks(pods_path, "first", spec={"nodeSelector": {ZONE: "a"}})
    made["metadata"]["labels"]["app"] = "first"
    admin.create(pods_path, made)
    admin.until(f"{pods_path}/first", is_bound)
    yield
    pool.clear(pods_path)
    if any(
        node["status"].get("others", {}).get("pods") for node in admin.get(ledger.NODES)["items"]
    ):
        report(pool, pods_path)


def asks(
    pods_path: str, name: str, spec: dict[str, Any] | None = None, app: str = "", **more: Any
) -> Object:
    made = fresh(
        pod(
            name,
            more.pop("containers", WHOLE),
            namespace=pods_path.split("/")[4],
            spec=spec,
            **more,
        )
    )
    made["metadata"]["labels"]["app"] = app or name
    return made


def other(
    admin: Api,
    pods_path: str,
    name: str,
    node: str,
    spec: dict[str, Any] | None = None,
    **more: Any,
) -> None:
    """A pod of somebody else's, on that node; `more` is its container's."""
    container = {"name": "main", "image": "gpupool.test/busybox:1", **more}
    made = {
        "nodeName": node,
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
        **(spec or {}),
    }
    meta = {"name": name, "labels": {"app": name}}
    admin.create(pods_path, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": made})


def report(pool: ClusterPool, pods_path: str) -> None:
    """What the nodes' agents say of others' pods, before the controller looks: it hears of nodes
    and pods apart."""
    pool.kill()
    pods = pool.admin.get(pods_path)["items"]
    for node in (FULL, EMPTY):
        said = sum_foreign_usage(
            one for one in pods if one["spec"].get("nodeName") == node
        ).to_json()
        pool.admin.merge(f"{ledger.NODES}/{node}/status", {"status": {"others": None}})
        pool.admin.merge(f"{ledger.NODES}/{node}/status", {"status": {"others": said}})
    pool.start(**SETTINGS)


def lands(admin: Api, pods_path: str, made: Object) -> str:
    admin.create(pods_path, made)
    return str(admin.until(f"{pods_path}/{made['metadata']['name']}", is_bound)["spec"]["nodeName"])


def waits(admin: Api, pods_path: str, made: Object, *words: str) -> str:
    """The reason with which it waits, whose sentence has these words."""
    admin.create(pods_path, made)

    def said(found: Object) -> bool:
        return all(word in message(found)[1] for word in words)

    found = admin.until(f"{pods_path}/{made['metadata']['name']}", said)
    assert found["spec"]["schedulingGates"]
    return message(found)[0]


def message(found: Object) -> tuple[str, str]:
    (one,) = [c for c in found["status"].get("conditions", ()) if c["type"] == "PodScheduled"]
    return one["reason"], one.get("message", "")


def with_port(made: Object, number: int) -> Object:
    made["spec"]["containers"][0]["ports"] = [{"containerPort": number, "hostPort": number}]
    return made


def with_claim(made: Object, claim: str) -> Object:
    made["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    return made


def near(kind: str, key: str, app: str) -> dict[str, Any]:
    """`podAffinity` or `podAntiAffinity` to pods of that name."""
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def test_without_a_rule_the_next_pod_goes_to_the_fuller_node(admin: Api, pods_path: str) -> None:
    assert lands(admin, pods_path, asks(pods_path, "next")) == FULL


# --- ports and resources ----------------------------------------------------------------------


def test_a_host_port_that_another_pod_has_is_not_waited_for_on_that_node(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    other(admin, pods_path, "exporter", FULL, ports=[{"containerPort": 9100, "hostPort": 9100}])
    report(pool, pods_path)
    assert lands(admin, pods_path, with_port(asks(pods_path, "one"), 9100)) == EMPTY
    reason = waits(
        admin, pods_path, with_port(asks(pods_path, "two"), 9100), "2 host port TCP 9100 is taken"
    )
    assert reason == "Unschedulable"
    admin.delete(f"{pods_path}/one?gracePeriodSeconds=0")
    admin.until(f"{pods_path}/two", is_bound)


def test_pods_of_one_plan_that_want_one_port_do_not_meet(
    admin: Api, pods_path: str, pool: ClusterPool
) -> None:
    pool.kill()
    for name in ("one", "two", "three"):
        admin.create(pods_path, with_port(asks(pods_path, name), 8080))
    pool.start(**SETTINGS)

    def bound() -> list[str]:
        found = [one for one in admin.get(pods_path)["items"] if one["metadata"]["name"] != "first"]
        return sorted(one["spec"]["nodeName"] for one in found if is_bound(one))

    pool.until(lambda: len(bound()) == 2, "two are bound")
    assert bound() == [FULL, EMPTY]
    gated = [one for one in admin.get(pods_path)["items"] if one["spec"].get("schedulingGates")]
    assert len(gated) == 1


def test_a_gang_whose_members_want_one_port_gets_a_node_each_or_waits_whole(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    for n in range(3):
        made = with_port(asks(pods_path, f"w-{n}", gang=gang(3)), 7000)
        if n < 2:
            admin.create(pods_path, made)
    reason = waits(
        admin, pods_path, made, "3 members each want a node of their own, and 2 can take one now"
    )
    assert reason == "Unschedulable"
    for n in range(2):
        admin.create(
            pods_path, with_port(asks(pods_path, f"v-{n}", gang=gang(2, name="small")), 7000)
        )
    found = {admin.until(f"{pods_path}/v-{n}", is_bound)["spec"]["nodeName"] for n in range(2)}
    assert found == {FULL, EMPTY}


def test_storage_of_the_node_and_resources_of_others_are_counted(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    have = {
        "status": {"capacity": {"example.com/nic": "2"}, "allocatable": {"example.com/nic": "2"}}
    }
    admin.merge(f"/api/v1/nodes/{EMPTY}/status", have)
    made = asks(pods_path, "nic")
    made["spec"]["containers"][0]["resources"]["limits"]["example.com/nic"] = "2"
    assert lands(admin, pods_path, made) == EMPTY
    made = asks(pods_path, "nic-2")
    made["spec"]["containers"][0]["resources"]["limits"]["example.com/nic"] = "1"
    waits(admin, pods_path, made, "1 too little example.com/nic", "1 no example.com/nic")
    other(admin, pods_path, "disk", FULL, resources={"requests": {"ephemeral-storage": "9Ti"}})
    report(pool, pods_path)
    made = asks(pods_path, "scratch")
    made["spec"]["containers"][0]["resources"]["requests"] = {"ephemeral-storage": "2Ti"}
    assert lands(admin, pods_path, made) == EMPTY


def test_a_node_takes_no_more_pods_than_it_may(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    pods = {"status": {"capacity": {"pods": "2"}, "allocatable": {"pods": "2"}}}
    admin.merge(f"/api/v1/nodes/{FULL}/status", pods)
    pool.kill()
    for n in range(4):
        admin.create(pods_path, asks(pods_path, f"p-{n}", containers={"main": asking()}))
    pool.start(**SETTINGS)
    nodes = [admin.until(f"{pods_path}/p-{n}", is_bound)["spec"]["nodeName"] for n in range(4)]
    assert nodes.count(FULL) == 1
    pods = {"status": {"capacity": {"pods": "10000"}, "allocatable": {"pods": "10000"}}}
    admin.merge(f"/api/v1/nodes/{FULL}/status", pods)


# --- pods around ------------------------------------------------------------------------------


def test_a_pod_keeps_away_from_pods_that_it_names(admin: Api, pods_path: str) -> None:
    apart = near("podAntiAffinity", "kubernetes.io/hostname", "first")
    assert lands(admin, pods_path, asks(pods_path, "shy", apart)) == EMPTY
    itself = near("podAntiAffinity", ZONE, "lonely")
    assert lands(admin, pods_path, asks(pods_path, "lonely-1", itself, "lonely")) == FULL
    assert lands(admin, pods_path, asks(pods_path, "lonely-2", itself, "lonely")) == EMPTY
    made = asks(pods_path, "lonely-3", itself, "lonely")
    assert waits(admin, pods_path, made, "2 it keeps away from pods there") == "Unschedulable"
    admin.delete(f"{pods_path}/lonely-1?gracePeriodSeconds=0")
    admin.until(f"{pods_path}/lonely-3", is_bound)


def test_pods_that_are_there_keep_a_pod_away(pool: ClusterPool, admin: Api, pods_path: str) -> None:
    other(admin, pods_path, "guard", FULL, near("podAntiAffinity", ZONE, "noisy"))
    report(pool, pods_path)
    assert lands(admin, pods_path, asks(pods_path, "noisy")) == EMPTY
    ours = near("podAntiAffinity", ZONE, "loud")
    ours["nodeSelector"] = {ZONE: "a"}
    assert lands(admin, pods_path, asks(pods_path, "quiet", ours)) == FULL
    assert lands(admin, pods_path, asks(pods_path, "loud")) == EMPTY
    assert lands(admin, pods_path, asks(pods_path, "neither")) == FULL


def test_a_pod_goes_near_pods_that_it_names_and_waits_for_them(admin: Api, pods_path: str) -> None:
    other(admin, pods_path, "cache", EMPTY)
    assert (
        lands(admin, pods_path, asks(pods_path, "reader", near("podAffinity", ZONE, "cache")))
        == EMPTY
    )
    waits(
        admin,
        pods_path,
        asks(pods_path, "early", near("podAffinity", ZONE, "late")),
        "2 no pod that it is to be near",
    )
    other(admin, pods_path, "late", EMPTY)
    assert admin.until(f"{pods_path}/early", is_bound)["spec"]["nodeName"] == EMPTY
    together = near("podAffinity", ZONE, "herd")
    places = {
        lands(admin, pods_path, asks(pods_path, f"herd-{n}", together, "herd")) for n in range(2)
    }
    assert len(places) == 1


def test_pods_are_spread_as_they_say(admin: Api, pods_path: str, pool: ClusterPool) -> None:
    rule = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    pool.kill()
    for n in range(4):
        admin.create(
            pods_path, asks(pods_path, f"web-{n}", {"topologySpreadConstraints": [rule]}, "web")
        )
    pool.start(**SETTINGS)
    nodes = [admin.until(f"{pods_path}/web-{n}", is_bound)["spec"]["nodeName"] for n in range(4)]
    assert sorted(nodes) == [FULL, FULL, EMPTY, EMPTY]


# --- volumes ----------------------------------------------------------------------------------


@pytest.fixture
def storage(admin: Api, pods_path: str) -> Iterator[Callable[..., None]]:
    """Makes a claim, and what is said of a class and a volume for it; names begin with the test's
    namespace."""
    made: list[str] = []
    space = pods_path.split("/")[4]

    def make(
        name: str,
        *,
        kind: dict[str, Any] | None = None,
        zone: str = "",
        modes: str = "ReadWriteOnce",
    ) -> None:
        own = f"{space}-{name}"
        spec: dict[str, Any] = {
            "accessModes": [modes],
            "resources": {"requests": {"storage": "1Gi"}},
        }
        if kind is not None:
            spec["storageClassName"] = own
            made.append(f"{STORAGE}/{own}")
            meta = {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": own},
            }
            admin.create(STORAGE, {**meta, "provisioner": "example.com/disk", **kind})
        else:
            spec["storageClassName"] = ""
        if zone:
            made.append(f"{VOLUMES}/{own}")
            admin.create(
                VOLUMES, volume(own, zone, spec["storageClassName"], modes, f"{space}/{name}")
            )
        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name},
            "spec": spec,
        }
        admin.create(f"/api/v1/namespaces/{space}/persistentvolumeclaims", claim)

    yield make
    for path in made:
        admin.delete(path)


def volume(name: str, zone: str, kind: str, modes: str, owner: str) -> Object:
    """A PersistentVolume that only nodes of these zones reach, kept for that claim."""
    space, claim = owner.split("/")
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": zone.split()}]}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": [modes],
        "storageClassName": kind,
        "claimRef": {"namespace": space, "name": claim},
        "persistentVolumeReclaimPolicy": "Retain",
        "csi": {"driver": "example.com", "volumeHandle": name},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": spec,
    }


def bound(admin: Api, pods_path: str, claim: str) -> None:
    path = pods_path.replace("/pods", f"/persistentvolumeclaims/{claim}")
    admin.until(path, lambda found: found["status"]["phase"] == "Bound")


def test_a_bound_volume_says_where(
    admin: Api, pods_path: str, storage: Callable[..., None]
) -> None:
    storage("disk", zone="b")
    bound(admin, pods_path, "disk")
    assert lands(admin, pods_path, with_claim(asks(pods_path, "data"), "disk")) == EMPTY


def test_a_volume_that_is_free_for_a_later_claim_says_where(
    admin: Api, pods_path: str, storage: Callable[..., None]
) -> None:
    storage(
        "local",
        kind={"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": LATER},
        zone="b",
    )
    assert lands(admin, pods_path, with_claim(asks(pods_path, "data"), "local")) == EMPTY
    storage(
        "none", kind={"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": LATER}
    )
    waits(admin, pods_path, with_claim(asks(pods_path, "later"), "none"), "none", "is free for it")


def test_a_class_that_makes_volumes_in_one_zone_says_where(
    admin: Api, pods_path: str, storage: Callable[..., None]
) -> None:
    zone = [{"matchLabelExpressions": [{"key": ZONE, "values": ["b"]}]}]
    storage("zonal", kind={"volumeBindingMode": LATER, "allowedTopologies": zone})
    admin.create(pods_path, with_claim(asks(pods_path, "data"), "zonal"))
    # Nobody makes the volume here, so the scheduler goes no further than choosing the node.
    path = pods_path.replace("/pods", "/persistentvolumeclaims/zonal")
    chosen = admin.until(
        path,
        lambda found: (
            "volume.kubernetes.io/selected-node" in found["metadata"].get("annotations", {})
        ),
    )
    assert chosen["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] == EMPTY


def test_a_claim_without_a_volume_is_waited_for(
    admin: Api, pods_path: str, storage: Callable[..., None]
) -> None:
    made = with_claim(asks(pods_path, "data"), "made-later")
    waits(admin, pods_path, made, "PersistentVolumeClaim made-later does not exist")
    storage("made-later", zone="b")
    assert admin.until(f"{pods_path}/data", is_bound)["spec"]["nodeName"] == EMPTY
    storage("at-once", kind={"volumeBindingMode": "Immediate"})
    waits(
        admin,
        pods_path,
        with_claim(asks(pods_path, "never"), "at-once"),
        "at-once has no volume yet",
    )


def test_a_claim_for_one_pod_at_a_time_is_waited_for(
    admin: Api, pods_path: str, storage: Callable[..., None]
) -> None:
    storage("mine", zone="b", modes="ReadWriteOncePod")
    bound(admin, pods_path, "mine")
    assert lands(admin, pods_path, with_claim(asks(pods_path, "one"), "mine")) == EMPTY
    waits(
        admin, pods_path, with_claim(asks(pods_path, "two"), "mine"), "mine is used by another pod"
    )
    admin.delete(f"{pods_path}/one?gracePeriodSeconds=0")
    admin.until(f"{pods_path}/two", is_bound)


@pytest.fixture
def driver(admin: Api) -> Iterator[str]:
    """It attaches one volume to each node, and to the first it has."""
    name, made = "example.com", []
    for node in (FULL, EMPTY):
        found = {"name": name, "nodeID": node, "allocatable": {"count": 1}}
        meta = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": node}}
        made.append(f"{CSI_NODES}/{node}")
        admin.create(CSI_NODES, {**meta, "spec": {"drivers": [found]}})
    made.append(attach(admin, FULL, "of-another"))
    yield name
    for path in filter(admin.find, made):
        admin.delete(path)


def attach(admin: Api, node: str, what: str) -> str:
    """Say that the volume is attached there; the path of what says so."""
    spec = {"attacher": "example.com", "nodeName": node, "source": {"persistentVolumeName": what}}
    meta = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": {"name": f"{node}-{what}"},
    }
    admin.create(ATTACHMENTS, {**meta, "spec": spec})
    return f"{ATTACHMENTS}/{node}-{what}"


def test_a_node_with_as_many_volumes_as_its_driver_attaches_gets_no_more(
    admin: Api, pods_path: str, storage: Callable[..., None], driver: str
) -> None:
    for name in ("one", "two"):
        storage(name, zone="a b")
        bound(admin, pods_path, name)
    assert lands(admin, pods_path, with_claim(asks(pods_path, "next"), "one")) == EMPTY
    made = with_claim(asks(pods_path, "later"), "two")
    assert (
        waits(admin, pods_path, made, f"2 too many volumes of {driver}: 1 can be attached")
        == "Unschedulable"
    )
    admin.delete(f"{ATTACHMENTS}/{FULL}-of-another")
    assert admin.until(f"{pods_path}/later", is_bound)["spec"]["nodeName"] == FULL
