"""Networks of Tenants carried out by Kube-OVN's own controller, down to OVN's northbound database."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from gpupool.kubernetes.resources.tenant import TENANTS
from tests.kubernetes.test_tenant_networks import (
    SWITCH,
    apply,
    install_definitions,
    install_rights,
    is_refused,
    list_ours,
    pod,
    uninstall,
    until_condition,
)
from tests.support.cluster.api import Api, Object
from tests.support.cluster.cluster import Cluster
from tests.support.cluster_pool import ClusterPool
from tests.support.kube_ovn_networks import build_network, build_wide_network
from tests.support.operators.kube_ovn import NAMESPACE, Northbound, running, why_not

ADDRESS = "ovn.kubernetes.io/ip_address"
SPACES = ("vision", "speech")
#: What enables NAT gateways in Kube-OVN. No node runs the image here.
NAT_GATEWAYS = {
    "ovn-vpc-nat-gw-config": {"enable-vpc-nat-gw": "true"},
    "ovn-vpc-nat-config": {"image": "docker.io/kubeovn/vpc-nat-gateway:v1.17.0"},
}


@pytest.fixture(scope="module")
def northbound(cluster: Cluster, pool: ClusterPool) -> Iterator[Northbound]:
    """Kube-OVN on its definitions, two namespaces, and a pool that manages networks."""
    if reason := why_not():
        pytest.skip(reason)
    for space in SPACES:
        cluster.access().namespace(space)
        pool.admin.until(f"/api/v1/namespaces/{space}/serviceaccounts/default", bool)
    install_definitions(pool.admin)
    with running(cluster) as database:
        yield database
        pool.admin.delete(TENANTS)
        pool.until(lambda: not list_ours(pool.admin), "nothing of the tenants", 60)
    uninstall(pool.admin)


@pytest.fixture(scope="module")
def networks(pool: ClusterPool, northbound: Northbound) -> None:
    install_rights(pool.admin)
    pool.until(lambda: is_refused(pool.admin, "speech", {SWITCH: "x"}), "the policy in effect")
    pool.kill()
    pool.start("--kube-ovn-namespace", NAMESPACE)


def annotations_of(found: Object) -> dict[str, str]:
    notes: dict[str, str] = found["metadata"].get("annotations") or {}
    return notes


def create_pod(
    admin: Api,
    space: str,
    name: str,
    annotations: dict[str, str],
    labels: dict[str, str] | None = None,
) -> Object:
    """A pod on a node, as kube-scheduler leaves it; with the address that Kube-OVN gives it."""
    made = pod(name, annotations)
    made["metadata"]["labels"] = labels or {}
    made["spec"]["nodeName"] = "operators-00000"
    path = f"/api/v1/namespaces/{space}/pods"
    admin.create(path, made)
    return admin.until(f"{path}/{name}", lambda one: ADDRESS in annotations_of(one), 30)


def test_without_the_policy_a_pod_gets_into_the_network_of_another(
    pool: ClusterPool, northbound: Northbound
) -> None:
    """Why there is a policy. Fails once Kube-OVN compares the namespace itself."""
    subnet = {
        "apiVersion": "kubeovn.io/v1",
        "kind": "Subnet",
        "metadata": {"name": "open"},
        "spec": {"protocol": "IPv4", "cidrBlock": "10.77.0.0/24", "namespaces": ["speech"]},
    }
    path = "/apis/kubeovn.io/v1/subnets"
    pool.admin.create(path, subnet)
    pool.until(lambda: "open" in northbound.list_names("Logical_Switch"), "the switch in OVN")
    intruder = create_pod(pool.admin, "vision", "intruder", {SWITCH: "open"})
    assert annotations_of(intruder)[ADDRESS].startswith("10.77.0.")
    pool.admin.delete("/api/v1/namespaces/vision/pods/intruder?gracePeriodSeconds=0")
    pool.admin.delete(f"{path}/open")
    pool.admin.until_gone(f"{path}/open")


def test_two_peered_tenants_with_their_pods_are_in_ovn(
    pool: ClusterPool, northbound: Northbound, networks: None
) -> None:
    admin = pool.admin
    apply(admin, "vision", build_network("10.1.0.0/24", "speech"), "vision")
    begin = time.monotonic()
    apply(admin, "speech", build_network("10.2.0.0/24", "vision"), "speech")
    for name in SPACES:
        until_condition(pool, name, "NetworkInForce", "True", "reports every object in force")
        until_condition(pool, name, "PeeringsInForce", "True", "joined with")
    print(f"two peered networks in force after {time.monotonic() - begin:.1f} s")
    switches = {"gp-vision--main", "gp-speech--main"}
    assert switches <= northbound.list_names("Logical_Switch")
    assert {"gp-vision", "gp-speech"} <= northbound.list_names("Logical_Router")
    ports = northbound.list_names("Logical_Router_Port")
    assert {"gp-vision-gp-speech", "gp-speech-gp-vision"} <= ports
    assert "10.2.0.0/24" in northbound.ask("lr-route-list", "gp-vision")

    for name, prefix in (("vision", "10.1.0."), ("speech", "10.2.0.")):
        made = create_pod(admin, name, "worker", {})
        assert annotations_of(made)[ADDRESS].startswith(prefix)
        assert f"worker.{name}" in northbound.ask("lsp-list", f"gp-{name}--main")


def test_the_pod_that_names_the_network_of_another_is_refused(
    pool: ClusterPool, networks: None
) -> None:
    assert is_refused(pool.admin, "vision", {SWITCH: "gp-speech--main"})
    assert is_refused(pool.admin, "vision", {ADDRESS: "10.1.0.77"})


def test_overlapping_tenants_stay_apart_and_a_repair_reaches_ovn(
    pool: ClusterPool, northbound: Northbound, networks: None
) -> None:
    """Kube-OVN deletes the switch of a subnet that is deleted; the pool makes both again."""
    admin = pool.admin
    pool.admin.delete("/api/v1/namespaces/speech/pods/worker?gracePeriodSeconds=0")
    apply(admin, "speech", build_network("10.2.0.0/24"), "speech")
    pool.until(
        lambda: "gp-vision-gp-speech" not in northbound.list_names("Logical_Router_Port"),
        "no port between the two",
    )
    path = "/apis/kubeovn.io/v1/subnets/gp-speech--main"
    before = northbound_uuid(northbound, "gp-speech--main")
    admin.delete(path)

    def is_again() -> bool:
        return northbound_uuid(northbound, "gp-speech--main") not in ("", before)

    pool.until(is_again, "another switch in OVN", 60)
    until_condition(pool, "speech", "NetworkInForce", "True", "reports every object in force")


def northbound_uuid(northbound: Northbound, switch: str) -> str:
    return northbound.ask(
        "--bare", "--columns=_uuid", "find", "Logical_Switch", f"name={switch}"
    ).strip()


def test_a_gateway_gets_its_pod_its_route_and_its_balancer(
    pool: ClusterPool, cluster: Cluster, northbound: Northbound, networks: None
) -> None:
    """No image runs here, so Kube-OVN reports no address of the gateway, and the status names them."""
    admin = pool.admin
    for space in ("vision-train", "vision-serve"):
        cluster.access().namespace(space)
        admin.until(f"/api/v1/namespaces/{space}/serviceaccounts/default", bool)
    for name, data in NAT_GATEWAYS.items():
        path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{name}"
        meta = {"name": name}
        admin.apply(path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data})
    outside = {
        "apiVersion": "kubeovn.io/v1",
        "kind": "Subnet",
        "metadata": {"name": "outside"},
        "spec": {
            "protocol": "IPv4",
            "cidrBlock": "203.0.113.0/24",
            "gateway": "203.0.113.1",
            "provider": "outside.kube-system",
            "disableGatewayCheck": True,
        },
    }
    admin.apply("/apis/kubeovn.io/v1/subnets/outside", outside)
    # The new subnet has the addresses of the old one, which lasts as long as its pod.
    apply(admin, "vision", build_wide_network(), "vision-train", "vision-serve")
    until_condition(pool, "vision", "NetworkInForce", "False", "Subnet gp-vision--train")
    admin.delete("/api/v1/namespaces/vision/pods/worker?gracePeriodSeconds=0")
    worker = create_pod(admin, "vision-serve", "web", {}, {"app": "web"})
    address = annotations_of(worker)[ADDRESS]
    ready = {"type": "Ready", "status": "True"}
    status = {
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": [ready],
    }
    admin.merge("/api/v1/namespaces/vision-serve/pods/web/status", {"status": status})

    gateway = f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets/vpc-nat-gw-gp-vision"
    admin.until(gateway, bool, 30)
    admin.until(f"/api/v1/namespaces/{NAMESPACE}/pods/vpc-nat-gw-gp-vision-0", bool, 30)
    assert "10.1.0.254" in northbound.ask("lr-route-list", "gp-vision")
    pool.until(
        lambda: f"{address}:8080" in northbound.ask("lb-list"), "the balancer's pod in OVN", 60
    )
    until_condition(pool, "vision", "NetworkInForce", "False", "IptablesEIP gp-vision--in")
    admin.delete("/api/v1/namespaces/vision-serve/pods/web?gracePeriodSeconds=0")
    apply(admin, "vision", build_network("10.3.0.0/24"), "vision")
    until_condition(pool, "vision", "NetworkInForce", "True", "reports every object in force")

    def is_gone() -> bool:
        # No kubelet ends the gateway's pod here.
        admin.delete(f"/api/v1/namespaces/{NAMESPACE}/pods?gracePeriodSeconds=0")
        return set(list_ours(admin)) == {"Vpc", "Subnet"}

    pool.until(is_gone, "nothing of the gateway", 60)


def test_a_deleted_tenant_leaves_nothing_in_ovn(
    pool: ClusterPool, northbound: Northbound, networks: None
) -> None:
    assert list_rows(northbound) >= {"gp-vision", "gp-vision--main", "gp-speech"}
    for name in SPACES:
        pool.admin.delete(f"{TENANTS}/{name}")
    pool.until(lambda: not list_rows(northbound), "no switch and no router of the tenants", 60)


def list_rows(northbound: Northbound) -> set[str]:
    """Switches and routers of Tenants."""
    rows = northbound.list_names("Logical_Switch") | northbound.list_names("Logical_Router")
    return {name for name in rows if name.startswith("gp-")}
